//! The simulator against three instruments: `make validate`. `results/lab/2026-11/validation.md` has the results.
//!
//! | file | holds |
//! |---|---|
//! | `case` | a figure of an instrument beside the simulator's, and the table of all |
//! | `emulated` | the emulated caches of `lab/caches` |
//! | `host` | the real executor on this machine |
//! | `cachegrind` | valgrind's model of caches |
//! | `graphs` | graphs whose own searches the simulator makes |
//! | `probe` | what reading takes on this machine |
//! | `child` | other programs, ended with this one |

pub mod cachegrind;
pub mod case;
pub mod child;
pub mod emulated;
pub mod graphs;
pub mod host;
mod probe;
