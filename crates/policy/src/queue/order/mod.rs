//! The waiting tasks of one class in the order of service: by arrival, with shares by weight and short runs.
//!
//! A table's tasks wait in its flow (`flow.rs`), within its share of the workers' time or over it. Those within stand
//! in one ring; a flow over its share has a list of its own (`order/over.rs`).
//!
//! ```text
//! append(task):
//!     early = how much later it would have come, were tasks service time / (SHARE * workers) * largest weight / own apart
//!     over the share if it is TOO_FAST early, refused tasks included
//!         or its work exceeds TOO_FAST, or MANY tasks of it wait that nobody knows,
//!             and it is FAR_MORE times the other flows' mean,
//!             or it is next, and FAR_MORE than TOO_FAST and than a task of a flow in which none waits
//!         or the queue is half full and it has half as many tasks as an average flow
//!     suspected of that, while nothing waits of other tables
//!     within again if empty, or if the queue is not even a quarter full, no weight is twice another, it is TOO_FAST / 2
//!         early and no more than that of it waits
//!
//! front():
//!     oldest of flows within, or smallest tag of flows over if turn is before that one's arrival or floor has passed
//!
//! take():
//!     front, or out of turn (a run) the table that this worker ran last, or before
//!     if over: tag += service time / weight    (self-clocked fair queueing: Golestani, INFOCOM 1994)
//!              where runs pay the next flow's turn comes after QUANTUM of work
//!              turn = max(turn, now) + service time / (SHARE * workers), unless dead tasks have paid for it
//!              floor = now + FLOOR * classes with such flows * service time / workers
//! ```
//!
//! Out of turn goes only a task that has waited `1 - reorder` of what `front` has; `reorder` shrinks where runs gain
//! little (`order/runs.rs`). A flow that gets over its share is tagged as if just served.

mod over;
mod runs;
mod search;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, TryReserveError, VecDeque};
use std::time::Duration;

use chiplet_table::Class;

use super::flow::Flow;
use super::flows::{Flows, NOWHERE, Place};
use super::ring::{Ring, Slot};
use super::service::{ASSUMED, Cold, Took, follow};
use super::terms::{Run, Terms};
use super::weights::Tally;
use super::{Discipline, Pace};
use crate::Time;
use runs::{Reorder, Worth};

/// The part of its domain's time that a table may ask for before its tasks are too early: as much as it may have of the
/// queue's places by default.
const SHARE: (u64, u64) = (3, 4);

/// The most by which a table's tasks count as too early, and the longest time from one turn of tables over their share
/// to the next: so a table that asked for too much does not wait for ever. A queue of default length takes less.
const LEAD: u64 = 1_000_000_000;

/// A table whose tasks come this much too early asks for more than its share, and not just in a burst.
pub(super) const TOO_FAST: Duration = Duration::from_millis(10);

/// The same in nanoseconds.
const EARLY: u64 = TOO_FAST.as_nanos() as u64;

/// The part of its domain's time that tables over their share get at least, all together, whatever the others ask for;
/// less if their weights are less.
const FLOOR: u64 = 16;

/// Queries for each worker that may wait of a table of which nothing is known: if they take a millisecond, as they may,
/// two workers need [`TOO_FAST`] for them.
const MANY: u64 = 20;

/// How many times as much as of another table has to wait of one that floods, on average over the others.
const FAR_MORE: u64 = 3;

/// Slots looked at for one of a table that the worker ran last.
const LOOK_AHEAD: u32 = 7;

/// What else waits in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    /// Where the queue is crowded, a flow of more tasks is over its share.
    pub(super) much: Option<usize>,
    /// Whether tasks of the other class wait.
    pub(super) is_mixed: bool,
    /// Whether so little waits that flows may come back to the order of arrival. It is less than where they leave that
    /// because of `much`: each time all that waits is looked at.
    pub(super) is_low: bool,
}

/// The next task in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// When it came; of a table over its share when it is due.
    pub(super) key: u64,
    /// Where its table's flow lies.
    pub(super) flow: Place,
    /// When it came.
    pub(super) since: u64,
    /// Whether that table is over its share.
    pub(super) over: bool,
}

/// Who takes a task.
#[derive(Clone, Copy)]
pub(super) struct Taker {
    /// One of the group's workers; `None`: another group's.
    pub(super) worker: Option<u32>,
    /// Where the flow of the table lies that it has run last, or [`NOWHERE`].
    pub(super) last: Place,
}

pub(super) struct Order<T> {
    /// Which flows are its own.
    class: Class,
    run_length: u32,
    workers: u64,
    /// What all workers serve in [`TOO_FAST`], in nanoseconds.
    too_much: u64,
    /// So many queries that nobody knows may be as much.
    too_many: u64,
    /// Times the service time, divided by 2^32: the time between two tasks of a table that asks for just its share.
    apart: u64,
    /// What waits within its table's share.
    ring: Ring<T>,
    /// Flows over their share by their tags, smallest first; that of the one whose turn it is may be too small by [a
    /// quantum](over).
    over: BinaryHeap<Reverse<(u64, Place)>>,
    /// The tag of the flow over its share that was served last.
    clock: u64,
    /// When the next task of a flow over its share is due.
    turn: u64,
    /// When it is, whatever the others ask for.
    floor: u64,
    /// A flow that is over its share but for one thing: nothing waits of other tables.
    suspect: Place,
    pub(super) tally: Tally,
    queued: usize,
    /// What waiting tasks will take, by their tables' mean service times, in nanoseconds; those of tables of which
    /// nothing is known count nothing.
    work: u64,
    /// Of that, of tables over their share.
    work_over: u64,
    /// What a query takes on average over all tables, in nanoseconds.
    typical: u64,
    /// How many times as long queries take away from home, over all tables.
    pub(super) cold: Cold,
    /// Whether runs pay.
    worth: Worth,
}

impl<T> Order<T> {
    pub(super) fn new(class: Class, discipline: &Discipline) -> Self {
        Self {
            class,
            run_length: discipline.run_length,
            workers: 1,
            too_much: 0,
            too_many: 0,
            apart: 0,
            ring: Ring::new(),
            over: BinaryHeap::new(),
            clock: 0,
            turn: 0,
            floor: 0,
            suspect: NOWHERE,
            tally: Tally::default(),
            queued: 0,
            work: 0,
            work_over: 0,
            typical: ASSUMED,
            cold: Cold::default(),
            worth: Worth::new(match discipline.run_length {
                0 | 1 => Reorder::NONE,
                _ => Reorder::new(discipline.reorder),
            }),
        }
    }

    pub(super) fn set_workers(&mut self, flows: &mut Flows<T>, workers: u32) {
        self.workers = u64::from(workers.max(1));
        (self.too_much, self.too_many) = (EARLY * self.workers, MANY * self.workers);
        self.apart = (SHARE.1 << 32) / (SHARE.0 * self.workers);
        for row in &mut flows.list {
            let flow = &mut row.flows[self.class as usize];
            flow.apart = self.apart(flow.cost);
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// Has the ring begin at this position, while it is empty.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, position: u32) {
        self.ring.begin_at(position);
    }

    /// Whether all that waits is in order of arrival.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.tally.over == 0
    }

    /// Whether all that waits is of one table that asks for more than its share.
    pub(super) fn is_alone_over(&self) -> bool {
        self.suspect != NOWHERE
    }

    /// The oldest task within its table's share.
    #[inline]
    pub(super) fn first(&self) -> Option<&Slot<T>> {
        self.ring.front()
    }

    /// What waits, in nanoseconds: all of it, and that of tables within their share.
    #[inline]
    pub(super) fn work(&self) -> [u64; 2] {
        let fair = match self.is_alone_over() {
            false => self.work.wrapping_sub(self.work_over),
            true => 0,
        };
        [self.work, fair]
    }

    /// Whether so much waits of a flow that it may be more than just a burst.
    #[inline]
    fn is_much(&self, flow: &Flow<T>) -> bool {
        match flow.cost {
            0 => flow.queries > self.too_many,
            _ => flow.work() > self.too_much,
        }
    }

    /// How far apart tasks that take `service` come if their table asks for just its [`SHARE`].
    #[inline]
    fn apart(&self, service: u64) -> u64 {
        ((u128::from(service) * u128::from(self.apart)) >> 32) as u64
    }

    /// Makes sure that [`Order::append`] of so many tasks to the flow at `place` needs no memory.
    #[inline(always)]
    pub(super) fn make_room(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        tasks: usize,
    ) -> Result<(), TryReserveError> {
        let flow = &mut flows[(place, self.class as usize)];
        match flow.over {
            true => flow.flood.try_reserve(tasks),
            false if self.ring.has_room(tasks) => Ok(()),
            false => self.ring.make_room(flows, self.class as usize, tasks),
        }
    }

    /// Whether a task needs no memory.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.ring.has_room(1)
    }

    /// Adds tasks, each with its queries, for which there is room, to their flow, and then judges that.
    pub(super) fn append(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        tasks: impl ExactSizeIterator<Item = (T, u32)>,
        terms: &Terms,
        at: u64,
        crowd: Crowd,
    ) -> Pace {
        let class = self.class as usize;
        let (over, came) = (flows[(place, class)].over, tasks.len() as u32);
        for (task, queries) in tasks {
            match over {
                true => {
                    let slot = Slot::new(task, at, place, queries, terms.effort);
                    self.add_over(&mut flows[(place, class)], slot, terms.weight);
                }
                false => {
                    let terms = Terms { queries, ..*terms };
                    self.add_within(flows, place, task, &terms, at);
                }
            }
        }
        match over {
            true => self.judge_over(flows, place, at, crowd),
            false => self.judge_within(flows, place, came, at.max(self.ring.newest), crowd),
        }
    }

    /// [`Order::append`] of one task to a flow within its share.
    #[inline(always)]
    pub(super) fn append_within(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        task: T,
        terms: &Terms,
        at: u64,
        crowd: Crowd,
    ) -> Pace {
        let at = self.add_within(flows, place, task, terms, at);
        self.judge_within(flows, place, 1, at, crowd)
    }

    /// Adds a task to a flow within its share. Whoever was held up on the way here stands behind those who came
    /// meanwhile: gives when it counts as having come.
    #[inline(always)]
    fn add_within(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        task: T,
        terms: &Terms,
        at: u64,
    ) -> u64 {
        let at = at.max(self.ring.newest);
        let flow = &mut flows[(place, self.class as usize)];
        self.joins(flow, (at, terms.queries.into()), terms.weight);
        self.ring.append(flow, place, task, terms, at);
        at
    }

    /// So many tasks have come to a flow within its share until `at`.
    #[inline(always)]
    fn judge_within(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        came: u32,
        at: u64,
        crowd: Crowd,
    ) -> Pace {
        let flow = &flows[(place, self.class as usize)];
        let is_calm = match flow.len == came {
            true => self.work <= self.too_much && self.queued as u64 <= self.too_many,
            false => !self.is_most(flow),
        };
        if is_calm && flow.early(at) <= EARLY && self.suspect == NOWHERE && crowd.much.is_none() {
            return Pace::Within;
        }
        self.judge(flows, place, came, at, crowd)
    }

    /// A task that came at `at` is about to wait in a flow.
    #[inline(always)]
    fn joins(&mut self, flow: &mut Flow<T>, (at, queries): (u64, u64), weight: f32) {
        self.tally.join(flow, weight);
        let apart = self
            .tally
            .by_weight(flow.apart.wrapping_mul(queries), weight.into());
        flow.ask(at, apart, LEAD);
        flow.queries += queries;
        self.queued += 1;
        self.work = self.work.wrapping_add(queries.wrapping_mul(flow.cost));
    }

    /// Adds tasks that came elsewhere, the oldest first, each with its table's weight.
    pub(super) fn adopt(&mut self, flows: &mut Flows<T>, slots: Vec<(Slot<T>, f32)>) {
        let class = self.class as usize;
        let mut within = VecDeque::new();
        for (slot, weight) in slots {
            let flow = &mut flows[(slot.flow, class)];
            if flow.over {
                self.add_over(flow, slot, weight);
            } else {
                self.joins(flow, (slot.at, slot.queries.into()), weight);
                flow.len += 1;
                within.push_back(slot);
            }
        }
        if !within.is_empty() && self.ring.rebuild(flows, class, within, 0).is_err() {
            std::process::abort();
        }
    }

    /// Takes note of how long a task took, at home or away.
    #[inline(always)]
    pub(super) fn learn(&mut self, flow: &mut Flow<T>, run: &Run, took: &Took, away: bool) {
        if let Some(charged) = run.charged
            && flow.over
        {
            flow.uncharged += took.spent as i64 - charged as i64;
        }
        let each = took.each(run.queries);
        let home = flow.service.home;
        flow.service.learn(&each, run.effort, away, self.typical);
        if away {
            self.cold.note(each.spent, home);
        } else {
            self.typical = follow(self.typical, each.spent, self.typical);
            if home > 0 {
                self.worth.note(run.follows, each.spent, home);
            }
        }
        self.reprice(flow);
        if home == 0 && !away {
            self.known(flow, took.ended.as_nanos());
        }
    }

    /// What the queries of a flow cost is known a little better.
    #[inline(always)]
    fn reprice(&mut self, flow: &mut Flow<T>) {
        let before = flow.work();
        flow.cost = flow.service.cost();
        flow.apart = ((u128::from(flow.cost) * u128::from(self.apart)) >> 32) as u64;
        let more = flow.work().wrapping_sub(before);
        self.work = self.work.wrapping_add(more);
        if flow.over {
            self.work_over = self.work_over.wrapping_add(more);
        }
    }

    /// A flow's first task has ended at `now`: what waits of it came without anybody knowing what it takes. As much as
    /// may be a burst counts as asked for by then.
    #[cold]
    fn known(&self, flow: &mut Flow<T>, now: u64) {
        let takes = flow.work() / self.workers;
        flow.asked(
            now,
            self.tally.by_weight(takes, flow.weight.into()).min(EARLY),
        );
    }

    /// Takes note of so many tasks of the flow at `place` that were not begun because of their deadlines.
    pub(super) fn missed(&mut self, flows: &mut Flows<T>, place: Place, tasks: u64) {
        let flow = &mut flows[(place, self.class as usize)];
        flow.service.miss(tasks);
        self.reprice(flow);
    }

    /// A task that was taken was not begun: because of its deadline if it was missed, else because it was dead.
    pub(super) fn not_begun(&mut self, flows: &mut Flows<T>, place: Place, run: &Run) {
        let flow = &mut flows[(place, self.class as usize)];
        if let Some(charged) = run.charged
            && flow.over
        {
            flow.uncharged -= charged as i64;
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

    /// The task that is next in order at `now`.
    pub(super) fn front(&self, flows: &Flows<T>, now: u64) -> Option<Front> {
        let within = self.ring.front().map(|slot| Front {
            key: slot.at,
            flow: slot.flow,
            since: slot.at,
            over: false,
        });
        match self.is_plain() {
            true => within,
            false => self.front_of_all(flows, within, now),
        }
    }

    /// The next task within its table's share for a worker: the oldest, or one that may go out of turn.
    #[inline(always)]
    pub(super) fn take_within(
        &mut self,
        flows: &mut Flows<T>,
        taker: Taker,
        run: &mut Run,
        now: Time,
    ) -> Option<T> {
        let at = now.as_nanos();
        let front = self.ring.front()?;
        let place = self.choose(flows, front, taker, run, at);
        let row = &mut flows.list[place as usize];
        let flow = &mut row.flows[self.class as usize];
        let slot = self.ring.pop(flow);
        if place == self.suspect {
            let apart = flow.apart.saturating_mul(slot.queries.into());
            self.turn = at.saturating_add(apart.min(LEAD));
        }
        if taker.worker.is_some() {
            flow.worker = taker.worker;
        }
        self.leaves(flow, &slot);
        let table = (row.table, taker.last);
        run.begin(table, (&slot, None), self.class, self.run_length, now);
        slot.task
    }

    /// A task does not wait any more.
    #[inline(always)]
    fn leaves(&mut self, flow: &mut Flow<T>, slot: &Slot<T>) {
        let queries = u64::from(slot.queries);
        flow.queries -= queries;
        self.queued -= 1;
        let work = queries.wrapping_mul(flow.cost);
        self.work = self.work.wrapping_sub(work);
        if flow.over {
            self.work_over = self.work_over.wrapping_sub(work);
        }
        if flow.len == 0 {
            self.tally.leave(flow);
            if self.suspect == slot.flow {
                self.suspect = NOWHERE;
            }
        }
    }

    /// Which flow's task is next: that of `front`, or out of turn that of a table which the worker's private cache
    /// holds.
    #[inline(always)]
    fn choose(
        &self,
        flows: &Flows<T>,
        front: &Slot<T>,
        Taker { worker, last }: Taker,
        run: &Run,
        now: u64,
    ) -> Place {
        let reorder = self.worth.reorder;
        if (run.left > 0 && front.flow == last) || self.tally.flows == 1 || reorder == Reorder::NONE
        {
            return front.flow;
        }
        let latest = front.at + reorder.of(now.saturating_sub(front.at));
        if run.left > 0 && last != NOWHERE {
            let flow = &flows[(last, self.class as usize)];
            if flow.len > 0 && !flow.over && self.ring.slot(flow.first).at <= latest {
                return last;
            }
        }
        let Some(worker) = worker else {
            return front.flow;
        };
        // Of the first flows in order, one that no other worker has in its cache. The table whose run is over comes
        // last.
        let is_mine = |place: Place| {
            let by = flows[(place, self.class as usize)].worker;
            place != last && by.is_none_or(|by| by == worker)
        };
        let mut ahead = self.ring.ahead(LOOK_AHEAD);
        let mine = ahead.find(|slot| slot.at > latest || is_mine(slot.flow));
        mine.filter(|slot| slot.at <= latest)
            .map_or(front.flow, |slot| slot.flow)
    }
}
