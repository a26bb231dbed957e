//! Which of a group's threads take tasks.
//!
//! A *slot* is a place for one worker, on one core. Several threads may fill it, one at a time: the worker itself, and
//! its substitutes, which are started when a task of the slot blocks for the first time. So as many threads take tasks
//! as there are slots whose core may be used, however many are inside code that blocks.

use std::ops::Range;

/// Plain data under the group's lock.
pub(super) struct WorkerSlots {
    /// Threads that have been started.
    started: Vec<usize>,
    /// Those of them that are not to take tasks.
    off: Vec<usize>,
    /// Those of these that know, and are parked or about to.
    parked: Vec<usize>,
    /// Threads inside code that blocks.
    blocked: Vec<usize>,
}

/// Who takes tasks in place of a thread that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// A substitute, or nobody because its core may not be used now. Others at any rate see to what waits, and this one
    /// is to be unparked for it.
    Found(Option<usize>),
    /// A substitute that is to be started.
    Start(usize),
    /// Nobody: all that it may have are blocked themselves, or inside a task.
    Nobody,
}

impl WorkerSlots {
    pub(super) fn new(workers: Range<usize>) -> Self {
        Self {
            started: workers.collect(),
            off: Vec::new(),
            parked: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Threads that are to take tasks.
    pub(super) fn at_work(&self) -> usize {
        self.started.len() - self.off.len()
    }

    /// Threads that are inside a task or look for one.
    pub(super) fn active(&self) -> usize {
        self.started.len() - self.parked.len() - self.blocked.len()
    }

    /// Whether `thread` is not to take tasks.
    pub(super) fn is_off(&self, thread: usize) -> bool {
        self.off.contains(&thread)
    }

    /// All that are not to take tasks.
    pub(super) fn off(&self) -> &[usize] {
        &self.off
    }

    /// Which of a slot's threads takes tasks.
    pub(super) fn holder(&self, mut slot: impl Iterator<Item = usize>) -> Option<usize> {
        slot.find(|thread| !self.is_off(*thread) && self.started.contains(thread))
    }

    pub(super) fn send_off(&mut self, thread: usize) {
        self.off.push(thread);
    }

    /// Has one of a slot's threads take tasks, of which none does. Returns which: one that is free, if there is any.
    pub(super) fn recall(&mut self, slot: impl Iterator<Item = usize>) -> usize {
        let burden = |thread: &usize| match () {
            () if self.parked.contains(thread) => 0,
            () if self.blocked.contains(thread) => 2,
            () => 1,
        };
        let thread = slot
            .filter(|thread| self.is_off(*thread))
            .min_by_key(burden);
        let thread = thread.expect("a slot without a holder has its worker off");
        self.off.retain(|&other| other != thread);
        thread
    }

    /// `thread` knows that it is off.
    pub(super) fn park(&mut self, thread: usize) {
        self.parked.push(thread);
    }

    /// `thread` stands by no longer.
    pub(super) fn leave(&mut self, thread: usize) {
        self.parked.retain(|&other| other != thread);
    }

    /// `thread` of `slot` is about to block. If nobody takes the slot's tasks then, another one does from now on, if
    /// there is one: `thread` may be off already, with a substitute that has blocked since.
    pub(super) fn block(
        &mut self,
        thread: usize,
        mut slot: impl Iterator<Item = usize> + Clone,
    ) -> Cover {
        self.blocked.push(thread);
        let Some(holder) = self.stuck(slot.clone()) else {
            return Cover::Found(None);
        };
        let is_free = |other: &usize| {
            !self.started.contains(other) || (self.is_off(*other) && self.parked.contains(other))
        };
        let Some(substitute) = slot.find(is_free) else {
            return Cover::Nobody;
        };
        self.hand_over(holder, substitute);
        if !self.started.contains(&substitute) {
            self.started.push(substitute);
            return Cover::Start(substitute);
        }
        Cover::Found(Some(substitute))
    }

    /// `thread` is off and about to park. If the one that has its slot's place has blocked meanwhile, with nobody to
    /// take it, `thread` does now.
    pub(super) fn take_place(&mut self, thread: usize, slot: impl Iterator<Item = usize>) -> bool {
        let stuck = self.stuck(slot);
        if let Some(holder) = stuck {
            self.hand_over(holder, thread);
        }
        stuck.is_some()
    }

    /// Who has a slot's place and is blocked.
    fn stuck(&self, slot: impl Iterator<Item = usize>) -> Option<usize> {
        let holder = self.holder(slot)?;
        self.blocked.contains(&holder).then_some(holder)
    }

    fn hand_over(&mut self, from: usize, to: usize) {
        self.off.push(from);
        self.off.retain(|&other| other != to);
    }

    /// `substitute` could not be started, so `thread` keeps its place.
    pub(super) fn take_back(&mut self, thread: usize, substitute: usize) {
        let wanted = !self.is_off(substitute);
        let again = if wanted { thread } else { substitute };
        self.off.retain(|&other| other != again);
        self.started.retain(|&other| other != substitute);
    }

    /// `thread` blocks no longer. If another has its place, it stands by after its task.
    pub(super) fn unblock(&mut self, thread: usize) {
        self.blocked.retain(|&other| other != thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One slot: worker 0 and its substitutes 1 and 2.
    const SLOT: std::ops::Range<usize> = 0..3;

    fn slots() -> WorkerSlots {
        WorkerSlots::new(0..1)
    }

    #[test]
    fn one_thread_of_a_slot_takes_tasks_however_many_block() {
        let mut slots = slots();
        assert_eq!(slots.block(0, SLOT), Cover::Start(1));
        assert_eq!(slots.holder(SLOT), Some(1));
        assert_eq!(slots.block(1, SLOT), Cover::Start(2));
        assert_eq!(slots.block(2, SLOT), Cover::Nobody);
        assert_eq!((slots.at_work(), slots.active()), (1, 0));
        slots.unblock(0);
        assert_eq!((slots.at_work(), slots.active()), (1, 1));
        assert_eq!(slots.holder(SLOT), Some(2));
    }

    #[test]
    fn a_thread_that_has_blocked_is_the_next_substitute_once_it_stands_by() {
        let mut slots = slots();
        slots.block(0, SLOT);
        slots.unblock(0);
        assert_eq!(slots.block(1, SLOT), Cover::Start(2));
        slots.unblock(1);
        slots.park(0);
        assert_eq!(slots.block(2, SLOT), Cover::Found(Some(0)));
        assert_eq!(slots.holder(SLOT), Some(0));
    }

    #[test]
    fn a_thread_that_ends_its_task_takes_the_place_of_one_that_has_blocked_meanwhile() {
        let mut slots = WorkerSlots::new(0..1);
        slots.block(0, 0..2);
        slots.unblock(0);
        assert_eq!(slots.block(1, 0..2), Cover::Nobody);
        assert!(slots.take_place(0, 0..2));
        assert_eq!((slots.at_work(), slots.holder(0..2)), (1, Some(0)));
        slots.unblock(1);
        assert!(!slots.take_place(1, 0..2));
    }

    #[test]
    fn a_post_whose_core_is_gone_needs_no_substitute_and_comes_back_with_a_free_thread() {
        let mut slots = slots();
        slots.block(0, SLOT);
        slots.send_off(1);
        slots.park(1);
        assert_eq!((slots.at_work(), slots.holder(SLOT)), (0, None));
        assert_eq!(slots.recall(SLOT), 1);
        slots.leave(1);
        slots.send_off(1);
        assert_eq!(slots.block(1, SLOT), Cover::Found(None));
        slots.unblock(0);
        assert_eq!(slots.recall(SLOT), 0);
        assert_eq!(slots.at_work(), 1);
    }

    #[test]
    fn a_thread_that_is_off_is_covered_only_as_long_as_its_substitute_does_not_block() {
        let mut slots = WorkerSlots::new(0..1);
        assert_eq!(slots.block(0, 0..2), Cover::Start(1));
        slots.unblock(0);
        assert_eq!(slots.block(0, 0..2), Cover::Found(None));
        slots.unblock(0);
        assert_eq!(slots.block(1, 0..2), Cover::Nobody);
        assert_eq!(slots.block(0, 0..2), Cover::Nobody);
        assert_eq!((slots.at_work(), slots.holder(0..2)), (1, Some(1)));
    }

    #[test]
    fn a_thread_that_is_off_has_another_free_one_take_the_place_of_its_blocked_substitute() {
        let mut slots = slots();
        assert_eq!(slots.block(0, SLOT), Cover::Start(1));
        slots.unblock(0);
        assert_eq!(slots.block(1, SLOT), Cover::Start(2));
        slots.take_back(1, 2);
        assert_eq!(slots.block(0, SLOT), Cover::Start(2));
        assert_eq!((slots.at_work(), slots.holder(SLOT)), (1, Some(2)));
    }

    #[test]
    fn a_substitute_that_cannot_be_started_gives_the_place_back() {
        let mut slots = slots();
        assert_eq!(slots.block(0, SLOT), Cover::Start(1));
        slots.take_back(0, 1);
        assert_eq!((slots.at_work(), slots.holder(SLOT)), (1, Some(0)));
        assert_eq!(slots.block(0, SLOT), Cover::Start(1));
        // The core went meanwhile.
        slots.send_off(1);
        slots.take_back(0, 1);
        assert_eq!((slots.at_work(), slots.holder(SLOT)), (0, None));
    }
}
