//! `Granted`: what the system has given a region.

use crate::Pages;

/// The memory that the system has given a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// What was asked for; `None` for a file.
    pub pages: Option<Pages>,
    /// Bytes of address space: the region's, rounded up to its pages.
    pub reserved: usize,
    /// Bytes that are in memory now. `None` where the system does not say: on the heap (under 64 KiB), without `/proc`,
    /// on other systems than Linux.
    ///
    /// The kernel counts by areas of the address space, and makes one of two neighbours that are alike. A region that
    /// shares its area is given its share of it by size.
    pub resident: Option<usize>,
    /// How many of them are in huge pages; `None` as above.
    pub huge: Option<usize>,
}
