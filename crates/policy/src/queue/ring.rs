//! Which flow's task is next in order of arrival.

use std::collections::{TryReserveError, VecDeque};

use super::flows::{Flows, Place};

/// One entry for each slot of a flow in the ring, in order of arrival.
///
/// Who leaves out of turn leaves an entry behind: the oldest of its flow, which stands for no slot then
/// ([`Flow::skips`](super::flow::Flow::skips)). The first entry always stands for one.
pub(super) struct Ring {
    /// Of which class its flows are.
    class: usize,
    entries: VecDeque<Place>,
    /// Entries that stand for no slot.
    stale: usize,
    /// When the newest task came.
    pub(super) newest: u64,
}

impl Ring {
    pub(super) fn new(class: usize) -> Self {
        Self {
            class,
            entries: VecDeque::new(),
            stale: 0,
            newest: 0,
        }
    }

    /// Slots that it has entries for.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.stale
    }

    /// The flow that is next.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<Place> {
        self.entries.front().copied()
    }

    /// The flows that are next, in order; some may stand there more than once.
    pub(super) fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.entries.iter().copied()
    }

    /// Whether so many entries more need no memory.
    #[inline(always)]
    pub(super) fn has_room(&self, entries: usize) -> bool {
        self.entries.capacity() - self.entries.len() >= entries
    }

    /// Makes room for so many entries more.
    pub(super) fn grow<T>(
        &mut self,
        flows: &mut Flows<T>,
        entries: usize,
    ) -> Result<(), TryReserveError> {
        if self.stale > self.entries.len() / 2 {
            self.keep(flows, |_| true);
        }
        self.entries.try_reserve(entries)
    }

    /// Adds an entry, for which there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, flow: Place, at: u64) {
        self.newest = at;
        self.entries.push_back(flow);
    }

    /// So many slots of the flow at `place` have left out of turn.
    #[inline(always)]
    pub(super) fn leave<T>(&mut self, flows: &mut Flows<T>, place: Place, slots: usize) {
        flows[(place, self.class)].skips += slots;
        self.stale += slots;
        self.skip(flows);
    }

    /// The first entry's slot has left, and so many more of its flow.
    #[inline(always)]
    pub(super) fn pop<T>(&mut self, flows: &mut Flows<T>, more: usize) {
        if let Some(place) = self.entries.pop_front() {
            self.leave(flows, place, more);
        }
    }

    /// Takes those of its first entries out that stand for no slot.
    #[inline(always)]
    fn skip<T>(&mut self, flows: &mut Flows<T>) {
        while let Some(&place) = self.entries.front() {
            let skips = &mut flows[(place, self.class)].skips;
            if *skips == 0 {
                return;
            }
            (*skips, self.stale) = (*skips - 1, self.stale - 1);
            self.entries.pop_front();
        }
    }

    /// Keeps the entries of those flows only for which `keep` holds, and that stand for a slot.
    pub(super) fn keep<T>(&mut self, flows: &mut Flows<T>, keep: impl Fn(Place) -> bool) {
        self.entries.retain(|&place| {
            let skips = &mut flows[(place, self.class)].skips;
            let stays = *skips == 0 && keep(place);
            *skips = skips.saturating_sub(1);
            stays
        });
        self.stale = 0;
    }

    /// Puts the tasks of all flows that are not backlogged in order. There is room for them.
    pub(super) fn rebuild<T>(&mut self, flows: &mut Flows<T>) {
        let mut order: Vec<(u64, Place)> = Vec::with_capacity(self.entries.len());
        for (place, row) in flows.list.iter_mut().enumerate() {
            let flow = &mut row.flows[self.class];
            flow.skips = 0;
            flow.compact();
            flow.slots.make_contiguous().sort_by_key(|slot| slot.at);
            if !flow.is_backlogged {
                order.extend(flow.slots.iter().map(|slot| (slot.at, place as Place)));
            }
        }
        order.sort_by_key(|&(at, _)| at);
        self.stale = 0;
        self.newest = order.last().map_or(self.newest, |last| last.0);
        self.entries.clear();
        self.entries
            .extend(order.into_iter().map(|(_, place)| place));
    }
}
