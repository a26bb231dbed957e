//! The waiting tasks of one class in the order of service: by arrival, with shares by weight and short runs.
//!
//! A table's tasks wait in its lane ([`Lane`]), within its share of the workers' time or over it.
//!
//! ```text
//! append(task):
//!     early = how much later it would have come, were tasks service time / (SHARE * workers) * largest weight / own apart
//!     over the share if it is TOO_FAST early, refused tasks included
//!         or its work exceeds TOO_FAST and FAR_MORE times the other lanes' mean
//!         or the queue is half full and it has half as many tasks as an average lane
//!     within again if empty, or if weights are equal and it is TOO_FAST / 2 early, and no more than that waits
//!
//! front():
//!     oldest of lanes within, or smallest tag of lanes over if turn is before that one's arrival or floor has passed
//!
//! take():
//!     front, or out of turn (a run) the table that this worker ran last, or before
//!     if over: tag += service time / weight    (self-clocked fair queueing: Golestani, INFOCOM 1994)
//!              turn = max(turn, now) + service time / (SHARE * workers)
//!              floor = now + FLOOR * service time / workers
//! ```
//!
//! Out of turn goes only a task that has waited `1 - reorder` of what `front` has; `reorder` shrinks where runs gain
//! little (`order/runs.rs`). A lane that gets over its share is tagged as if just served. Of an unknown table [`FIRST`]
//! tasks cost nothing, later ones what a typical table's do.

mod choose;
mod front;
mod runs;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, TryReserveError, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::lane::{Buffers, Lane, Popped};
use super::lanes::{Lanes, Place};
use super::service::{ASSUMED, Cold, follow};
use super::terms::{Outcome, Run, Taken, Terms};
use super::weights::Tally;
use super::{Discipline, Intake, Pace};
use crate::TableId;
pub(super) use front::Front;
use runs::{Reorder, Worth};

/// The part of its domain's time that a table may ask for before its tasks are too early: as much as it may have of the
/// queue's places by default.
const SHARE: (u64, u64) = (3, 4);

/// A table's tasks count as this much too early at most; once it is over its share, they come this much after the one
/// before at most. It bounds how long a table that asked for too much can be made to wait by others; longer than any
/// queue of default length takes.
const LEAD: Duration = Duration::from_secs(1);

/// A table whose tasks come this much too early asks for more than its share, and not just in a burst.
pub(super) const TOO_FAST: Duration = Duration::from_millis(10);

/// The part of its domain's time that tables over their share get at least, all together, whatever the others ask for;
/// less if their weights are less.
const FLOOR: u64 = 16;

/// Tasks for each worker that may wait of a table of which nothing is known before they are taken to be as long as
/// others'. By the time that those have run it is known.
const FIRST: u64 = 8;

/// As long as this queries of a table of which nothing is known may well take, in nanoseconds: if so many wait that
/// this would be too much, the table is over its share until it is known.
const LONG: u64 = 1_000_000;

/// How many times as much as of another table has to wait of one that floods, on average over the others.
const FAR_MORE: u64 = 3;

/// A task of a lane within its share. It may have been taken since, or its lane be over its share by now; then another
/// token stands for what waits there, or none.
#[derive(Clone, Copy)]
struct Token {
    /// When it came.
    at: u64,
    lane: Place,
}

pub(super) struct Order<T> {
    run_length: u32,
    reorder: Reorder,
    workers: u64,
    /// Every table that ever submitted here.
    pub(super) lanes: Lanes<T>,
    /// What waits within its table's share, in order of arrival.
    within: VecDeque<Token>,
    /// Lanes over their share by the tag of their next task, smallest first. It may be too small, and a lane may have
    /// left since.
    over: BinaryHeap<Reverse<(u64, Place)>>,
    /// The tag of the lane over its share that was served last.
    clock: u64,
    /// When the next task of a lane over its share is due.
    turn: u64,
    /// When it is, whatever the others ask for.
    floor: u64,
    tally: Tally,
    buffers: Buffers<T>,
    queued: usize,
    work: Work,
    /// What a query takes on average over all tables, in nanoseconds.
    typical: u64,
    /// How many times as long queries take away from home, over all tables.
    pub(super) cold: Cold,
    /// Whether runs pay.
    worth: Worth,
}

/// What waiting tasks will take, by their tables' mean service times, in nanoseconds; those of tables of which nothing
/// is known count nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) all: u64,
    /// Of that, of tables over their share.
    pub(super) over: u64,
}

impl Work {
    /// Of tables within their share.
    pub(super) fn fair(&self) -> u64 {
        self.all.saturating_sub(self.over)
    }

    fn of<T>(&self, lane: &Lane<T>, queries: u64) -> u64 {
        queries.saturating_mul(lane.service.cost())
    }

    /// So many queries of a lane wait that did not.
    fn add<T>(&mut self, lane: &Lane<T>, queries: u64) {
        let nanos = self.of(lane, queries);
        self.all = self.all.saturating_add(nanos);
        if lane.over {
            self.over = self.over.saturating_add(nanos);
        }
    }

    /// They do not wait any more.
    fn remove<T>(&mut self, lane: &Lane<T>, queries: u64) {
        let nanos = self.of(lane, queries);
        self.all = self.all.saturating_sub(nanos);
        if lane.over {
            self.over = self.over.saturating_sub(nanos);
        }
    }

    /// So many queries of a lane wait, of which each cost `before`.
    fn reprice<T>(&mut self, lane: &Lane<T>, queries: u64, before: u64) {
        let change = |sum: u64| {
            let without = sum.saturating_sub(queries.saturating_mul(before));
            without.saturating_add(self.of(lane, queries))
        };
        (self.all, self.over) = match lane.over {
            true => (change(self.all), change(self.over)),
            false => (change(self.all), self.over),
        };
    }

    /// A lane is about to be over its share no more.
    fn forgive<T>(&mut self, lane: &Lane<T>) {
        self.over = self.over.saturating_sub(self.of(lane, lane.queries()));
    }

    /// Whether more of a lane waits than all workers serve in so many nanoseconds.
    fn waits_for<T>(&self, nanos: u64, lane: &Lane<T>, workers: u64) -> bool {
        self.of(lane, lane.queries()) > nanos * workers
    }

    /// Whether [`FAR_MORE`] times as much of a lane waits as of each of the others, on average over all `lanes` in
    /// which tasks wait.
    fn is_far_more<T>(&self, lane: &Lane<T>, lanes: u32) -> bool {
        let own = self.of(lane, lane.queries());
        let others = self.all.saturating_sub(own);
        own > FAR_MORE * (others / u64::from(lanes.saturating_sub(1)).max(1))
    }
}

/// Where a search of a queue's tasks goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchAt {
    pub(super) order: usize,
    lane: usize,
    /// Which of those that wait in it.
    task: usize,
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

impl<T> Order<T> {
    pub(super) fn new(discipline: &Discipline, workers: u32) -> Self {
        Self {
            run_length: discipline.run_length,
            reorder: Reorder::new(discipline.reorder),
            workers: u64::from(workers.max(1)),
            lanes: Lanes::new(),
            within: VecDeque::new(),
            over: BinaryHeap::new(),
            clock: 0,
            turn: 0,
            floor: 0,
            tally: Tally::default(),
            buffers: Buffers::new(),
            queued: 0,
            work: Work::default(),
            typical: ASSUMED,
            cold: Cold::default(),
            worth: Worth::default(),
        }
    }

    pub(super) fn set_workers(&mut self, workers: u32) {
        self.workers = u64::from(workers.max(1));
    }

    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// Tables of which tasks wait.
    pub(super) fn tables(&self) -> usize {
        self.tally.lanes as usize
    }

    /// What waits, in time.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Makes sure that [`Order::append`] of so many tasks to the lane at `place` needs no memory.
    pub(super) fn make_room(
        &mut self,
        place: Place,
        tasks: usize,
    ) -> Result<&mut Lane<T>, TryReserveError> {
        let lane = &mut self.lanes[place];
        // All of a lane may come back from those over their share.
        let back = if lane.over { lane.len() } else { 0 };
        self.within.try_reserve(back + tasks)?;
        if !lane.in_over {
            self.over.try_reserve(1)?;
        }
        lane.make_room(tasks, &mut self.buffers)?;
        Ok(lane)
    }

    /// Adds a task that came at `at` to the lane at `place`. Where the queue is crowded, a lane of more than `much`
    /// tasks is over its share.
    pub(super) fn append(
        &mut self,
        place: Place,
        task: T,
        at: u64,
        terms: Terms,
        much: Option<usize>,
    ) -> Pace {
        let Terms {
            weight, queries, ..
        } = terms;
        let lane = &mut self.lanes[place];
        self.tally.join(lane, weight);
        let less = self.tally.less(f64::from(weight));
        let expected = match lane.service.home {
            0 if (lane.len() as u64) < FIRST * self.workers => 0,
            _ => lane
                .service
                .mean(self.typical)
                .saturating_mul(queries.into()),
        };
        let early = lane.ask(at, apart(expected, self.workers, less), nanos(LEAD));
        lane.append(task, &terms, at);
        self.queued += 1;
        self.work.add(lane, queries.into());
        // Of an unknown table: if its tasks turn out to be short, it is forgiven with the next one.
        let may_be_long =
            lane.service.home == 0 && lane.queries() > self.workers * 2 * nanos(TOO_FAST) / LONG;
        let crowds = much.is_some_and(|much| lane.len() > much);
        if lane.over {
            let is_calm = 2 * early <= nanos(TOO_FAST)
                && !self.work.waits_for(nanos(TOO_FAST) / 2, lane, self.workers);
            if is_calm && !may_be_long && !crowds && self.tally.is_even() {
                self.readmit(place);
                return Pace::Within;
            }
            return Pace::OverShare;
        }
        let floods = self.work.waits_for(nanos(TOO_FAST), lane, self.workers)
            && self.work.is_far_more(lane, self.tally.lanes);
        if early > nanos(TOO_FAST) || may_be_long || floods || crowds {
            self.mark_over(place, at);
            return Pace::OverShare;
        }
        let token = Token { at, lane: place };
        match self.within.back() {
            Some(last) if last.at > at => {
                let after = self.within.partition_point(|other| other.at <= at);
                self.within.insert(after, token);
            }
            _ => self.within.push_back(token),
        }
        Pace::Within
    }

    /// A lane is over its share no more: its tasks wait in order of arrival again. Looks at all that waits.
    #[cold]
    fn readmit(&mut self, place: Place) {
        let lane = &mut self.lanes[place];
        self.work.forgive(lane);
        self.tally.forgive(lane);
        // What is left of before.
        self.within.retain(|token| token.lane != place);
        let tokens = lane.arrivals().map(|at| Token { at, lane: place });
        self.within.extend(tokens);
        let tokens = self.within.make_contiguous();
        tokens.sort_unstable_by_key(|token| token.at);
    }

    /// So many tasks of `table` that came at `at` were refused: it has asked for them all the same.
    pub(super) fn note_refused(
        &mut self,
        table: TableId,
        queries: u64,
        at: u64,
        much: Option<usize>,
    ) {
        if let Some(place) = self.lanes.find(table) {
            let lane = &mut self.lanes[place];
            let less = self.tally.less(f64::from(lane.weight));
            let expected = lane.service.mean(self.typical).saturating_mul(queries);
            lane.ask(at, apart(expected, self.workers, less), nanos(LEAD));
            if !lane.over && much.is_some_and(|much| lane.len() > much) {
                self.mark_over(place, at);
            }
        }
    }

    /// Puts a lane with waiting tasks among those over their share.
    fn mark_over(&mut self, place: Place, now: u64) {
        let is_first = self.tally.over == 0;
        let lane = &mut self.lanes[place];
        let expected = lane.service.mean(self.typical);
        self.tally.over += 1;
        self.tally.over_weight += f64::from(lane.weight);
        lane.over = true;
        self.work.over += self.work.of(lane, lane.queries());
        if is_first {
            self.turn = lane.oldest().unwrap_or_default();
            let less = self.tally.less(self.tally.over_weight);
            self.floor = now.saturating_add(at_least(expected, self.workers, less));
        }
        let step = lane.step(expected, self.workers);
        // One that has just been served, and comes again, does not go before those that have waited meanwhile.
        lane.tag = self.clock.max(lane.tag).saturating_add(step);
        if !std::mem::replace(&mut lane.in_over, true) {
            self.over.push(Reverse((lane.tag, place)));
        }
    }

    /// The counters of one table, which has had a task here.
    pub(super) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        let Ok(place) = self.lanes.find_or_add(table) else {
            std::process::abort()
        };
        &mut self.lanes[place].intake
    }

    /// How long a task with a deadline that begins at `now` usually takes, if that is known.
    pub(super) fn usual(&mut self, taken: &Taken<T>, now: u64) -> Option<u64> {
        let service = &mut self.lanes[taken.place].service;
        service.usual(taken.effort?, taken.queries, now)
    }

    /// Takes note of how long a task took, at home or away, if it was run at all.
    pub(super) fn learn(&mut self, outcome: &Outcome, ended: u64, away: bool) {
        let Some(place) = self.lanes.find_near(outcome.table, outcome.place) else {
            return;
        };
        let lane = &mut self.lanes[place];
        if let Some(charged) = outcome.charged.filter(|_| lane.over) {
            let spent = outcome.took.as_ref().map_or(0, |took| took.spent);
            lane.uncharged += spent as i64 - charged as i64;
        }
        let Some(took) = &outcome.took else {
            if outcome.missed {
                self.missed(place, 1);
            }
            return;
        };
        let (queries, before) = (lane.queries(), lane.service.cost());
        let was_unknown = lane.service.home == 0;
        let each = took.spent / u64::from(outcome.queries.max(1));
        if !away && !was_unknown {
            self.worth.note(outcome.follows, each, lane.service.home);
        }
        lane.service.learn(
            took,
            (outcome.queries, outcome.effort),
            ended,
            away,
            self.typical,
        );
        if was_unknown && !away {
            // What waits was ordered by a guess. The next task is not to be late for that.
            let less = self.tally.less(f64::from(lane.weight));
            let waiting = lane.queries().saturating_mul(lane.service.cost());
            lane.catch_up(ended.saturating_add(apart(waiting, self.workers, less)));
        }
        self.work.reprice(lane, queries, before);
        match away {
            true => self.cold.note(each, lane.service.home),
            false => self.typical = follow(self.typical, each, self.typical),
        }
    }

    /// Takes note of so many tasks of the lane at `place` that were not begun because of their deadlines.
    pub(super) fn missed(&mut self, place: Place, tasks: u64) {
        let lane = &mut self.lanes[place];
        self.work.remove(lane, lane.queries());
        lane.service.miss(tasks);
        self.work.add(lane, lane.queries());
    }

    /// The next task for a worker: `front`'s, or one that may go out of turn.
    pub(super) fn take(
        &mut self,
        front: Front,
        worker: Option<usize>,
        run: &Run,
        now: u64,
    ) -> Option<Taken<T>> {
        let place = self.choose(front, worker, run, now);
        let lane = &mut self.lanes[place];
        let table = lane.table?;
        let popped = lane.pop(&mut self.buffers)?;
        let Popped {
            task,
            queries,
            effort,
            ..
        } = popped;
        if worker.is_some() {
            lane.last = worker;
        }
        self.queued -= 1;
        self.work.remove(lane, queries.into());
        let mut charged = None;
        if front.over {
            let expected = lane
                .service
                .mean(self.typical)
                .saturating_mul(queries.into());
            self.clock = self.clock.max(front.place);
            charged = Some(expected);
            let due = lane.charge(expected);
            lane.tag = lane.tag.saturating_add(lane.step(due, self.workers));
            let less = self.tally.less(self.tally.over_weight);
            // Counted from now, if it was due earlier: others needed the time.
            let apart = apart(due, self.workers, less);
            let lead = now.saturating_add(nanos(LEAD));
            self.turn = front.key.max(now).saturating_add(apart).min(lead);
            self.floor = now.saturating_add(at_least(expected, self.workers, less));
        }
        if lane.len() == 0 {
            self.tally.leave(lane);
        }
        if !front.over && place == front.lane {
            self.within.pop_front();
        }
        Some(Taken {
            table,
            place,
            task,
            queries,
            effort,
            charged,
        })
    }

    /// Looks at the waiting tasks from `at` on, as many as there are `steps`, and takes those out for which `dead`
    /// holds, with their table and that one's weight. True if it has come to the end; else `at` is where to go on. A
    /// lane is a step, too.
    pub(super) fn extract(
        &mut self,
        at: &mut SearchAt,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, f32, Popped<T>),
    ) -> bool {
        while at.lane < self.lanes.places() {
            let lane = &mut self.lanes[at.lane as Place];
            let (before, queries, weight) = (lane.len(), lane.queries(), lane.weight);
            // Some of those that were looked at may have left since.
            let first = at.task.min(before);
            let end = before.min(first.saturating_add(*steps));
            *steps = steps.saturating_sub(end - first + 1);
            if let Some(table) = lane.table {
                at.task = lane.extract(first, end, &mut dead, |task| out(table, weight, task));
                self.queued -= before - lane.len();
                self.work.remove(lane, queries - lane.queries());
                if before > 0 && lane.len() == 0 {
                    self.tally.leave(lane);
                }
            }
            if end < before {
                return false;
            }
            (at.lane, at.task) = (at.lane + 1, 0);
            if *steps == 0 {
                return false;
            }
        }
        true
    }

    /// Counters of the tables whose lanes lie at these places, and how many of their queries wait.
    pub(super) fn intake(
        &self,
        places: Range<usize>,
    ) -> impl Iterator<Item = (TableId, Intake, u64)> + '_ {
        let lanes = self.lanes.at(places);
        lanes.map(|(table, lane)| (table, lane.intake, lane.queries()))
    }

    /// The table has another index.
    pub(super) fn replaced(&mut self, table: TableId, now: u64) {
        if let Some(place) = self.lanes.find(table) {
            self.lanes[place].service.forget_usual(now);
        }
    }

    /// Forgets a table, which has nothing queued any more. Returns its counters.
    pub(super) fn retire(&mut self, table: TableId) -> Option<Intake> {
        let lane = self.lanes.remove(table)?;
        debug_assert_eq!(lane.len(), 0, "a table retires after its last task");
        Some(lane.intake)
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// How far apart tasks that take `service` are served if their tables get just [`FLOOR`], and `less` times less of
/// that.
fn at_least(service: u64, workers: u64, less: f64) -> u64 {
    let apart = service.saturating_mul(FLOOR) / workers;
    (apart as f64 * less.max(1.0)) as u64
}

/// How far apart tasks that take `service` come if their table asks for just its share, which is `less` times less
/// than [`SHARE`].
fn apart(service: u64, workers: u64, less: f64) -> u64 {
    let apart = service.saturating_mul(SHARE.1) / (workers * SHARE.0);
    match less > 1.0 {
        true => (apart as f64 * less) as u64,
        false => apart,
    }
}
