//! The claims of arXiv 2605.10090 beside what the simulator gives.
//!
//! | file | holds |
//! |---|---|
//! | `runs.rs` | what is simulated, and what is kept of it (`docs/paper.json`) |
//! | `claims.rs` | what the paper claims, where a figure agrees, and what explains a difference |
//! | `page.rs` | `docs/paper.md` |
//! | `picture.rs` | `docs/img/locality.svg` |

pub mod claims;
pub mod page;
pub mod picture;
pub mod runs;
