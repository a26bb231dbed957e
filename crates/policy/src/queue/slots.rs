//! Where the waiting tasks of one class lie, and the lists that give them their order.
//!
//! Each task lies in a slot, and is in up to two lists: that of its flow, and that of all flows in order of arrival. So
//! any of them is found, and taken out, in a few steps, wherever it stands in either.

use std::collections::TryReserveError;

use super::flow::{List, NO_SLOT, SlotId};
use super::flows::Place;

/// Slots that are kept while nothing waits.
const KEPT: usize = 4_096;

/// A waiting task.
pub(super) struct Slot<T> {
    /// `None` while the slot is free.
    pub(super) task: Option<T>,
    /// When it was accepted, in nanoseconds since the scheduler was made.
    pub(super) at: u64,
    /// Queries that it answers.
    pub(super) queries: u32,
    /// As [`Terms::expiry`](super::Terms).
    pub(super) expires: u64,
    /// Where its flow is.
    pub(super) place: Place,
    /// By [`Which`] list. Those of free slots are linked by the first.
    links: [Link; 2],
}

impl<T> Slot<T> {
    /// Of a task that is in no list yet.
    pub(super) fn new(task: T, at: u64, (queries, expires): (u32, u64), place: Place) -> Self {
        Self {
            task: Some(task),
            at,
            queries,
            expires,
            place,
            links: [Link::NONE; 2],
        }
    }
}

/// Which of its lists.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// That of all flows which are not backlogged.
    Ring,
    Flow,
}

#[derive(Clone, Copy)]
struct Link {
    before: SlotId,
    after: SlotId,
}

impl Link {
    const NONE: Self = Self {
        before: NO_SLOT,
        after: NO_SLOT,
    };
}

/// All slots.
pub(super) struct Slots<T> {
    all: Vec<Slot<T>>,
    /// The first that is free.
    free: SlotId,
    /// Slots in which a task waits.
    pub(super) waiting: usize,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self {
            all: Vec::new(),
            free: NO_SLOT,
            waiting: 0,
        }
    }

    /// The slot of that number, if there are so many.
    #[inline(always)]
    pub(super) fn get(&self, id: SlotId) -> Option<&Slot<T>> {
        self.all.get(id as usize)
    }

    /// Whether so many tasks more need no memory.
    #[inline(always)]
    pub(super) fn has_room(&self, tasks: usize) -> bool {
        self.all.capacity() - self.waiting >= tasks
    }

    /// Makes room for so many tasks more.
    pub(super) fn grow(&mut self, tasks: usize) -> Result<(), TryReserveError> {
        let free = self.all.len() - self.waiting;
        self.all.try_reserve(tasks.saturating_sub(free))
    }

    /// Puts a task, for which there is room, into a slot.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: Slot<T>) -> SlotId {
        self.waiting += 1;
        match self.all.get_mut(self.free as usize) {
            Some(free) => {
                let id = self.free;
                self.free = free.links[Which::Ring as usize].after;
                *free = slot;
                id
            }
            None => {
                self.all.push(slot);
                (self.all.len() - 1) as SlotId
            }
        }
    }

    /// Takes the task in slot `id` out, which is in no list any more, with its queries and when it expires.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: SlotId) -> Option<(T, u32, u64)> {
        let slot = &mut self.all[id as usize];
        let task = slot.task.take()?;
        slot.links[Which::Ring as usize].after = self.free;
        let taken = (task, slot.queries, slot.expires);
        self.free = id;
        self.waiting -= 1;
        Some(taken)
    }

    /// Gives a large buffer back, where nothing waits.
    #[inline(always)]
    pub(super) fn shrink(&mut self) {
        if self.all.capacity() > KEPT {
            *self = Self::new();
        }
    }

    /// Adds slot `id` to a list of `which` kind, at its end.
    #[inline(always)]
    pub(super) fn link(&mut self, which: Which, list: &mut List, id: SlotId) {
        let before = std::mem::replace(&mut list.last, id);
        list.len += 1;
        self.all[id as usize].links[which as usize] = Link {
            before,
            after: NO_SLOT,
        };
        match self.all.get_mut(before as usize) {
            Some(before) => before.links[which as usize].after = id,
            None => list.first = id,
        }
    }

    /// Adds slot `id` to a list of `which` kind, before the first that came as late or later.
    pub(super) fn insert(&mut self, which: Which, list: &mut List, id: SlotId) {
        let at = self.all[id as usize].at;
        let is_later = |&(_, slot): &(SlotId, &Slot<T>)| slot.at >= at;
        let Some((after, _)) = self.iter(which, list).find(is_later) else {
            return self.link(which, list, id);
        };
        let before = std::mem::replace(
            &mut self.all[after as usize].links[which as usize].before,
            id,
        );
        list.len += 1;
        self.all[id as usize].links[which as usize] = Link { before, after };
        match self.all.get_mut(before as usize) {
            Some(before) => before.links[which as usize].after = id,
            None => list.first = id,
        }
    }

    /// Takes slot `id` out of the list of `which` kind in which it is.
    #[inline(always)]
    pub(super) fn unlink(&mut self, which: Which, list: &mut List, id: SlotId) {
        list.len -= 1;
        let Link { before, after } = self.all[id as usize].links[which as usize];
        match self.all.get_mut(before as usize) {
            Some(slot) => slot.links[which as usize].after = after,
            None => list.first = after,
        }
        match self.all.get_mut(after as usize) {
            Some(slot) => slot.links[which as usize].before = before,
            None => list.last = before,
        }
    }

    /// The first slot of a list.
    pub(super) fn first(&self, list: &List) -> Option<SlotId> {
        (list.len > 0).then_some(list.first)
    }

    /// The slot after `id` in a list of `which` kind.
    pub(super) fn after(&self, which: Which, id: SlotId) -> Option<SlotId> {
        let after = self.all[id as usize].links[which as usize].after;
        (after != NO_SLOT).then_some(after)
    }

    /// The slots of a list, in order.
    pub(super) fn iter(
        &self,
        which: Which,
        list: &List,
    ) -> impl Iterator<Item = (SlotId, &Slot<T>)> {
        let after = move |&id: &SlotId| self.after(which, id);
        let slots = std::iter::successors(self.first(list), after);
        slots.map(|id| (id, &self.all[id as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_leaves_either_list_wherever_it_stands_and_its_slot_is_used_again() {
        let mut slots = Slots::new();
        let (mut ring, mut flow) = (List::default(), List::default());
        let mut put = |slots: &mut Slots<u64>, task| {
            let id = slots.put(Slot::new(task, task, (1, u64::MAX), 0));
            slots.link(Which::Ring, &mut ring, id);
            slots.link(Which::Flow, &mut flow, id);
            id
        };
        let all: Vec<SlotId> = (0..4).map(|task| put(&mut slots, task)).collect();
        for id in [all[1], all[0], all[3]] {
            slots.unlink(Which::Flow, &mut flow, id);
        }
        let tasks = |which, list: &List| -> Vec<Option<u64>> {
            slots.iter(which, list).map(|(_, slot)| slot.task).collect()
        };
        assert_eq!(tasks(Which::Flow, &flow), [Some(2)]);
        assert_eq!(
            tasks(Which::Ring, &ring),
            [Some(0), Some(1), Some(2), Some(3)]
        );
        for id in [all[1], all[3], all[0]] {
            slots.unlink(Which::Ring, &mut ring, id);
            assert!(slots.remove(id).is_some() && slots.remove(id).is_none());
        }
        assert_eq!((ring.first, ring.last, ring.len), (all[2], all[2], 1));
        assert_eq!(slots.put(Slot::new(4, 0, (1, u64::MAX), 0)), all[0]);
        assert_eq!(slots.waiting, 2);
    }
}
