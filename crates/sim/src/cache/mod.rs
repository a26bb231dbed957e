//! Caches as sets of blocks that are replaced by least recent use.

mod lru;
mod memory;
mod sets;

pub(crate) use lru::Lru;
pub(crate) use memory::{Caches, Hits, Lines};
