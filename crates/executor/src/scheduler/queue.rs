//! A domain's queue: bounded, counted, and served in the order in which tasks came, with two exceptions.
//!
//! - **Runs.** A worker that has just run a table goes on with it for up to `run_length` tasks, because its private cache
//!   holds that table now; when it turns to another one, it prefers a table that it ran last. A task goes out of turn only
//!   if it has waited nearly as long as the oldest: at least `1 - reorder` of that. So no task waits longer than
//!   `1 / (1 - reorder)` times what it would wait in plain order. With `run_length == 1` the order is plain.
//! - **Shares.** A table that asks for more than [`SHARE`] of the workers' time is ordered as if its tasks had come at
//!   that pace. Whoever asks for less then goes before what is too much, and hardly waits for it.
//!
//! Every waiting task stands in the lane of its table ([`Lane`]); `order` holds the lanes that have any by their first
//! task's key. A lane that was served out of turn keeps its old key there, which is mended when it comes to the front.
//!
//! The queue is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is. All memory that
//! a waiting task needs here is reserved before it is accepted ([`Queue::accept`]), and taking it out again needs none:
//! a queue that cannot grow refuses tasks and still hands out those that wait.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, TryReserveError};
use std::time::{Duration, Instant};

use chiplet_policy::{Backlog, TableId};
use rustc_hash::FxHashMap;

use super::lane::{Buffers, Lane, follow};
use crate::counts::Intake;
use crate::sync::{Step, left_out};

/// The part of its domain's time that a table may ask for before its tasks are ordered later: as much as it may have of
/// the queue's places by default.
const SHARE: (u64, u64) = (3, 4);

/// A table's tasks are ordered at most this much later than they came. It bounds how long a table that asked for too much
/// can be made to wait by others; longer than any queue of default length takes.
const LEAD: Duration = Duration::from_secs(1);

/// A table whose tasks are ordered this much later than they came asks for more than its share, and not just in a burst.
const TOO_FAST: Duration = Duration::from_millis(10);

/// Lanes looked at for one that the worker ran last. Bounded, so that taking is O(log n) in the number of tables; the
/// first elements of a heap are among its smallest.
const LOOK_AHEAD: usize = 7;

/// How a group's queue behaves; the same for all groups of an executor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discipline {
    /// Tasks of one table that a worker may run in a row although older ones wait; 1 means plain order.
    pub(crate) run_length: u32,
    /// A task may go before the oldest if it is younger by at most this part of that one's age.
    pub(crate) reorder: f64,
    /// Tasks the group may hold.
    pub(crate) limit: usize,
    /// Tasks one table may hold of them.
    pub(crate) table_limit: usize,
}

/// What a worker runs of one queue: task after task of one table, and how long the present one takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    table: Option<TableId>,
    left: u32,
    began: Option<Instant>,
    ended: Option<Instant>,
    /// How long the present task will take, if others wait for it and that is known.
    expected: Option<Duration>,
}

impl Run {
    /// Says that what the worker was running ended at `now`. A query that was cut ends with the last unit that its worker
    /// ran of it.
    pub(crate) fn tell(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// How long the present task will take, as far as is known, if others wait meanwhile.
    pub(crate) fn expected(&self) -> Option<Duration> {
        self.expected
    }

    /// The table of the task that has ended, and the nanoseconds that it took; once.
    fn spent(&mut self) -> Option<(TableId, u64)> {
        let (began, ended) = (self.began.take(), self.ended.take());
        let spent = ended?.saturating_duration_since(began?);
        Some((self.table?, spent.as_nanos() as u64))
    }
}

/// How fast a table's tasks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The table asks for its share of the domain's time at most.
    Within,
    /// It has asked for more for some time.
    OverShare,
}

/// Why a task was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    GroupFull,
    TableFull,
    /// Nobody of the group is at work; its tables have other homes by now.
    Vacant,
    /// The system has no memory for a longer queue.
    NoMemory,
}

/// The lane of `table`, a new one if need be and if there is memory for it.
fn lane_of<T>(
    lanes: &mut FxHashMap<TableId, Lane<T>>,
    table: TableId,
) -> Result<&mut Lane<T>, TryReserveError> {
    // Only a full map is asked twice: with room for one more, `entry` does not grow it.
    if lanes.len() == lanes.capacity() && !lanes.contains_key(&table) {
        lanes.try_reserve(1)?;
    }
    Ok(lanes.entry(table).or_default())
}

pub(crate) struct Queue<T> {
    discipline: Discipline,
    /// Workers at work.
    workers: u32,
    /// When nanoseconds are counted from.
    epoch: Instant,
    /// Every table that ever submitted here.
    lanes: FxHashMap<TableId, Lane<T>>,
    /// Lanes with waiting tasks, smallest key first. A key may be too small, and a lane may have been emptied since.
    order: BinaryHeap<Reverse<(u64, TableId)>>,
    buffers: Buffers<T>,
    retired: Intake,
    /// Tasks that were refused or expired here since the balancer last asked.
    missed: FxHashMap<TableId, u64>,
    queued: usize,
    /// What all waiting tasks will take, by their tables' mean service times, in nanoseconds.
    work: u64,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(discipline: Discipline, workers: usize, epoch: Instant) -> Self {
        Self {
            discipline,
            workers: workers as u32,
            epoch,
            lanes: FxHashMap::default(),
            order: BinaryHeap::new(),
            buffers: Buffers::new(),
            retired: Intake::default(),
            missed: FxHashMap::default(),
            queued: 0,
            work: 0,
            closed: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queued
    }

    pub(super) fn set_workers(&mut self, workers: usize) {
        self.workers = workers as u32;
    }

    /// Whether nobody of the group is at work, so that it refuses tasks.
    pub(super) fn is_vacant(&self) -> bool {
        self.workers == 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Accepts nothing from now on; what is queued stays.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// Accepts `task` of `table`, which came at `at`, or hands it back.
    pub(crate) fn push(
        &mut self,
        table: TableId,
        task: T,
        at: Instant,
    ) -> Result<Pace, (Refusal, T)> {
        match self.accept(table, 1, 1) {
            Ok(()) => Ok(self.append(table, task, at)),
            Err(refusal) => Err((refusal, task)),
        }
    }

    /// Accepts all of `tasks`, which came at `at` and count as `weight` accepted ones, or hands all of them back.
    pub(crate) fn push_all(
        &mut self,
        table: TableId,
        tasks: Vec<T>,
        weight: u64,
        at: Instant,
    ) -> Result<Pace, (Refusal, Vec<T>)> {
        if let Err(refusal) = self.accept(table, tasks.len(), weight) {
            return Err((refusal, tasks));
        }
        let mut pace = Pace::Within;
        for task in tasks {
            pace = self.append(table, task, at);
        }
        Ok(pace)
    }

    /// Makes room for so many tasks of `table` and counts them as `weight` accepted ones, or says why not. Whatever has
    /// to grow is grown before anything is changed, so that a refusal for want of memory leaves the queue as it was; at
    /// most the table has got an empty lane.
    fn accept(&mut self, table: TableId, tasks: usize, weight: u64) -> Result<(), Refusal> {
        let bounded = !left_out(Step::BoundRefuses);
        let exceeds = |waiting: usize, limit: usize| limit.saturating_sub(waiting) < tasks;
        let limit = self.discipline.table_limit;
        if self.closed && !left_out(Step::CloseRefuses) {
            return Err(Refusal::Closed);
        }
        if self.is_vacant() {
            return Err(Refusal::Vacant);
        }
        if exceeds(self.queued, self.discipline.limit) && bounded {
            return Err(Refusal::GroupFull);
        }
        let Ok(lane) = lane_of(&mut self.lanes, table) else {
            return Err(Refusal::NoMemory);
        };
        if exceeds(lane.len(), limit) && bounded {
            return Err(Refusal::TableFull);
        }
        let no_turn = !lane.ready && self.order.try_reserve(1).is_err();
        if no_turn || lane.make_room(tasks, &mut self.buffers).is_err() {
            return Err(Refusal::NoMemory);
        }
        lane.intake.accepted += weight;
        Ok(())
    }

    /// Queues a task that has been accepted in another group. It has no place left to go back to, so memory that the
    /// system refuses ends the process here, as it does by default.
    pub(super) fn adopt(&mut self, table: TableId, task: T, at: Instant) {
        self.append(table, task, at);
    }

    fn append(&mut self, table: TableId, task: T, at: Instant) -> Pace {
        let at = self.nanos(at);
        let workers = u64::from(self.workers.max(1));
        let lane = self.lanes.entry(table).or_default();
        lane.lengthen(&mut self.buffers);
        let apart = lane.service.home * SHARE.1 / (workers * SHARE.0);
        let key = lane.append(task, at, apart, LEAD.as_nanos() as u64);
        if !std::mem::replace(&mut lane.ready, true) {
            self.order.push(Reverse((key, table)));
        }
        self.queued += 1;
        self.work += lane.service.home;
        match key - at > TOO_FAST.as_nanos() as u64 {
            true => Pace::OverShare,
            false => Pace::Within,
        }
    }

    /// Counts refused tasks of `table`: with the removed tables' if there is no memory to count them by themselves.
    pub(crate) fn count_shed(&mut self, table: TableId, tasks: u64) {
        match lane_of(&mut self.lanes, table) {
            Ok(lane) => lane.intake.shed += tasks,
            Err(_) => self.retired.shed += tasks,
        }
        self.count_missed(table, tasks);
    }

    /// Counts tasks that `table` asked for in vain. Placement does without them if there is no memory.
    pub(crate) fn count_missed(&mut self, table: TableId, tasks: u64) {
        if self.missed.contains_key(&table) || self.missed.try_reserve(1).is_ok() {
            *self.missed.entry(table).or_default() += tasks;
        }
    }

    /// The tasks that were asked for in vain since the last call.
    pub(crate) fn take_missed(&mut self) -> FxHashMap<TableId, u64> {
        std::mem::take(&mut self.missed)
    }

    /// The counters of one table, which has had a task here.
    pub(crate) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        &mut self.lanes.entry(table).or_default().intake
    }

    /// Takes note of how long the last task of `run` took, at home or away.
    pub(crate) fn learn(&mut self, run: &mut Run, away: bool) {
        let Some((table, nanos)) = run.spent() else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(&table) else {
            return;
        };
        if away {
            lane.service.away = follow(lane.service.away, nanos);
        } else {
            let before = lane.service.home;
            lane.service.home = follow(before, nanos);
            let waiting = lane.len() as u64;
            self.work = (self.work + waiting * lane.service.home).saturating_sub(waiting * before);
        }
    }

    /// The next task for a worker: one of the group's, or with `None` a thief from another group, who knows by `run` which
    /// table it has taken before. `now` may be a little old.
    pub(crate) fn take(&mut self, worker: Option<usize>, run: &mut Run, now: Instant) -> Option<T> {
        self.learn(run, worker.is_none());
        // What most looks after a task find.
        if self.queued == 0 {
            return None;
        }
        let (key, front) = self.front()?;
        let table = self.choose(key, front, worker, run, now);
        run.left = match run.table == Some(table) && run.left > 0 {
            true => run.left - 1,
            false => self.discipline.run_length.saturating_sub(1),
        };
        run.table = Some(table);
        run.began = Some(now);
        let lane = self.lanes.get_mut(&table)?;
        let task = lane.pop(&mut self.buffers)?;
        if worker.is_some() {
            lane.last = worker;
        }
        self.queued -= 1;
        self.work = self.work.saturating_sub(lane.service.home);
        let known = self.queued > 0 && lane.service.home > 0;
        run.expected = known.then(|| Duration::from_nanos(lane.service.home));
        Some(task)
    }

    /// The first lane in order, and its key.
    fn front(&mut self) -> Option<(u64, TableId)> {
        loop {
            let mut first = self.order.peek_mut()?;
            let Reverse((key, table)) = *first;
            let next = self.lanes.get(&table).and_then(Lane::key);
            match next {
                Some(next) if next > key => first.0.0 = next,
                Some(key) => return Some((key, table)),
                None => {
                    PeekMut::pop(first);
                    if let Some(lane) = self.lanes.get_mut(&table) {
                        lane.ready = false;
                    }
                }
            }
        }
    }

    /// Whose task is next: `front`'s, or out of turn that of a table which the worker's private cache holds.
    fn choose(
        &self,
        key: u64,
        front: TableId,
        worker: Option<usize>,
        run: &Run,
        now: Instant,
    ) -> TableId {
        if self.discipline.run_length <= 1 || self.order.len() == 1 {
            return front;
        }
        let age = self.nanos(now).saturating_sub(key);
        let latest = key + (age as f64 * self.discipline.reorder) as u64;
        let may_go = |table: TableId| {
            let key = self.lanes.get(&table).and_then(Lane::key);
            key.is_some_and(|key| key <= latest)
        };
        if let Some(table) = run.table
            && run.left > 0
            && may_go(table)
        {
            return table;
        }
        // Of the first lanes in order, one that no other worker has in its cache. The table whose run is over comes last.
        let ahead = self.order.as_slice().iter().take(LOOK_AHEAD);
        let mine = |table: &TableId| {
            let last = self.lanes.get(table).and_then(|lane| lane.last);
            worker.is_some() && (last.is_none() || last == worker) && Some(*table) != run.table
        };
        let mut candidates = ahead.map(|Reverse((_, table))| *table);
        candidates
            .find(|table| mine(table) && may_go(*table))
            .unwrap_or(front)
    }

    /// What waits, as a worker of another group sees it at `now`.
    pub(super) fn backlog(&mut self, now: Instant) -> Backlog {
        let mut backlog = Backlog {
            workers: self.workers,
            queued: self.queued as u32,
            work: Duration::from_nanos(self.work),
            ..Backlog::default()
        };
        if self.queued > 0
            && let Some((_, front)) = self.front()
            && let Some(lane) = self.lanes.get(&front)
        {
            backlog.service = Duration::from_nanos(lane.service.home);
            backlog.cold = lane.service.cold();
            let since = lane.oldest().unwrap_or_default();
            backlog.age = Duration::from_nanos(self.nanos(now).saturating_sub(since));
        }
        backlog
    }

    /// Takes out every queued task for which `dead` holds, or those of one table. The caller ends them and counts how. Only
    /// lanes with tasks are looked at, which may be few of very many.
    pub(crate) fn extract(
        &mut self,
        of: Option<TableId>,
        mut dead: impl FnMut(&T) -> bool,
    ) -> Vec<(TableId, T)> {
        let mut out = Vec::new();
        let all = self
            .order
            .as_slice()
            .iter()
            .map(|Reverse((_, table))| *table);
        let (one, all) = match of {
            Some(table) => (Some(table), None),
            None => (None, Some(all)),
        };
        for table in one.into_iter().chain(all.into_iter().flatten()) {
            if let Some(lane) = self.lanes.get_mut(&table) {
                let before = lane.len();
                lane.extract(&mut dead, |task| out.push((table, task)));
                let gone = before - lane.len();
                self.queued -= gone;
                self.work = self.work.saturating_sub(gone as u64 * lane.service.home);
            }
        }
        out
    }

    /// Counters of every table that ever submitted here.
    pub(crate) fn intake(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.lanes.iter().map(|(&table, lane)| (table, lane.intake))
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub(crate) fn retire(&mut self, table: TableId) {
        if let Some(lane) = self.lanes.remove(&table) {
            debug_assert_eq!(lane.len(), 0, "a table retires after its last task");
            self.retired.absorb(lane.intake);
        }
        self.missed.remove(&table);
    }

    /// Counters of tables that were removed.
    pub(crate) fn retired(&self) -> Intake {
        self.retired
    }
}
