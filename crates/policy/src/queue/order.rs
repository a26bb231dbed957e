//! The waiting tasks of one class in the order of service: as they came, and tables of which much waits in turns.
//!
//! ```text
//! push(task):
//!     the flow's slots += task; flow.tag = max(flow.tag, clock) if it was empty
//!     the flow is a flood, if more waits of it than all workers do in BURST (* weight / mean weight, if that is less)
//!         and FAR_MORE times as much as of others in the ring, or weights differ
//!     so is a flow in front, if FAR_MORE times as much waits of it as of the task's flow, and as a burst
//!     a flood gets backlogged: it leaves the ring
//!         so does the task's flow, if others are backlogged and its tag is a burst ahead of the clock
//!     else ring += flow
//!
//! take():
//!     the ring's oldest task, or out of turn (a run) the oldest of the table that this worker ran last
//!     where the ring is empty: the oldest task of the backlogged flow with the smallest tag; clock = that tag
//!     while some are backlogged: flow.tag += service time / weight
//!         of other flows than floods / (ADVANTAGE * weight), if weights do not differ
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
use super::flow::Flow;
use super::flow::{SearchAt, Slot};
use super::flows::{Flows, NOWHERE, Place};
use super::ring::Ring;
use super::service::{ASSUMED, Took, follow};
use super::terms::{Run, Terms};
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

/// Entries of the ring in which floods are looked for.
const LOOK_AHEAD: usize = 7;

/// Parts of a wait are counted in so many.
const WHOLE: u32 = 1 << 16;

/// The next task in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) flow: Place,
    /// When it came.
    pub(super) since: u64,
    pub(super) is_backlogged: bool,
}

pub(super) struct Order<T> {
    /// Which flows are its own.
    class: Class,
    run_length: u32,
    /// The part of the oldest wait by which a run may go before it, of [`WHOLE`].
    reorder: u64,
    /// What all workers serve in [`BURST`], in nanoseconds.
    burst: u64,
    /// Flows that are not backlogged.
    ring: Ring,
    /// Those that are.
    turns: Turns,
    queued: usize,
    pub(super) weights: Weights,
    /// What waiting tasks will take, by their tables' mean service times, in nanoseconds; those of tables of which
    /// nothing is known count nothing.
    work: u64,
    /// What a query takes on average over all tables, in nanoseconds.
    typical: u64,
    /// How many times as long queries take away from home, over all tables.
    pub(super) cold: Cold,
    task: std::marker::PhantomData<T>,
}

impl<T> Order<T> {
    pub(super) fn new(class: Class, discipline: &Discipline) -> Self {
        Self {
            class,
            run_length: discipline.run_length,
            reorder: (discipline.reorder.clamp(0.0, 1.0) * f64::from(WHOLE)) as u64,
            burst: 0,
            ring: Ring::new(class as usize),
            turns: Turns::default(),
            queued: 0,
            weights: Weights::default(),
            work: 0,
            typical: ASSUMED,
            cold: Cold::default(),
            task: std::marker::PhantomData,
        }
    }

    pub(super) fn set_workers(&mut self, workers: u32) {
        self.burst = BURST.as_nanos() as u64 * u64::from(workers.max(1));
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// What waits, in nanoseconds: all of it, and that of flows that are not backlogged.
    #[inline]
    pub(super) fn work(&self) -> [u64; 2] {
        [self.work, self.work.wrapping_sub(self.turns.work)]
    }

    /// Makes sure that [`Order::push`] of so many tasks to the flow at `place` needs no memory, nor whatever gets
    /// backlogged by that.
    #[inline(always)]
    pub(super) fn make_room(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        tasks: usize,
    ) -> Result<(), TryReserveError> {
        let slots = &flows[(place, self.class as usize)].slots;
        let has_room = slots.capacity() - slots.len() >= tasks
            && self.ring.has_room(tasks)
            && self.turns.has_room(self.weights.flows as usize);
        match has_room {
            true => Ok(()),
            false => self.grow(flows, place, tasks),
        }
    }

    #[cold]
    fn grow(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        tasks: usize,
    ) -> Result<(), TryReserveError> {
        if !self.ring.has_room(tasks) {
            self.ring.grow(flows, tasks)?;
        }
        self.turns.grow(self.weights.flows as usize)?;
        flows[(place, self.class as usize)].slots.try_reserve(tasks)
    }

    /// Adds tasks, each with its queries, for which there is room, to their flow.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        tasks: impl Iterator<Item = (T, u32)>,
        terms: &Terms,
        at: u64,
    ) -> Pace {
        let flow = &mut flows[(place, self.class as usize)];
        // Whoever was held up on the way here stands behind those who came meanwhile.
        let at = match flow.is_backlogged {
            true => at,
            false => at.max(self.ring.newest),
        };
        let before = flow.slots.len();
        for (task, queries) in tasks {
            let (task, effort) = (Some(task), terms.effort);
            let slot = Slot {
                task,
                at,
                queries,
                effort,
            };
            self.add(flow, terms.weight, slot);
        }
        let came = flow.slots.len() - before;
        // While all that waits is a burst at most, nobody has to wait for long.
        let is_calm = self.work <= self.burst && self.turns.is_empty();
        if is_calm || self.is_within(flows, place, came) {
            (0..came).for_each(|_| self.ring.push(place, at));
            return Pace::Within;
        }
        Pace::Backlogged
    }

    /// Adds a task to a flow; its entry in the ring is up to the caller.
    #[inline(always)]
    fn add(&mut self, flow: &mut Flow<T>, weight: f32, slot: Slot<T>) {
        if flow.len == 0 {
            self.turns.begin(flow);
        }
        self.weights.join(flow, weight);
        self.queued += 1;
        let work = u64::from(slot.queries).wrapping_mul(flow.cost);
        self.work = self.work.wrapping_add(work);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_add(work);
        }
        flow.push(slot);
    }

    /// Whether the flow at `place` is in the ring, now that so many tasks have come to it that have no entries there.
    #[cold]
    fn is_within(&mut self, flows: &mut Flows<T>, place: Place, came: usize) -> bool {
        self.clear_way(flows, place);
        let flow = &mut flows[(place, self.class as usize)];
        if flow.is_backlogged {
            return false;
        }
        flow.is_flood = flow.work() as f64 > self.burst_of(flow) && self.is_most(flow, came);
        let lead = self.burst as f64 / self.weights.mean();
        if flow.is_flood || self.turns.is_ahead(flow, lead) {
            let entries = flow.skips + flow.slots.len() - came;
            self.leave_ring(flows, place, entries);
            return false;
        }
        true
    }

    /// The task that has come to the flow at `place` does not wait for far more than a burst, and than its flow's own.
    fn clear_way(&mut self, flows: &mut Flows<T>, place: Place) {
        let class = self.class as usize;
        let own = flows[(place, class)].work() as f64;
        loop {
            let is_in_way = |&other: &Place| {
                let flow = &flows[(other, class)];
                other != place && flow.work() as f64 > FAR_MORE * own.max(self.burst_of(flow))
            };
            let mut ahead = self.ring.iter().take(LOOK_AHEAD);
            let Some(other) = ahead.find(is_in_way) else {
                return;
            };
            drop(ahead);
            let flow = &mut flows[(other, class)];
            flow.is_flood = true;
            let entries = flow.slots.len();
            self.leave_ring(flows, other, entries);
        }
    }

    /// Whether far more waits of a flow in the ring, of which so many tasks have no entries there yet, than of the others
    /// there, on average over those. While some are of tables of which nothing is known, tasks are counted, too. Where
    /// weights differ that makes no difference: they hold in turns only.
    fn is_most(&self, flow: &Flow<T>, came: usize) -> bool {
        let others = f64::from(self.weights.flows) - self.turns.len() as f64 - 1.0;
        let is_far_more = |own: f64, rest: f64| own * others.max(1.0) > FAR_MORE * rest;
        let backlogged = self.turns.work.wrapping_add(flow.work());
        let work = self.work.wrapping_sub(backlogged) as f64;
        let slots = (self.ring.len() + came - flow.slots.len()) as f64;
        !self.weights.are_even()
            || is_far_more(flow.work() as f64, work)
                && (self.weights.unknown == 0 || is_far_more(flow.slots.len() as f64, slots))
    }

    /// How much may wait of a flow as a burst: less if its weight is less than the mean.
    fn burst_of(&self, flow: &Flow<T>) -> f64 {
        let part = f64::from(flow.weight) / self.weights.mean();
        self.burst as f64 * part.min(1.0)
    }

    /// How long so many queries of a flow will take, in nanoseconds.
    #[inline(always)]
    fn expected(&self, flow: &Flow<T>, queries: u64) -> u64 {
        flow.service.mean(self.typical).saturating_mul(queries)
    }

    /// A flow that has so many entries in the ring gets backlogged.
    fn leave_ring(&mut self, flows: &mut Flows<T>, place: Place, entries: usize) {
        if entries > 0 {
            self.ring.keep(flows, |other| other != place);
        }
        let flow = &mut flows[(place, self.class as usize)];
        flow.compact();
        self.turns.enter(flow, place);
    }

    /// Adds tasks that came elsewhere, each with its place and its table's weight. Looks at all that waits.
    pub(super) fn adopt(&mut self, flows: &mut Flows<T>, slots: Vec<(Place, f32, Slot<T>)>) {
        let class = self.class as usize;
        let mut places = Vec::new();
        for (place, weight, slot) in slots {
            if self.make_room(flows, place, 1).is_err() {
                std::process::abort();
            }
            let flow = &mut flows[(place, class)];
            self.add(flow, weight, slot);
            if !flow.is_backlogged {
                self.ring.push(place, self.ring.newest);
            }
            places.push(place);
        }
        self.ring.rebuild(flows);
        places.dedup();
        for place in places {
            self.is_within(flows, place, 0);
        }
    }

    /// Takes note of how long a task took, at home or away.
    #[inline(always)]
    pub(super) fn learn(&mut self, flow: &mut Flow<T>, run: &Run, took: &Took, away: bool) {
        if !self.turns.is_empty() {
            flow.settle(run.charged, took.spent);
        }
        let each = took.each(run.queries);
        let home = flow.service.home;
        flow.service.learn(&each, run.effort, away, self.typical);
        match away {
            true => self.cold.note(each.spent, home),
            false => self.typical = follow(self.typical, each.spent, self.typical),
        }
        self.reprice(flow);
    }

    /// What the queries of a flow cost is known a little better.
    #[inline(always)]
    fn reprice(&mut self, flow: &mut Flow<T>) {
        let (before, cost) = (flow.work(), flow.service.cost());
        let gets_known = flow.cost == 0 && cost > 0 && flow.len > 0;
        self.weights.unknown -= u32::from(gets_known);
        flow.cost = cost;
        let more = flow.work().wrapping_sub(before);
        self.work = self.work.wrapping_add(more);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_add(more);
        }
    }

    /// Takes note of so many tasks of the flow at `place` that were not begun because of their deadlines.
    pub(super) fn missed(&mut self, flows: &mut Flows<T>, place: Place, tasks: u64) {
        let flow = &mut flows[(place, self.class as usize)];
        flow.service.miss(tasks);
        self.reprice(flow);
    }

    /// A task that was taken was not begun: because of its deadline if it was missed, else because it was dead.
    pub(super) fn not_begun(&mut self, flows: &mut Flows<T>, place: Place, run: &Run) {
        if !self.turns.is_empty() {
            flows[(place, self.class as usize)].settle(run.charged, 0);
        }
        if run.missed {
            self.missed(flows, place, 1);
        }
    }

    /// How long a task with a deadline that begins at `now` usually takes, if that is known.
    pub(super) fn usual(&self, flows: &mut Flows<T>, run: &Run, now: Time) -> Option<Duration> {
        let service = &mut flows[(run.place, self.class as usize)].service;
        let usual = service.usual(run.effort?, run.queries, now.as_nanos());
        usual.map(Duration::from_nanos)
    }

    /// The task that is next in order.
    #[inline(always)]
    pub(super) fn front(&self, flows: &Flows<T>) -> Option<Front> {
        let (flow, is_backlogged) = match self.ring.front() {
            Some(place) => (place, false),
            None => (self.turns.front()?, true),
        };
        let since = flows[(flow, self.class as usize)].since()?;
        Some(Front {
            flow,
            since,
            is_backlogged,
        })
    }

    /// Takes the next task out, for whoever ran the flow at `last` before.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        flows: &mut Flows<T>,
        last: Place,
        run: &mut Run,
        now: Time,
    ) -> Option<T> {
        let front = self.ring.front();
        let place = match front {
            Some(front) => self.choose(flows, front, last, run, now.as_nanos()),
            None => self.turns.front()?,
        };
        let row = &mut flows.list[place as usize];
        let (table, flow) = (row.table, &mut row.flows[self.class as usize]);
        let (slot, left) = flow.pop()?;
        let expected = self.expected(flow, slot.queries.into());
        if !self.turns.is_empty() {
            self.turns.charge(flow, expected, &self.weights);
        }
        self.leaves(flow, slot.queries.into(), 1);
        match front {
            Some(front) if front == place => self.ring.pop(flows, left - 1),
            Some(_) => self.ring.leave(flows, place, left),
            None => {}
        }
        let length = self.run_length;
        run.begin(
            (table, place, last),
            &slot,
            expected,
            self.class,
            length,
            now,
        );
        slot.task
    }

    /// Which flow of the ring is next: that in front, or out of turn the one that the worker ran last.
    #[inline(always)]
    fn choose(&self, flows: &Flows<T>, front: Place, last: Place, run: &Run, now: u64) -> Place {
        if run.left == 0 || last == front || last == NOWHERE {
            return front;
        }
        let [first, other] = [front, last].map(|place| &flows[(place, self.class as usize)]);
        let since = first.since().unwrap_or(now);
        let latest = since + part(now.saturating_sub(since), self.reorder);
        let is_due = !other.is_backlogged && other.since().is_some_and(|since| since <= latest);
        if is_due { last } else { front }
    }

    /// So many tasks of a flow with so many queries do not wait any more.
    #[inline(always)]
    fn leaves(&mut self, flow: &mut Flow<T>, queries: u64, tasks: usize) {
        self.queued -= tasks;
        let work = queries.wrapping_mul(flow.cost);
        self.work = self.work.wrapping_sub(work);
        if flow.is_backlogged {
            self.turns.work = self.turns.work.wrapping_sub(work);
        }
        if flow.len == 0 {
            flow.ends();
            self.weights.leave(flow);
            if self.weights.flows == 0 {
                self.turns.forget();
            }
        }
    }

    /// Looks at the waiting tasks from `at` on, as many as there are `steps`, and takes those out for which `dead`
    /// holds, with their table and its weight. True if it has come to the end; else `at` is where to go on. Sixteen
    /// flows are a step, too.
    pub(super) fn extract(
        &mut self,
        flows: &mut Flows<T>,
        at: &mut SearchAt,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, f32, T, &Slot<T>),
    ) -> bool {
        let class = self.class as usize;
        while *steps > 0
            && let Some(row) = flows.list.get_mut(at.flow)
        {
            *steps -= usize::from(at.flow.is_multiple_of(16));
            let (table, flow) = (row.table, &mut row.flows[class]);
            let (weight, tasks, queries) = (flow.weight, flow.len, flow.queries);
            let is_backlogged = flow.is_backlogged;
            let tell = |task: T, slot: &Slot<T>| out(table, weight, task, slot);
            let left = flow.extract(&mut at.slot, steps, &mut dead, tell);
            let is_through = at.slot == flow.slots.len();
            if flow.len < tasks {
                self.leaves(flow, queries - flow.queries, tasks - flow.len);
            }
            if !is_backlogged {
                self.ring.leave(flows, at.flow as Place, left);
            }
            if is_through {
                (at.flow, at.slot) = (at.flow + 1, 0);
            }
        }
        self.turns.leave(flows, class);
        at.flow == flows.list.len()
    }
}

/// This part of so many nanoseconds, of [`WHOLE`].
fn part(nanos: u64, parts: u64) -> u64 {
    let whole = u64::from(WHOLE);
    nanos / whole * parts + nanos % whole * parts / whole
}
