//! The claims of arXiv 2605.10090 beside what the simulator gives.
//!
//! | file | holds |
//! |---|---|
//! | `groups.rs` | what is simulated |
//! | `runs.rs` | what is kept of it (`docs/paper.json`) |
//! | `claims.rs` | what the paper claims, where a figure agrees, and what explains a difference |
//! | `evidence.rs` | what emulated caches and machines gave, read from their reports |
//! | `parts.rs` | what the coarse parts of the model change of it |
//! | `page.rs` | `docs/paper.md` |
//! | `spread.rs` | a figure of several seeds |
//! | `picture.rs` | `docs/img/locality.svg` and `docs/img/size.svg` |

pub mod claims;
pub mod evidence;
pub mod groups;
pub mod page;
pub mod parts;
pub mod picture;
pub mod runs;
pub mod spread;
