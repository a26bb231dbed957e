//! What the caches of the collections' files may take.
//!
//! The points are all in memory. A cache only has to hold the upper pages of its file's tree.

use std::sync::Arc;

use parking_lot::Mutex;

/// Caches of all files together, beside the least that each has.
const MOST: usize = 32 << 20;
/// The part of the memory limit that they take at most.
const PART: u64 = 16;
const LARGEST: usize = 4 << 20;
const LEAST: usize = 128 << 10;

/// What the caches of all files may still take.
pub(crate) struct Caches(Mutex<usize>);

/// A file's part of that; given back when the file is closed.
pub(super) struct Cache {
    bytes: usize,
    of: Arc<Caches>,
}

impl Caches {
    /// For a server that may take `limit` bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let part = usize::try_from(limit / PART).unwrap_or(usize::MAX);
        Arc::new(Self(Mutex::new(part.min(MOST))))
    }

    /// An eighth of what is left, so that many files have some and the first no more than they need.
    pub(super) fn part(self: &Arc<Self>) -> Cache {
        let mut left = self.0.lock();
        let bytes = (*left / 8).min(LARGEST);
        *left -= bytes;
        Cache {
            bytes,
            of: Arc::clone(self),
        }
    }
}

impl Cache {
    pub(super) fn size(&self) -> usize {
        self.bytes.max(LEAST)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        *self.of.0.lock() += self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_many_files_have_one_bound() {
        let caches = Caches::new(u64::MAX);
        let open: Vec<Cache> = (0..1_000).map(|_| caches.part()).collect();
        let all: usize = open.iter().map(Cache::size).sum();
        assert!(all <= MOST + 1_000 * LEAST, "{all} bytes");
        assert_eq!((open[0].size(), open[999].size()), (LARGEST, LEAST));
        drop(open);
        assert_eq!(*caches.0.lock(), MOST);
        let small = Caches::new(64 << 20);
        assert_eq!(*small.0.lock(), 4 << 20);
        assert_eq!(small.part().size(), 512 << 10);
    }
}
