//! The claims of arXiv 2605.10090 beside what the simulator gives. Its files are in `results/lab/2026-11`.
//!
//! | file | holds |
//! |---|---|
//! | `groups.rs` | what is simulated |
//! | `runs.rs` | what is kept of it (`paper.json`) |
//! | `claims.rs` | what the paper claims, where a figure agrees, and what explains a difference |
//! | `evidence.rs` | what emulated caches and machines gave, read from their reports |
//! | `parts.rs` | what the coarse parts of the model change of it |
//! | `page.rs` | `paper.md` |
//! | `spread.rs` | a figure of several seeds |
//! | `picture.rs` | `img/locality.svg` and `img/size.svg` |

pub mod claims;
pub mod evidence;
pub mod groups;
pub mod page;
pub mod parts;
pub mod picture;
pub mod runs;
pub mod spread;
