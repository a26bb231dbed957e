//! Caches as sets of blocks that are replaced by least recent use.

mod hits;
mod lru;
mod memory;
mod sets;

pub(crate) use hits::{Hits, Lines};
pub(crate) use lru::Lru;
pub(crate) use memory::Caches;
