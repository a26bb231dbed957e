//! One table's tasks of one class in a domain's queue, and what is known of how long they take.

use std::collections::VecDeque;

use super::flows::NOWHERE;
use super::ring::Slot;
use super::service::Service;

/// The buffer of a flood is kept up to so many tasks.
const KEPT: usize = 16;

/// A table's tasks of one class.
pub(super) struct Flow<T> {
    /// Positions in the ring of its first and its last task, if any waits there.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Tasks that wait.
    pub(super) len: u32,
    /// The worker of the domain that last ran this table.
    pub(super) worker: Option<u32>,
    /// Queries of the waiting tasks.
    pub(super) queries: u64,
    /// What each of these costs, in nanoseconds; 0 if it is unknown.
    pub(super) cost: u64,
    /// How far apart they come if their table asks for just its share.
    pub(super) apart: u64,
    /// When the task that came last would have come, had its table kept to its share.
    newest: u64,
    /// The table's weight, as of the last task that came.
    pub(super) weight: f32,
    /// Whether it has asked for more than its share since it was empty.
    pub(super) over: bool,
    /// Its place among flows over their share.
    pub(super) tag: u64,
    /// How much longer its tasks have taken than they were charged, in nanoseconds; counted while it is over its share.
    pub(super) uncharged: i64,
    /// Its tasks, while it is over its share.
    pub(super) flood: VecDeque<Slot<T>>,
    pub(super) service: Service,
}

impl<T> Flow<T> {
    pub(super) fn new() -> Self {
        Self {
            first: NOWHERE,
            last: NOWHERE,
            len: 0,
            worker: None,
            queries: 0,
            cost: 0,
            apart: 0,
            newest: 0,
            weight: 1.0,
            over: false,
            tag: 0,
            uncharged: 0,
            flood: VecDeque::new(),
            service: Service::default(),
        }
    }

    /// What waits of it, in nanoseconds, as far as that is known. Sums of this are exact as they may begin anew at
    /// 2^64.
    #[inline]
    pub(super) fn work(&self) -> u64 {
        self.queries.wrapping_mul(self.cost)
    }

    /// How far a task that takes `nanos` moves the flow's tag on.
    pub(super) fn step(&self, nanos: u64, workers: u64) -> u64 {
        let time = nanos as f64 / workers as f64;
        ((time / f64::from(self.weight)) as u64).max(1)
    }

    /// What the next task is charged: what it is `expected` to take, and what earlier ones were charged too little. If
    /// those were charged too much, as tasks are that turn out to be dead, it is charged less.
    pub(super) fn charge(&mut self, expected: u64) -> u64 {
        let due = expected.saturating_add_signed(self.uncharged);
        self.uncharged += expected as i64 - due as i64;
        due
    }

    /// Takes note of a task that comes at `at`, accepted or not, if the table's tasks come `apart` from each other
    /// where it asks for just its share. It counts as `lead` too early at most.
    #[inline]
    pub(super) fn ask(&mut self, at: u64, apart: u64, lead: u64) {
        self.newest = self.newest.saturating_add(apart).min(at + lead).max(at);
    }

    /// By how much the task that came last was too early, as it is at `now`.
    #[inline]
    pub(super) fn early(&self, now: u64) -> u64 {
        self.newest.saturating_sub(now)
    }

    /// What waits was asked for before anybody knew what it takes; that is `apart` in all.
    pub(super) fn asked(&mut self, now: u64, apart: u64) {
        self.newest = now.saturating_add(apart);
    }

    /// Adds a task to a flood.
    pub(super) fn append(&mut self, slot: Slot<T>) {
        self.len += 1;
        match self.flood.back() {
            // It has come from another group, or its submitter was held up on its way here.
            Some(last) if last.at > slot.at => {
                let place = self.flood.partition_point(|other| other.at <= slot.at);
                self.flood.insert(place, slot);
            }
            _ => self.flood.push_back(slot),
        }
    }

    /// The next task of a flood.
    pub(super) fn pop(&mut self) -> Option<Slot<T>> {
        let slot = self.flood.pop_front()?;
        self.len -= 1;
        if self.flood.is_empty() && self.flood.capacity() > KEPT {
            self.flood = VecDeque::new();
        }
        Some(slot)
    }

    /// Looks at tasks of a flood from the one of that number on, as many as there are `steps`, and takes those out for
    /// which `dead` holds, which are counted as waiting still. True if it has come to the end; else `at` is where to go
    /// on.
    pub(super) fn extract(
        &mut self,
        at: &mut usize,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(Slot<T>),
    ) -> bool {
        // Some of those that were looked at may have left since.
        let first = (*at).min(self.flood.len());
        let end = self.flood.len().min(first.saturating_add(*steps));
        *steps -= end - first;
        let mut living = first;
        for at in first..end {
            let is_dead = self.flood[at].task.as_ref().is_some_and(&mut dead);
            if !is_dead {
                self.flood.swap(living, at);
                living += 1;
            }
        }
        self.flood.drain(living..end).for_each(&mut out);
        *at = living;
        living == self.flood.len()
    }
}
