//! The waiting tasks of one class in the order of service: as they came, and tables of which much waits in turns.
//!
//! ```text
//! push(task):
//!     the flow's slots += task; flow.tag = max(flow.tag, clock) if it was empty
//!     look(flow)
//!
//! look(flow), also when it is known for the first time how long a task of it takes:
//!     the flow is a flood, if more waits of it than all workers do in BURST, and FAR_MORE times as much as of others in
//!         the ring, or weights differ
//!     so is a flow in front, if FAR_MORE times as much waits of it as of the task's flow, and as a burst
//!     a flood leaves the ring; so does a flow whose tag is LEAD bursts ahead of clock, if there are floods
//!     else ring += flow
//!
//! take():
//!     the oldest task of the ring, or an older one of a flow that left it ahead and is not ahead by now
//!         or out of turn (a run) the oldest of the table that this worker ran last
//!     if there is none: the oldest task of the flood with the smallest tag; clock = that tag
//!     while some are backlogged: flow.tag += service time / weight
//!     an empty flow is backlogged no more
//! ```
//!
//! The tags are the start tags of start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). Tables of which little
//! waits keep the order of arrival, and wait for none of a flood but for its tasks that run.
//!
//! A run leaves the order of arrival only for a task that has waited `1 - reorder` of what the oldest one has.

use std::collections::TryReserveError;
use std::time::Duration;

use chiplet_table::Class;

use super::cold::Cold;
use super::flow::{Flow, List, SlotId};
use super::flows::{Flows, NOWHERE, Place};
use super::service::{ASSUMED, Took, follow};
use super::slots::{Slot, Slots, Which};
use super::terms::{NEVER, Run, Terms};
use super::turns::Turns;
use super::weights::Weights;
use super::{Discipline, Pace};
use crate::{TableId, Time};

/// So much work of one table, for each worker, is a burst that others may have to wait for. With 10 ms tables of a
/// domain that was asked for a fifth too much got backlogged by chance, before their tasks went to other domains: p99
/// was 8 times as long (modelled).
pub(super) const BURST: Duration = Duration::from_millis(15);

/// How many times as much as of others has to wait of a flood. With 3, one of 32 equal tables became one by chance and
/// stayed it: p99 was 7 times as long (modelled).
const FAR_MORE: f64 = 4.0;

/// Tasks of the ring among which floods are looked for.
const LOOK_AHEAD: usize = 7;

/// So many bursts more than its part a flow may get beside floods before it waits for their turns. With one, tables
/// that asked for nine tenths of a domain beside a flood and bulk work had 12 times the p999 (modelled).
const LEAD: f64 = 4.0;

/// Parts of a wait are counted in so many.
const WHOLE: u32 = 1 << 16;

/// The next task in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) flow: Place,
    /// When it came.
    pub(super) since: u64,
    pub(super) is_flood: bool,
}

pub(super) struct Order<T> {
    /// Which flows are its own.
    class: Class,
    run_length: u32,
    /// The part of the oldest wait by which a run may go before it, of [`WHOLE`].
    reorder: u64,
    /// What all workers serve in [`BURST`], in nanoseconds.
    burst: u64,
    slots: Slots<T>,
    /// The tasks of flows that are not backlogged.
    ring: List,
    /// Flows that are backlogged.
    turns: Turns,
    pub(super) weights: Weights,
    /// What waiting tasks will take, by their tables' mean service times, in nanoseconds; those of tables of which
    /// nothing is known count nothing.
    work: u64,
    /// What a query takes on average over all tables, in nanoseconds.
    typical: u64,
    /// How many times as long queries take away from home, over all tables.
    pub(super) cold: Cold,
}

impl<T> Order<T> {
    pub(super) fn new(class: Class, discipline: &Discipline) -> Self {
        Self {
            class,
            run_length: discipline.run_length,
            reorder: (discipline.reorder.clamp(0.0, 1.0) * f64::from(WHOLE)) as u64,
            burst: 0,
            slots: Slots::new(),
            ring: List::default(),
            turns: Turns::default(),
            weights: Weights::default(),
            work: 0,
            typical: ASSUMED,
            cold: Cold::default(),
        }
    }

    pub(super) fn set_workers(&mut self, workers: u32) {
        self.burst = BURST.as_nanos() as u64 * u64::from(workers.max(1));
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.waiting
    }

    /// What waits, in nanoseconds: all of it, and that of flows that are not backlogged.
    #[inline]
    pub(super) fn work(&self) -> [u64; 2] {
        [self.work, self.work.wrapping_sub(self.turns.work)]
    }

    /// Makes sure that [`Order::push`] of so many tasks needs no memory, nor whatever gets backlogged by that.
    #[inline(always)]
    pub(super) fn make_room(&mut self, tasks: usize) -> Result<(), TryReserveError> {
        let flows = self.weights.flows as usize;
        match self.slots.has_room(tasks) && self.turns.has_room(flows) {
            true => Ok(()),
            false => self.grow(tasks),
        }
    }

    #[cold]
    fn grow(&mut self, tasks: usize) -> Result<(), TryReserveError> {
        self.turns.grow(self.weights.flows as usize)?;
        self.slots.grow(tasks)
    }

    /// Adds tasks, each with its queries, for which there is room, to their flow.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        flows: &mut Flows,
        place: Place,
        tasks: impl Iterator<Item = (T, u32)>,
        terms: &Terms,
        at: u64,
    ) -> Pace {
        let flow = &mut flows[(place, self.class as usize)];
        // Whoever was held up on the way here stands behind those who came meanwhile.
        let list = match flow.is_backlogged {
            true => &flow.list,
            false => &self.ring,
        };
        let at = at.max(self.slots.get(list.last).map_or(0, |slot| slot.at));
        for (task, queries) in tasks {
            let slot = Slot::new(task, at, (queries, terms.expiry()), place);
            self.add(flow, terms.weight, slot);
        }
        // While all that waits is a burst at most, nobody has to wait for long.
        let is_calm = self.work <= self.burst && self.turns.is_empty();
        match is_calm || self.is_within(flows, place) {
            true => Pace::Within,
            false => Pace::Backlogged,
        }
    }

    /// Adds a task to the end of its flow.
    #[inline(always)]
    fn add(&mut self, flow: &mut Flow, weight: f32, slot: Slot<T>) {
        let slot = self.enter(flow, weight, slot);
        self.slots.link(Which::Flow, &mut flow.list, slot);
        if !flow.is_backlogged {
            self.slots.link(Which::Ring, &mut self.ring, slot);
        }
    }

    /// Adds a task that had been taken out of its flow before all that came later.
    pub(super) fn put_back(&mut self, flows: &mut Flows, place: Place, slot: Slot<T>) {
        let flow = &mut flows[(place, self.class as usize)];
        let slot = self.enter(flow, flow.weight, slot);
        self.slots.insert(Which::Flow, &mut flow.list, slot);
        if !flow.is_backlogged {
            self.slots.insert(Which::Ring, &mut self.ring, slot);
        }
    }

    /// Counts a task of a flow and gives it a slot, which is in no list yet.
    #[inline(always)]
    fn enter(&mut self, flow: &mut Flow, weight: f32, slot: Slot<T>) -> SlotId {
        if flow.list.len == 0 {
            self.turns.begin(flow);
        }
        self.weights.join(flow, weight);
        let queries = u64::from(slot.queries);
        flow.queries += queries;
        let work = queries.wrapping_mul(flow.cost);
        self.work = self.work.wrapping_add(work);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_add(work);
        }
        self.slots.put(slot)
    }

    /// Whether the flow at `place`, of which more waits than before, stays in the ring.
    #[cold]
    fn is_within(&mut self, flows: &mut Flows, place: Place) -> bool {
        self.clear_way(flows, place);
        let flow = &mut flows[(place, self.class as usize)];
        if flow.is_backlogged {
            return false;
        }
        let is_flood = flow.work() > self.burst && self.is_most(flow);
        if is_flood || self.turns.is_ahead(flow, self.lead()) {
            self.leave_ring(flows, place, is_flood);
            return false;
        }
        true
    }

    /// How long a task of the flow at `place` takes is known now, and so what waits of it. Where that is much, whoever
    /// comes is sent elsewhere: no other task would look at it.
    #[cold]
    pub(super) fn gets_known(&mut self, flows: &mut Flows, place: Place) {
        if self.work > self.burst && flows[(place, self.class as usize)].list.len > 0 {
            self.is_within(flows, place);
        }
    }

    /// The task that has come to the flow at `place` does not wait for far more than a burst, and than its flow's own.
    fn clear_way(&mut self, flows: &mut Flows, place: Place) {
        let class = self.class as usize;
        let own = flows[(place, class)].work();
        let far_more = own.max(self.burst).saturating_mul(FAR_MORE as u64);
        loop {
            let is_in_way =
                |&other: &Place| other != place && flows[(other, class)].work() > far_more;
            let oldest = self.slots.iter(Which::Ring, &self.ring).take(LOOK_AHEAD);
            let Some(other) = oldest.map(|(_, slot)| slot.place).find(is_in_way) else {
                return;
            };
            self.leave_ring(flows, other, true);
        }
    }

    /// Whether far more waits of a flow in the ring than of the others there, on average over those. While some are of
    /// tables of which nothing is known, tasks are counted, too. Where weights differ that makes no difference: they
    /// hold in turns only.
    fn is_most(&self, flow: &Flow) -> bool {
        let others = f64::from(self.weights.flows) - self.turns.len() as f64 - 1.0;
        let backlogged = self.turns.work.wrapping_add(flow.work());
        let rest = self.work.wrapping_sub(backlogged) as f64;
        let is_far_more = |own: f64, rest: f64| own * others.max(1.0) > FAR_MORE * rest;
        let tasks = flow.list.len;
        !self.weights.are_even()
            || is_far_more(flow.work() as f64, rest)
                && (self.weights.unknown == 0
                    || is_far_more(tasks as f64, (self.ring.len - tasks) as f64))
    }

    /// How long so many queries of a flow will take, in nanoseconds.
    #[inline(always)]
    fn expected(&self, flow: &Flow, queries: u64) -> u64 {
        flow.service.mean(self.typical).saturating_mul(queries)
    }

    /// By how much a flow's tag may be ahead of the clock before it leaves the ring.
    fn lead(&self) -> u128 {
        (LEAD * self.burst as f64 / self.weights.mean()) as u128
    }

    /// A flow of the ring gets backlogged.
    fn leave_ring(&mut self, flows: &mut Flows, place: Place, is_flood: bool) {
        let flow = &mut flows[(place, self.class as usize)];
        let mut next = self.slots.first(&flow.list);
        while let Some(id) = next {
            next = self.slots.after(Which::Flow, id);
            self.slots.unlink(Which::Ring, &mut self.ring, id);
        }
        self.turns.enter(flow, place, is_flood);
    }

    /// Adds tasks that came elsewhere, each with its table's weight. Looks at all that waits.
    pub(super) fn adopt(&mut self, flows: &mut Flows, slots: Vec<(f32, Slot<T>)>) {
        let class = self.class as usize;
        let mut places = Vec::new();
        for (weight, slot) in slots {
            if self.make_room(1).is_err() {
                std::process::abort();
            }
            places.push(slot.place);
            self.add(&mut flows[(slot.place, class)], weight, slot);
        }
        self.link_all(flows);
        places.dedup();
        for place in places {
            self.is_within(flows, place);
        }
    }

    /// Puts all lists in order of arrival.
    fn link_all(&mut self, flows: &mut Flows) {
        let class = self.class as usize;
        let mut all = Vec::with_capacity(self.slots.waiting);
        for row in &mut flows.list {
            let list = std::mem::take(&mut row.flows[class].list);
            all.extend(self.slots.iter(Which::Flow, &list));
        }
        all.sort_by_key(|&(_, slot)| slot.at);
        let order: Vec<(SlotId, Place)> = all.iter().map(|(id, slot)| (*id, slot.place)).collect();
        self.ring = List::default();
        for (id, place) in order {
            let flow = &mut flows[(place, class)];
            self.slots.link(Which::Flow, &mut flow.list, id);
            if !flow.is_backlogged {
                self.slots.link(Which::Ring, &mut self.ring, id);
            }
        }
    }

    /// Takes note of how long a task took, at home or away.
    #[inline(always)]
    pub(super) fn learn(&mut self, flow: &mut Flow, run: &Run, took: &Took, away: bool) {
        if !self.turns.is_empty() {
            flow.settle(run.charged, took.spent);
        }
        let each = took.each(run.queries);
        let home = flow.service.home;
        flow.service.learn(&each, away, self.typical);
        if run.expires < NEVER {
            let is_cut = took.ended.as_nanos() >= run.expires;
            flow.service.learn_usual(&each, is_cut);
        }
        match away {
            true => self.cold.note(each.spent, home),
            false => self.typical = follow(self.typical, each.spent, self.typical),
        }
        self.reprice(flow);
    }

    /// What the queries of a flow cost is known a little better.
    #[inline(always)]
    fn reprice(&mut self, flow: &mut Flow) {
        let (before, cost) = (flow.work(), flow.service.cost());
        let gets_known = flow.cost == 0 && cost > 0 && flow.list.len > 0;
        self.weights.unknown -= u32::from(gets_known);
        flow.cost = cost;
        let more = flow.work().wrapping_sub(before);
        self.work = self.work.wrapping_add(more);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_add(more);
        }
    }

    /// Takes note of so many tasks of the flow at `place` that were not begun because of their deadlines.
    pub(super) fn missed(&mut self, flows: &mut Flows, place: Place, tasks: u64) {
        let flow = &mut flows[(place, self.class as usize)];
        flow.service.miss(tasks);
        self.reprice(flow);
    }

    /// A task that was taken was not begun: because of its deadline if it was missed, else because it was dead.
    pub(super) fn not_begun(&mut self, flows: &mut Flows, place: Place, run: &Run) {
        if !self.turns.is_empty() {
            flows[(place, self.class as usize)].settle(run.charged, 0);
        }
        if run.missed {
            self.missed(flows, place, 1);
        }
    }

    /// How long a task with a deadline that begins at `now` usually takes, if that is known.
    pub(super) fn usual(&self, flows: &mut Flows, run: &Run, now: Time) -> Option<Duration> {
        let service = &mut flows[(run.place, self.class as usize)].service;
        let usual = service.usual(run.queries, now.as_nanos(), |usual| {
            run.is_too_late(now, usual)
        });
        usual.map(Duration::from_nanos)
    }

    /// The task that is next in order.
    #[inline(always)]
    pub(super) fn front(&self, flows: &Flows) -> Option<Front> {
        let slot = self.slots.get(self.next(flows)?)?;
        Some(Front {
            flow: slot.place,
            since: slot.at,
            is_flood: self.turns.flood() == Some(slot.place),
        })
    }

    /// What the oldest task takes, if it has no deadline, that is known, and no flow is backlogged.
    #[inline]
    pub(super) fn cost_of_next(&self, flows: &Flows) -> Option<u64> {
        let slot = self.slots.get(self.ring.first)?;
        let cost = flows[(slot.place, self.class as usize)].cost;
        let is_plain = cost > 0 && slot.expires == NEVER && self.turns.is_empty();
        is_plain.then(|| cost.saturating_mul(slot.queries.into()))
    }

    /// Where that is.
    #[inline(always)]
    fn next(&self, flows: &Flows) -> Option<SlotId> {
        let first = |place: Place| flows[(place, self.class as usize)].list.first;
        let oldest = self.slots.first(&self.ring);
        match self.turns.caught_up(|| self.lead()).map(first) {
            None => oldest.or_else(|| self.turns.flood().map(first)),
            Some(other) => Some(oldest.map_or(other, |oldest| self.older(oldest, other))),
        }
    }

    /// Which of two tasks came first.
    #[cold]
    fn older(&self, one: SlotId, other: SlotId) -> SlotId {
        let at = |id: SlotId| self.slots.get(id).map(|slot| slot.at);
        match at(other) < at(one) {
            true => other,
            false => one,
        }
    }

    /// Takes the next task out, for whoever ran the flow at `last` before.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        flows: &mut Flows,
        last: Place,
        run: &mut Run,
        now: Time,
    ) -> Option<T> {
        let next = self.next(flows)?;
        let id = self.choose(flows, next, last, run, now.as_nanos());
        let slot = self.slots.get(id)?;
        let (place, came) = (slot.place, slot.at);
        let row = &mut flows.list[place as usize];
        let (table, flow) = (row.table, &mut row.flows[self.class as usize]);
        let (task, queries, expires) = self.pull(flow, id)?;
        let expected = self.expected(flow, queries.into());
        if !self.turns.is_empty() {
            self.turns.charge(flow, place, expected);
        }
        self.leaves(flow, queries.into());
        run.begin(
            (table, place, last),
            (queries, expires),
            expected,
            self.class,
            self.run_length,
            [came, now.as_nanos()],
        );
        Some(task)
    }

    /// Which task is next: that in slot `next`, or out of turn the first one of the flow that the worker ran last, if
    /// that is in the ring.
    #[inline(always)]
    fn choose(&self, flows: &Flows, next: SlotId, last: Place, run: &Run, now: u64) -> SlotId {
        if run.left == 0 || last == NOWHERE || self.ring.len == 0 {
            return next;
        }
        let other = &flows[(last, self.class as usize)];
        let [Some(front), Some(its)] = [next, other.list.first].map(|id| self.slots.get(id)) else {
            return next;
        };
        let latest = front.at + part(now.saturating_sub(front.at), self.reorder);
        match !other.is_backlogged && its.at <= latest {
            true => other.list.first,
            false => next,
        }
    }

    /// Takes the task in slot `id` of a flow out, with its queries and when it expires.
    #[inline(always)]
    fn pull(&mut self, flow: &mut Flow, id: SlotId) -> Option<(T, u32, u64)> {
        self.slots.unlink(Which::Flow, &mut flow.list, id);
        if !flow.is_backlogged {
            self.slots.unlink(Which::Ring, &mut self.ring, id);
        }
        let taken = self.slots.remove(id)?;
        flow.queries -= u64::from(taken.1);
        Some(taken)
    }

    /// A task of a flow with so many queries has been taken out.
    #[inline(always)]
    fn leaves(&mut self, flow: &mut Flow, queries: u64) {
        let work = queries.wrapping_mul(flow.cost);
        self.work = self.work.wrapping_sub(work);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_sub(work);
        }
        if flow.list.len == 0 {
            flow.ends();
            self.weights.leave(flow);
            if self.weights.flows == 0 {
                self.turns.forget();
                self.slots.shrink();
            }
        }
    }

    /// Looks at the slots from `next` on, as many as there are `steps`, and takes those tasks out for which `dead`
    /// holds. Sixteen free ones are a step, too. True if it has come to the end; else `next` is where to go on.
    pub(super) fn search(
        &mut self,
        flows: &mut Flows,
        next: &mut SlotId,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, u32, T),
    ) -> bool {
        while let Some(slot) = self.slots.get(*next) {
            if *steps == 0 {
                break;
            }
            *steps -= usize::from(slot.task.is_some() || next.is_multiple_of(16));
            if slot.task.as_ref().is_some_and(&mut dead) {
                let row = &mut flows.list[slot.place as usize];
                let (table, flow) = (row.table, &mut row.flows[self.class as usize]);
                if let Some((task, queries, _)) = self.pull(flow, *next) {
                    self.leaves(flow, queries.into());
                    out(table, queries, task);
                }
            }
            *next += 1;
        }
        self.turns.leave(flows, self.class as usize);
        self.slots.get(*next).is_none()
    }

    /// Takes all tasks out, those of a table in order.
    pub(super) fn move_out(
        &mut self,
        flows: &mut Flows,
        mut out: impl FnMut(TableId, Terms, Time, T),
    ) {
        let class = self.class;
        for row in &mut flows.list {
            let flow = &mut row.flows[class as usize];
            let weight = flow.weight;
            while let Some(slot) = self.slots.get(flow.list.first) {
                let at = Time::from_nanos(slot.at);
                let Some((task, queries, expires)) = self.pull(flow, flow.list.first) else {
                    break;
                };
                self.leaves(flow, queries.into());
                let terms = Terms {
                    class,
                    weight,
                    queries,
                    expires: (expires < NEVER).then(|| Time::from_nanos(expires)),
                    ..Terms::default()
                };
                out(row.table, terms, at, task);
            }
        }
        self.turns.leave(flows, class as usize);
    }
}

/// This part of so many nanoseconds, of [`WHOLE`].
fn part(nanos: u64, parts: u64) -> u64 {
    let whole = u64::from(WHOLE);
    nanos / whole * parts + nanos % whole * parts / whole
}
