//! One table's tasks of one class in a domain's queue, and what is known of how long they take.

use super::cold::OUTLIER;
use super::service::Service;

/// The number of a waiting task's slot.
pub(super) type SlotId = u32;

/// No slot.
pub(super) const NO_SLOT: SlotId = u32::MAX;

/// The ends of a list of slots, the oldest task first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: SlotId,
    pub(super) last: SlotId,
    pub(super) len: usize,
}

impl Default for List {
    fn default() -> Self {
        let (first, last) = (NO_SLOT, NO_SLOT);
        Self {
            first,
            last,
            len: 0,
        }
    }
}

/// A table's tasks of one class.
#[derive(Default)]
pub(super) struct Flow {
    /// Tasks that wait.
    pub(super) list: List,
    /// Their queries.
    pub(super) queries: u64,
    /// What each of these costs, in nanoseconds; 0 if it is unknown.
    pub(super) cost: u64,
    /// The table's weight, as of the last task that came.
    pub(super) weight: f32,
    /// It has left the ring.
    pub(super) is_backlogged: bool,
    /// Where its next task stands in virtual time.
    pub(super) tag: u128,
    /// How much longer its tasks have taken than they were charged, in nanoseconds.
    uncharged: i64,
    pub(super) service: Service,
}

impl Flow {
    /// What waits of it, in nanoseconds, as far as that is known. Sums of this are exact as they may begin anew at
    /// 2^64.
    #[inline]
    pub(super) fn work(&self) -> u64 {
        self.queries.wrapping_mul(self.cost)
    }

    /// Nothing waits any more.
    #[inline]
    pub(super) fn ends(&mut self) {
        (self.is_backlogged, self.uncharged) = (false, 0);
    }

    /// One of its tasks was charged as `charged` and took `spent`. One that blocked, or lost its core, is charged as a
    /// few others at most.
    #[inline]
    pub(super) fn settle(&mut self, charged: u64, spent: u64) {
        let spent = spent.min(charged.saturating_mul(OUTLIER));
        self.uncharged += spent as i64 - charged as i64;
    }

    /// Moves its tag on by a task that is `expected` to take so long, and by what earlier ones were charged too little;
    /// by less if those were charged too much, as tasks are that turn out to be dead.
    pub(super) fn charge(&mut self, expected: u64) {
        let due = expected.saturating_add_signed(self.uncharged);
        self.uncharged += expected as i64 - due as i64;
        let step = due as f64 / f64::from(self.weight);
        self.tag += (step as u128).max(1);
    }
}
