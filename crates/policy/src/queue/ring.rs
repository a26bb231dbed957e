//! Tasks in order of arrival, those of one flow chained.

use std::collections::{TryReserveError, VecDeque};

use super::flow::Flow;
use super::flows::{Flows, NOWHERE, Place};
use super::{Effort, Terms};

/// A waiting task. Times are nanoseconds since the scheduler was made.
pub(super) struct Slot<T> {
    /// `None` once it has been taken out.
    pub(super) task: Option<T>,
    /// When it was accepted.
    pub(super) at: u64,
    pub(super) flow: Place,
    /// Position of the next one of its flow, if it is not the last.
    next: u32,
    /// Queries that it answers.
    pub(super) queries: u32,
    pub(super) effort: Option<Effort>,
}

impl<T> Slot<T> {
    pub(super) fn new(task: T, at: u64, flow: Place, queries: u32, effort: Option<Effort>) -> Self {
        Self {
            task: Some(task),
            at,
            flow,
            next: NOWHERE,
            queries,
            effort,
        }
    }

    const EMPTY: Self = Self {
        task: None,
        at: 0,
        flow: NOWHERE,
        next: NOWHERE,
        queries: 0,
        effort: None,
    };

    #[inline(always)]
    fn take(&mut self) -> Self {
        Self {
            task: self.task.take(),
            ..*self
        }
    }
}

/// Where a search of a queue's tasks goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchAt {
    pub(super) order: usize,
    /// Position in the ring; at first its oldest task.
    pub(super) slot: Option<u32>,
    /// The ring has been looked at.
    pub(super) in_flow: bool,
    /// Place of a flow.
    pub(super) flow: usize,
    /// Which of those that wait in it.
    pub(super) task: usize,
}

impl SearchAt {
    /// The beginning of an order.
    pub(super) fn of(order: usize) -> Self {
        Self {
            order,
            ..Self::default()
        }
    }
}

/// Slots by position, which counts tasks as they come. One that is taken out of turn leaves a hole.
pub(super) struct Ring<T> {
    /// A power of two, or none.
    slots: Vec<Slot<T>>,
    /// Position of the oldest task.
    head: u32,
    /// Position of the next one that comes.
    tail: u32,
    len: usize,
    /// When the newest came.
    pub(super) newest: u64,
}

impl<T> Ring<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            head: 0,
            tail: 0,
            len: 0,
            newest: 0,
        }
    }

    #[inline(always)]
    fn at(&self, position: u32) -> usize {
        position as usize & self.slots.len().wrapping_sub(1)
    }

    /// Position of the oldest task.
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    #[cfg(test)]
    pub(super) fn begin_at(&mut self, position: u32) {
        (self.head, self.tail) = (position, position);
    }

    /// The slot at a position between the oldest task and the newest.
    #[inline(always)]
    pub(super) fn slot(&self, position: u32) -> &Slot<T> {
        &self.slots[self.at(position)]
    }

    #[inline(always)]
    fn slot_mut(&mut self, position: u32) -> &mut Slot<T> {
        let at = self.at(position);
        &mut self.slots[at]
    }

    /// The oldest task.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<&Slot<T>> {
        (self.len > 0).then(|| self.slot(self.head))
    }

    /// The oldest tasks among the first so many slots.
    pub(super) fn ahead(&self, slots: u32) -> impl Iterator<Item = &Slot<T>> {
        let slots = slots.min(self.span());
        let ahead = (0..slots).map(|step| self.slot(self.head.wrapping_add(step)));
        ahead.filter(|slot| slot.task.is_some())
    }

    /// Tasks and holes between the oldest and the newest.
    #[inline]
    fn span(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether so many more tasks need no memory.
    #[inline(always)]
    pub(super) fn has_room(&self, tasks: usize) -> bool {
        self.slots.len() - self.span() as usize >= tasks
    }

    /// Adds a task of `flow`, for which there is room, and which is no older than the newest.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        flow: &mut Flow<T>,
        place: Place,
        task: T,
        terms: &Terms,
        at: u64,
    ) {
        let position = self.tail;
        self.newest = at;
        match flow.len {
            0 => flow.first = position,
            _ => self.slot_mut(flow.last).next = position,
        }
        flow.last = position;
        flow.len += 1;
        let slot = self.slot_mut(position);
        slot.task = Some(task);
        slot.at = at;
        slot.flow = place;
        slot.queries = terms.queries;
        slot.effort = terms.effort;
        self.tail = position.wrapping_add(1);
        self.len += 1;
    }

    /// Takes the first task of `flow` out.
    #[inline(always)]
    pub(super) fn pop(&mut self, flow: &mut Flow<T>) -> Slot<T> {
        self.remove(flow, flow.first)
    }

    /// Takes the task of `flow` at this position out.
    #[inline(always)]
    pub(super) fn remove(&mut self, flow: &mut Flow<T>, position: u32) -> Slot<T> {
        let slot = self.slot_mut(position).take();
        self.len -= 1;
        flow.len -= 1;
        if position == flow.first && flow.len > 0 {
            flow.first = slot.next;
            while self.slot(flow.first).task.is_none() {
                flow.first = self.slot(flow.first).next;
            }
        }
        if position == self.head {
            while self.head != self.tail && self.slot(self.head).task.is_none() {
                self.head = self.head.wrapping_add(1);
            }
        }
        slot
    }

    /// The position of the next task from `at` on for which `dead` holds, if it is among the next so many `steps`.
    pub(super) fn find(
        &self,
        at: &mut u32,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
    ) -> Option<u32> {
        // Some of those that were looked at may have left since.
        if self.tail.wrapping_sub(*at) > self.span() {
            *at = self.head;
        }
        while *at != self.tail && *steps > 0 {
            *steps -= 1;
            let position = *at;
            *at = position.wrapping_add(1);
            let task = self.slot(position).task.as_ref();
            if task.is_some_and(&mut dead) {
                return Some(position);
            }
        }
        None
    }

    /// Whether a search that has come to `at` is through.
    pub(super) fn is_end(&self, at: u32) -> bool {
        at == self.tail
    }

    /// Makes room for so many more tasks, if there is memory.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        flows: &mut Flows<T>,
        class: usize,
        tasks: usize,
    ) -> Result<(), TryReserveError> {
        if self.len < self.span() as usize / 2 {
            let none = VecDeque::new();
            let rebuilt = self.rebuild(flows, class, none, tasks);
            return rebuilt.map_err(|(error, _)| error);
        }
        let before = self.slots.len();
        let wanted = (self.span() as usize + tasks).next_power_of_two().max(16);
        self.slots.try_reserve_exact(wanted - before)?;
        self.slots.resize_with(wanted, || Slot::EMPTY);
        for step in 0..self.span() {
            // Where it stood.
            let position = self.head.wrapping_add(step);
            let (from, to) = (position as usize & (before - 1), self.at(position));
            if from != to {
                self.slots.swap(from, to);
            }
        }
        Ok(())
    }

    /// Makes room for so many tasks besides `more`, which are in order and come among the others by their arrival.
    /// Looks at all that waits. Hands them back if there is no memory.
    #[cold]
    pub(super) fn rebuild(
        &mut self,
        flows: &mut Flows<T>,
        class: usize,
        mut more: VecDeque<Slot<T>>,
        room: usize,
    ) -> Result<(), (TryReserveError, VecDeque<Slot<T>>)> {
        let tasks = self.len + more.len() + room;
        let capacity = (tasks + tasks / 2).next_power_of_two().max(16);
        let mut slots: Vec<Slot<T>> = Vec::new();
        if let Err(error) = slots.try_reserve_exact(capacity) {
            return Err((error, more));
        }
        let first = self.at(self.head).min(self.slots.len());
        let mut old = std::mem::take(&mut self.slots);
        old.rotate_left(first);
        old.truncate(self.span() as usize);
        old.retain(|slot| slot.task.is_some());
        for slot in old.iter().chain(&more) {
            flows[(slot.flow, class)].last = NOWHERE;
        }
        let mut old = old.into_iter().peekable();
        loop {
            let is_mores = match (old.peek(), more.front()) {
                (Some(old), Some(other)) => other.at < old.at,
                (old, _) => old.is_none(),
            };
            let slot = if is_mores {
                more.pop_front()
            } else {
                old.next()
            };
            let Some(slot) = slot else { break };
            let position = slots.len() as u32;
            let flow = &mut flows[(slot.flow, class)];
            match flow.last {
                NOWHERE => flow.first = position,
                last => slots[last as usize].next = position,
            }
            flow.last = position;
            slots.push(slot);
        }
        self.newest = slots.last().map_or(0, |slot| slot.at);
        (self.head, self.tail, self.len) = (0, slots.len() as u32, slots.len());
        slots.resize_with(capacity, || Slot::EMPTY);
        self.slots = slots;
        Ok(())
    }
}
