//! Flows that are served in turns, by their weights.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, TryReserveError};

use super::flow::Flow;
use super::flows::{Flows, Place};

/// Smallest tag first.
type Tags = BinaryHeap<Reverse<(u128, Place)>>;

/// Backlogged flows by the start tags of start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): nanoseconds of
/// service by weight.
#[derive(Default)]
pub(super) struct Turns {
    floods: Tags,
    /// Those that have got much more than their part.
    ahead: Tags,
    /// The tag of the flood that was served last.
    clock: u128,
    /// The largest tag that a flow has got.
    latest: u128,
    /// What waits in them, in nanoseconds.
    pub(super) work: u64,
}

impl Turns {
    /// Whether no flow is backlogged: without a flood none is ahead.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.floods.is_empty()
    }

    /// Flows that are backlogged.
    pub(super) fn len(&self) -> usize {
        self.floods.len() + self.ahead.len()
    }

    /// Whether one of so many flows more may get backlogged without memory.
    #[inline(always)]
    pub(super) fn has_room(&self, flows: usize) -> bool {
        self.floods.capacity().min(self.ahead.capacity()) > flows
    }

    /// Makes room for so many flows and one more.
    pub(super) fn grow(&mut self, flows: usize) -> Result<(), TryReserveError> {
        for tags in [&mut self.floods, &mut self.ahead] {
            tags.try_reserve(flows + 1 - tags.len())?;
        }
        Ok(())
    }

    /// The flood whose turn it is.
    #[inline(always)]
    pub(super) fn flood(&self) -> Option<Place> {
        Some(self.floods.peek()?.0.1)
    }

    /// A flow that left the ring because it was ahead by more than `lead`, and is not by now.
    #[inline(always)]
    pub(super) fn caught_up(&self, lead: impl Fn() -> u128) -> Option<Place> {
        let Reverse((tag, place)) = *self.ahead.peek()?;
        (tag <= self.clock + lead()).then_some(place)
    }

    /// A flow that was empty begins at the tag that was served last, unless it has got more.
    #[inline(always)]
    pub(super) fn begin(&self, flow: &mut Flow) {
        flow.tag = flow.tag.max(self.clock);
    }

    /// Whether a flow has got so much more than the floods, while there are some.
    pub(super) fn is_ahead(&self, flow: &Flow, lead: u128) -> bool {
        !self.is_empty() && flow.tag > self.clock + lead
    }

    /// The flow at `place` gets backlogged, as a flood or because it is ahead. There is room for it.
    pub(super) fn enter(&mut self, flow: &mut Flow, place: Place, is_flood: bool) {
        flow.is_backlogged = true;
        let tags = match is_flood {
            true => &mut self.floods,
            false => &mut self.ahead,
        };
        tags.push(Reverse((flow.tag, place)));
        self.work = self.work.wrapping_add(flow.work());
    }

    /// Moves the tag of the flow at `place` on, of which a task is served that is `expected` to take so long.
    #[inline(never)]
    pub(super) fn charge(&mut self, flow: &mut Flow, place: Place, expected: u64) {
        let before = flow.tag;
        flow.charge(expected);
        self.latest = self.latest.max(flow.tag);
        if !flow.is_backlogged {
            return;
        }
        let tags = match self.flood() == Some(place) {
            true => {
                self.clock = self.clock.max(before);
                &mut self.floods
            }
            false => &mut self.ahead,
        };
        if let Some(mut first) = tags.peek_mut() {
            if flow.list.len == 0 {
                PeekMut::pop(first);
            } else {
                first.0.0 = flow.tag;
            }
        }
        self.look_for_floods();
    }

    /// Some flows have got empty out of turn.
    pub(super) fn leave(&mut self, flows: &Flows, class: usize) {
        let stays =
            |Reverse((_, place)): &Reverse<(u128, Place)>| flows[(*place, class)].is_backlogged;
        self.floods.retain(stays);
        self.ahead.retain(stays);
        self.look_for_floods();
    }

    /// With no flood left, those that were ahead are the floods.
    fn look_for_floods(&mut self) {
        if self.floods.is_empty() {
            std::mem::swap(&mut self.floods, &mut self.ahead);
        }
    }

    /// Nothing waits any more: what was asked for too much is forgotten.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.clock = self.latest;
    }
}
