//! One table's tasks of one class in a domain's queue, and what is known of how long they take.

use std::collections::VecDeque;

use super::Effort;
use super::cold::OUTLIER;
use super::service::Service;

/// The buffer of a flow in which nothing waits is kept if it has room for no more tasks than this.
const KEPT: usize = 32;

/// A waiting task.
pub(super) struct Slot<T> {
    /// `None` once it has been taken out of turn.
    pub(super) task: Option<T>,
    /// When it was accepted, in nanoseconds since the scheduler was made.
    pub(super) at: u64,
    /// Queries that it answers.
    pub(super) queries: u32,
    pub(super) effort: Option<Effort>,
}

/// A table's tasks of one class.
pub(super) struct Flow<T> {
    /// In order; the first one waits, others may have been taken out.
    pub(super) slots: VecDeque<Slot<T>>,
    /// Tasks that wait.
    pub(super) len: usize,
    /// Their queries.
    pub(super) queries: u64,
    /// What each of these costs, in nanoseconds; 0 if it is unknown.
    pub(super) cost: u64,
    /// The table's weight, as of the last task that came.
    pub(super) weight: f32,
    /// So many of its oldest entries in the ring stand for slots that have left.
    pub(super) skips: usize,
    /// It is served in turns of its own.
    pub(super) is_backlogged: bool,
    /// Far more waits of it than of others, or did when that was seen; until it is empty.
    pub(super) is_flood: bool,
    /// Where its next task stands in virtual time.
    pub(super) tag: u128,
    /// How much longer its tasks have taken than they were charged, in nanoseconds.
    uncharged: i64,
    pub(super) service: Service,
}

impl<T> Flow<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            len: 0,
            queries: 0,
            cost: 0,
            weight: 1.0,
            skips: 0,
            is_backlogged: false,
            is_flood: false,
            tag: 0,
            uncharged: 0,
            service: Service::default(),
        }
    }

    /// What waits of it, in nanoseconds, as far as that is known. Sums of this are exact as they may begin anew at
    /// 2^64.
    #[inline]
    pub(super) fn work(&self) -> u64 {
        self.queries.wrapping_mul(self.cost)
    }

    /// When its next task came.
    #[inline]
    pub(super) fn since(&self) -> Option<u64> {
        Some(self.slots.front()?.at)
    }

    /// Adds a task, for which there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: Slot<T>) {
        self.len += 1;
        self.queries += u64::from(slot.queries);
        match self.slots.back() {
            // Its submitter was held up on its way here.
            Some(last) if last.at > slot.at => {
                let place = self.slots.partition_point(|other| other.at <= slot.at);
                self.slots.insert(place, slot);
            }
            _ => self.slots.push_back(slot),
        }
    }

    /// Takes the oldest task out. Gives how many slots have left with it.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(Slot<T>, usize)> {
        let slot = self.slots.pop_front()?;
        self.len -= 1;
        self.queries -= u64::from(slot.queries);
        Some((slot, 1 + self.trim()))
    }

    /// Has its first slot be one that waits. Gives how many have left.
    #[inline(always)]
    fn trim(&mut self) -> usize {
        let mut left = 0;
        while self.slots.front().is_some_and(|slot| slot.task.is_none()) {
            self.slots.pop_front();
            left += 1;
        }
        left
    }

    /// Keeps those slots only that wait.
    pub(super) fn compact(&mut self) {
        self.slots.retain(|slot| slot.task.is_some());
    }

    /// Nothing waits any more: a large buffer is given back.
    #[inline]
    pub(super) fn ends(&mut self) {
        (self.is_backlogged, self.is_flood, self.uncharged) = (false, false, 0);
        if self.slots.capacity() > KEPT {
            self.slots = VecDeque::new();
        }
    }

    /// One of its tasks was charged as `charged` and took `spent`. One that blocked, or lost its core, is charged as a
    /// few others at most.
    #[inline]
    pub(super) fn settle(&mut self, charged: u64, spent: u64) {
        let spent = spent.min(charged.saturating_mul(OUTLIER));
        self.uncharged += spent as i64 - charged as i64;
    }

    /// Moves its tag on by a task that is `expected` to take so long, and by what earlier ones were charged too little;
    /// by less if those were charged too much, as tasks are that turn out to be dead. It counts with so many times its
    /// weight.
    pub(super) fn charge(&mut self, expected: u64, times: f64) {
        let due = expected.saturating_add_signed(self.uncharged);
        self.uncharged += expected as i64 - due as i64;
        let step = due as f64 / (times * f64::from(self.weight));
        self.tag += (step as u128).max(1);
    }

    /// Looks at its slots from the one of that number on, as many as there are `steps`, and takes those tasks out for
    /// which `dead` holds. `at` is where to go on: after its last slot if it has come to the end. Gives how many slots
    /// have left at its beginning.
    pub(super) fn extract(
        &mut self,
        at: &mut usize,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(T, &Slot<T>),
    ) -> usize {
        // Some of those that were looked at may have left since.
        let first = (*at).min(self.slots.len());
        let end = self.slots.len().min(first.saturating_add(*steps));
        *steps -= end - first;
        for slot in self.slots.range_mut(first..end) {
            if let Some(task) = slot.task.take_if(|task| dead(task)) {
                self.len -= 1;
                self.queries -= u64::from(slot.queries);
                out(task, slot);
            }
        }
        let left = self.trim();
        *at = end.saturating_sub(left);
        left
    }
}

/// Where a search of a queue's tasks goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchAt {
    pub(super) order: usize,
    /// Place of a flow.
    pub(super) flow: usize,
    /// Which of its slots.
    pub(super) slot: usize,
}
