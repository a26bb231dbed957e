//! A set of groups that is read without a lock.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Step, left_out};

/// A set of groups: those with a worker to spare, or those whose queue is worth crossing for.
///
/// A bit changes only under the lock of its group, and only when that crosses the threshold. Reading is lock-free; a
/// reader that acts on a bit confirms it under that lock.
pub(crate) struct GroupSet {
    /// Each on a line of its own: two sets of one word would else lie on the same one.
    words: Box<[CachePadded<AtomicU64>]>,
}

impl GroupSet {
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            words: (0..groups.div_ceil(64))
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Adds `group`, then orders that before the caller's next look at another set or queue.
    pub(crate) fn insert(&self, group: usize) {
        self.words[group / 64].fetch_or(1 << (group % 64), Ordering::AcqRel);
        if !left_out(Step::FenceOfSpare) {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn remove(&self, group: usize) {
        self.words[group / 64].fetch_and(!(1 << (group % 64)), Ordering::AcqRel);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words
            .iter()
            .all(|word| word.load(Ordering::Acquire) == 0)
    }

    pub(crate) fn contains(&self, group: usize) -> bool {
        self.words[group / 64].load(Ordering::Acquire) & (1 << (group % 64)) != 0
    }
}
