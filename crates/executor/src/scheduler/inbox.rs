//! A domain's queue: one lane a table, served in runs so that a table's vectors stay in the core's cache.
//!
//! Every queued task waits in the lane of its table. Lanes with waiting tasks stand in `ready` and take turns. A
//! worker that has just run a table goes on with it for up to `run_length` tasks, because its private cache holds that
//! table now; the run ends early once it has kept another table waiting for `patience`. So a task waits for at most
//! one run of each other table with work, however many tasks those have: a cold table is served sooner than by a plain
//! queue, and no table starves. When a run ends, a lane that this worker ran last is preferred among the first
//! [`LOOK_AHEAD`] ready ones, but none is passed over more than [`LOOK_AHEAD`] times. With `run_length == 1` there is
//! one lane for all: a plain FIFO queue.
//!
//! The inbox is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is.
//!
//! All memory that a queued task needs here is reserved before it is accepted ([`Inbox::push`]), and taking it out again
//! needs none: a queue that cannot grow refuses tasks and still hands out those that wait.

use std::collections::{TryReserveError, VecDeque};
use std::time::{Duration, Instant};

use chiplet_policy::TableId;
use rustc_hash::FxHashMap;

use crate::counts::Intake;
use crate::sync::{Step, left_out};

/// Ready lanes looked at for one this worker ran last, and times that the first of them may be passed over. Bounded,
/// so that taking is O(1) in the number of tables; 8 is a domain's usual core count, so with few hot tables each core
/// finds its own.
const LOOK_AHEAD: usize = 8;

/// An emptied lane gives back its buffer above this many slots.
const LANE_KEEPS: usize = 16;

/// Buffers given back that wait for the next lane that grows, so that a bursty table does not allocate anew in
/// every burst; about as many lanes are long at once as a domain has cores.
const SPARE_BUFFERS: usize = 8;

/// How a group's queue behaves; the same for all groups of an executor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discipline {
    /// Tasks of one table a worker may run in a row; 1 means plain FIFO over all tables.
    pub(crate) run_length: u32,
    /// A run ends when it has kept another table waiting for this long.
    pub(crate) patience: Duration,
    /// Tasks the group may hold.
    pub(crate) limit: usize,
    /// Tasks one table may hold of them.
    pub(crate) table_limit: usize,
}

/// What the queue keeps for one table.
struct Lane<T> {
    tasks: VecDeque<T>,
    /// The lane's own short buffer, while `tasks` is a long one from [`Inbox::buffers`].
    short: VecDeque<T>,
    intake: Intake,
    /// The worker that last ran this lane's table.
    last: Option<usize>,
    /// Times that a worker has preferred another lane to this one since it last had its turn.
    passed: u8,
    ready: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            tasks: VecDeque::new(),
            short: VecDeque::new(),
            intake: Intake::default(),
            last: None,
            passed: 0,
            ready: false,
        }
    }
}

impl<T> Lane<T> {
    /// The next task, and whether another worker than `worker` ran this table last.
    fn pop(&mut self, worker: Option<usize>, buffers: &mut Vec<VecDeque<T>>) -> Option<Taken<T>> {
        let task = self.tasks.pop_front()?;
        self.intake.waiting -= 1;
        let from_sibling = worker.is_some() && self.last.is_some() && self.last != worker;
        if worker.is_some() {
            self.last = worker;
        }
        if self.tasks.is_empty() && self.tasks.capacity() > LANE_KEEPS {
            let short = std::mem::take(&mut self.short);
            let buffer = std::mem::replace(&mut self.tasks, short);
            if buffers.len() < SPARE_BUFFERS {
                buffers.push(buffer);
            }
        }
        Some(Taken { task, from_sibling })
    }

    /// Makes sure that [`Lane::append`] of one task needs no memory.
    fn make_room(
        &mut self,
        buffers: &mut Vec<VecDeque<T>>,
        ready: &mut VecDeque<TableId>,
    ) -> Result<(), TryReserveError> {
        if !self.ready {
            ready.try_reserve(1)?;
        }
        self.lengthen(buffers);
        self.tasks.try_reserve(1)
    }

    /// If the lane is full, goes on in a longer buffer if there is one to spare.
    fn lengthen(&mut self, buffers: &mut Vec<VecDeque<T>>) {
        let slots = self.tasks.capacity();
        if self.tasks.len() == slots
            && slots >= 4
            && let Some(mut buffer) = buffers.pop_if(|buffer| buffer.capacity() > slots)
        {
            buffer.append(&mut self.tasks);
            self.short = std::mem::replace(&mut self.tasks, buffer);
        }
    }

    fn append(&mut self, table: TableId, task: T, ready: &mut VecDeque<TableId>) {
        self.tasks.push_back(task);
        if !self.ready {
            self.ready = true;
            ready.push_back(table);
        }
    }
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

/// A table that a worker is running task after task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    table: Option<TableId>,
    left: u32,
    began: Option<Instant>,
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

/// A task taken from the queue, and whether its table was last run by another worker of the group.
pub(crate) struct Taken<T> {
    pub(crate) task: T,
    pub(crate) from_sibling: bool,
}

pub(crate) struct Inbox<T> {
    discipline: Discipline,
    /// Every table that ever submitted here.
    lanes: FxHashMap<TableId, Lane<T>>,
    /// Empty buffers of more than [`LANE_KEEPS`] slots.
    buffers: Vec<VecDeque<T>>,
    /// Lanes with waiting tasks. May hold lanes emptied since (`ready` still set); they are skipped.
    ready: VecDeque<TableId>,
    fifo: VecDeque<(TableId, T)>,
    retired: Intake,
    queued: usize,
    closed: bool,
    last_purge: Option<Instant>,
    /// Parked workers of this group, and those about to park. Kept by [`super::Hub`].
    pub(super) sleepers: Vec<usize>,
    /// Workers that were taken off `sleepers` and have not come to look yet. Kept by [`super::Hub`].
    pub(super) woken: usize,
    /// Workers of this group that are awake without work and look at the queue. Kept by [`super::Hub`].
    pub(super) lingering: usize,
    /// Workers of this group that run another group's task now. Kept by [`super::Hub`].
    pub(super) abroad: usize,
    /// Whether this group stands in the set of groups that could help others. Kept by [`super::Hub`].
    pub(super) offered: bool,
    /// Workers of this group that are not to take tasks. Kept by [`super::Hub`], as the next two.
    pub(super) standby: Vec<usize>,
    /// Those of them that know, and are parked or about to.
    pub(super) standing_by: usize,
    pub(super) vacant: bool,
}

impl<T> Inbox<T> {
    pub(crate) fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            lanes: FxHashMap::default(),
            // All at once: a worker that gives a buffer back must not need memory for that.
            buffers: Vec::with_capacity(SPARE_BUFFERS),
            ready: VecDeque::new(),
            fifo: VecDeque::new(),
            retired: Intake::default(),
            queued: 0,
            closed: false,
            last_purge: None,
            sleepers: Vec::new(),
            woken: 0,
            lingering: 0,
            abroad: 0,
            offered: false,
            standby: Vec::new(),
            standing_by: 0,
            vacant: false,
        }
    }

    fn is_fifo(&self) -> bool {
        self.discipline.run_length <= 1
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Takes up to `wanted` workers off the sleepers, those that slept shortest first. The caller unparks them.
    pub(super) fn wake(&mut self, wanted: usize) -> Vec<usize> {
        let keep = self.sleepers.len().saturating_sub(wanted);
        let woken = self.sleepers.split_off(keep);
        self.woken += woken.len();
        woken
    }

    /// As [`Inbox::wake`], for one.
    pub(super) fn wake_one(&mut self) -> Option<usize> {
        let worker = self.sleepers.pop()?;
        self.woken += 1;
        Some(worker)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Accepts nothing from now on; what is queued stays.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether dead tasks may be looked for now: not twice within `interval`.
    pub(crate) fn may_purge(&mut self, now: Instant, interval: Duration) -> bool {
        if self
            .last_purge
            .is_some_and(|last| now.saturating_duration_since(last) < interval)
        {
            return false;
        }
        self.last_purge = Some(now);
        true
    }

    /// Accepts `task` of `table` or hands it back. Whatever has to grow for it is grown before anything is changed, so
    /// that a refusal for want of memory leaves the queue as it was; at most the table has got an empty lane.
    pub(crate) fn push(&mut self, table: TableId, task: T) -> Result<(), (Refusal, T)> {
        if self.closed && !left_out(Step::CloseRefuses) {
            return Err((Refusal::Closed, task));
        }
        if self.vacant {
            return Err((Refusal::Vacant, task));
        }
        if self.queued >= self.discipline.limit && !left_out(Step::BoundRefuses) {
            return Err((Refusal::GroupFull, task));
        }
        let is_fifo = self.is_fifo();
        let Ok(lane) = lane_of(&mut self.lanes, table) else {
            return Err((Refusal::NoMemory, task));
        };
        if lane.intake.waiting as usize >= self.discipline.table_limit
            && !left_out(Step::BoundRefuses)
        {
            return Err((Refusal::TableFull, task));
        }
        let room = if is_fifo {
            self.fifo.try_reserve(1)
        } else {
            lane.make_room(&mut self.buffers, &mut self.ready)
        };
        if room.is_err() {
            return Err((Refusal::NoMemory, task));
        }
        lane.intake.accepted += 1;
        lane.intake.waiting += 1;
        self.queued += 1;
        if is_fifo {
            self.fifo.push_back((table, task));
        } else {
            lane.append(table, task, &mut self.ready);
        }
        Ok(())
    }

    /// Queues a task that has been accepted in another group. It has no place left to go back to, so memory that the
    /// system refuses ends the process here, as it does by default.
    pub(super) fn adopt(&mut self, table: TableId, task: T) {
        let is_fifo = self.is_fifo();
        let lane = self.lanes.entry(table).or_default();
        lane.intake.waiting += 1;
        self.queued += 1;
        if is_fifo {
            self.fifo.push_back((table, task));
        } else {
            lane.lengthen(&mut self.buffers);
            lane.append(table, task, &mut self.ready);
        }
    }

    /// Counts a refused task of `table`: with the removed tables' if there is no memory to count it by itself.
    pub(crate) fn count_shed(&mut self, table: TableId) {
        match lane_of(&mut self.lanes, table) {
            Ok(lane) => lane.intake.shed += 1,
            Err(_) => self.retired.shed += 1,
        }
    }

    /// The counters of one table, which has had a task here.
    pub(crate) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        &mut self.lanes.entry(table).or_default().intake
    }

    /// The next task for `worker` of this group. `now` may be a little old: it only ends runs.
    pub(crate) fn take(&mut self, worker: usize, run: &mut Run, now: Instant) -> Option<Taken<T>> {
        if self.queued == 0 {
            return None;
        }
        if self.is_fifo() {
            return self.take_fifo();
        }
        if let Some(table) = run.table
            && run.left > 0
            && !(self.is_over(run, now) && self.another_waits(table))
            && let Some(lane) = self.lanes.get_mut(&table)
            && let Some(taken) = lane.pop(Some(worker), &mut self.buffers)
        {
            run.left -= 1;
            self.queued -= 1;
            return Some(taken);
        }
        let table = self.choose(Some(worker), run.table)?;
        *run = Run {
            table: Some(table),
            left: self.discipline.run_length - 1,
            began: Some(now),
        };
        self.take_first(table, Some(worker))
    }

    /// A task of the lane whose turn it is, for a worker of another group. It takes one: a few expensive tasks are
    /// not worth moving by halves.
    pub(crate) fn take_for_thief(&mut self) -> Option<T> {
        if self.queued == 0 {
            return None;
        }
        let taken = if self.is_fifo() {
            self.take_fifo()
        } else {
            let table = self.choose(None, None)?;
            self.take_first(table, None)
        };
        taken.map(|taken| taken.task)
    }

    fn take_fifo(&mut self) -> Option<Taken<T>> {
        let (table, task) = self.fifo.pop_front()?;
        self.queued -= 1;
        if let Some(lane) = self.lanes.get_mut(&table) {
            lane.intake.waiting -= 1;
        }
        Some(Taken {
            task,
            from_sibling: false,
        })
    }

    /// Whether `run` has lasted as long as it may while others wait.
    fn is_over(&self, run: &Run, now: Instant) -> bool {
        run.began
            .is_none_or(|began| now.saturating_duration_since(began) >= self.discipline.patience)
    }

    /// Whether another lane than `table`'s has its turn to come.
    fn another_waits(&self, table: TableId) -> bool {
        let waits = |other: &TableId| *other != table && self.waits(*other);
        self.ready.iter().take(LOOK_AHEAD).any(waits)
    }

    fn waits(&self, table: TableId) -> bool {
        self.lanes
            .get(&table)
            .is_some_and(|lane| !lane.tasks.is_empty())
    }

    /// Removes a lane from the front part of `ready`: one that `worker` ran last if there is one, else the first.
    /// `finished`, the table whose run is over, gives way to any other.
    fn choose(&mut self, worker: Option<usize>, finished: Option<TableId>) -> Option<TableId> {
        loop {
            let front = *self.ready.front()?;
            if !self.waits(front) {
                self.ready.pop_front();
                if let Some(lane) = self.lanes.get_mut(&front) {
                    lane.ready = false;
                }
                continue;
            }
            let index = match worker {
                Some(worker) if self.ready.len() > 1 => self.preferred(worker, finished),
                _ => 0,
            };
            if index > 0
                && let Some(lane) = self.lanes.get_mut(&front)
            {
                if usize::from(lane.passed) < LOOK_AHEAD {
                    lane.passed += 1;
                } else {
                    self.ready.pop_front();
                    return Some(front);
                }
            }
            return self.ready.remove(index);
        }
    }

    fn preferred(&self, worker: usize, finished: Option<TableId>) -> usize {
        let mut other = None;
        for (index, table) in self.ready.iter().take(LOOK_AHEAD).enumerate() {
            let Some(lane) = self.lanes.get(table) else {
                continue;
            };
            if lane.tasks.is_empty() || Some(*table) == finished {
                continue;
            }
            // A table nobody has run yet is no sibling's.
            if lane.last.is_none_or(|last| last == worker) {
                return index;
            }
            other = other.or(Some(index));
        }
        other.unwrap_or(0)
    }

    /// The first task of a turn. If the lane has more, it queues up for its next turn at once, so that a sibling may
    /// run the same table meanwhile.
    fn take_first(&mut self, table: TableId, worker: Option<usize>) -> Option<Taken<T>> {
        let lane = self.lanes.get_mut(&table)?;
        let taken = lane.pop(worker, &mut self.buffers)?;
        lane.passed = 0;
        lane.ready = !lane.tasks.is_empty();
        if lane.ready {
            self.ready.push_back(table);
        }
        self.queued -= 1;
        Some(taken)
    }

    /// Takes out every queued task for which `dead` holds. The caller ends them and counts how.
    pub(crate) fn extract(&mut self, mut dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        let mut out = Vec::new();
        let mut kept = VecDeque::with_capacity(self.fifo.len());
        for (table, task) in self.fifo.drain(..) {
            if dead(&task) {
                out.push((table, task))
            } else {
                kept.push_back((table, task))
            }
        }
        self.fifo = kept;
        for (&table, lane) in &mut self.lanes {
            if lane.tasks.iter().any(&mut dead) {
                for task in std::mem::take(&mut lane.tasks) {
                    if dead(&task) {
                        out.push((table, task));
                    } else {
                        lane.tasks.push_back(task);
                    }
                }
            }
        }
        self.queued -= out.len();
        for (table, _) in &out {
            if let Some(lane) = self.lanes.get_mut(table) {
                lane.intake.waiting -= 1;
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
            debug_assert_eq!(
                lane.intake.waiting, 0,
                "a table retires after its last task"
            );
            self.retired.absorb(lane.intake);
        }
    }

    /// Counters of tables that were removed.
    pub(crate) fn retired(&self) -> Intake {
        self.retired
    }
}
