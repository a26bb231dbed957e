//! Sets of caches.

use serde::Serialize;

/// Lines of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ways {
    /// Of an L2.
    pub l2: u32,
    /// Of an L3.
    pub l3: u32,
}
