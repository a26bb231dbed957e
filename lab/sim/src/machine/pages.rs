//! Address translation: what a core's TLB covers, and what it takes beyond that.

use serde::Serialize;

/// Pages of tables, and the second-level TLB of a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pages {
    /// Bytes of a page.
    pub bytes: u64,
    /// Pages that a core's second-level TLB holds.
    pub entries: u32,
    /// Nanoseconds of a page walk whose last entry is in the L2. An entry that is not there takes as long as any line
    /// from where it is; upper levels are taken to be in the walker's caches.
    pub walk_ns: f64,
    /// Page walks that a core has under way at a time.
    pub walkers: f64,
}

/// Bytes of a page table's entry.
const ENTRY: u64 = 8;

impl Pages {
    /// 4 KiB on Zen 4, whose second-level data TLB has 3072 entries. Six walkers, and 4 ns for an entry in the L2, are
    /// assumed.
    pub const SMALL: Self = Self {
        bytes: 4 << 10,
        entries: 3072,
        walk_ns: 4.0,
        walkers: 6.0,
    };

    /// 2 MiB there, for which the same entries are used.
    pub const HUGE: Self = Self {
        bytes: 2 << 20,
        ..Self::SMALL
    };

    /// Pages that so many bytes lie in, which begin at a cache line: on average.
    pub(crate) fn of(&self, bytes: f64) -> f64 {
        1.0 + (bytes - 64.0).max(0.0) / self.bytes as f64
    }

    /// Bytes of a table whose entries lie in one cache line.
    pub(crate) fn a_line(&self) -> u64 {
        self.bytes * 64 / ENTRY
    }
}
