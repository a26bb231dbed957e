//! What binding a group to a node would gain, and what to do.
//!
//! | file | holds |
//! |---|---|
//! | `law.rs` | the first-order law and its terms |
//! | `room.rs` | what is left on a node, and who takes what is short |
//! | `decide.rs` | the advice for one group |
//! | `words.rs` | the advice in words |
//! | `remedy.rs` | commands and settings that carry it out |
//!
//! All of it is pure. The law is a floor that can be explained, not a promise: it knows latency under the present load,
//! and neither how load changes latency nor that caches are shared. Where two nodes contend for cache, a group can be
//! faster with *more* remote accesses (Tang et al., HPCA 2013: by up to 12 %). Only a trial tells.

mod decide;
mod law;
mod remedy;
mod room;
mod words;

pub(crate) use decide::gains;
pub use decide::{Advice, AdviceConfig, Assessment, Because, Figure, Subject, assess};
pub use law::Terms;
pub use remedy::{Needs, Remedy};
pub use room::{Cache, Neighbour, Resource, Room, Shortage};
