//! A domain's queue: one lane a table, served in runs so that a table's vectors stay in the core's cache.
//!
//! Every queued task waits in the lane of its table. Lanes with waiting tasks stand in `ready`, longest
//! unserved first. A worker that has just run a table goes on with it for up to `run_length` tasks, because
//! its private cache holds that table now; the run ends early when the lane in front has waited longer than
//! `patience`, so no table starves. When a run ends, a lane that this worker ran last is preferred among the
//! first [`LOOK_AHEAD`] ready ones. With `run_length == 1` there is one lane for all: a plain FIFO queue.
//!
//! The inbox is plain data under its group's lock; nothing here blocks or wakes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use chiplet_policy::TableId;
use rustc_hash::FxHashMap;

use crate::counts::Intake;

/// Ready lanes looked at for one this worker ran last. Bounded, so that taking is O(1) in the number of
/// tables; 8 is a domain's usual core count, so with few hot tables each core finds its own.
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
    /// A run ends when another table's oldest task has waited this long.
    pub(crate) patience: Duration,
    /// Tasks the group may hold.
    pub(crate) limit: usize,
    /// Tasks one table may hold of them.
    pub(crate) table_limit: usize,
}

struct Lane<T> {
    tasks: VecDeque<(Instant, T)>,
    /// The lane's own short buffer, while `tasks` is a long one from [`Inbox::buffers`].
    short: VecDeque<(Instant, T)>,
    /// The worker that last ran this lane's table.
    last: Option<usize>,
    ready: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            tasks: VecDeque::new(),
            short: VecDeque::new(),
            last: None,
            ready: false,
        }
    }
}

/// A table that a worker is running task after task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    table: Option<TableId>,
    left: u32,
}

/// Why a task was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    GroupFull,
    TableFull,
}

/// A task taken from the queue, and whether its table was last run by another worker of the group.
pub(crate) struct Taken<T> {
    pub(crate) task: T,
    pub(crate) from_sibling: bool,
}

pub(crate) struct Inbox<T> {
    discipline: Discipline,
    lanes: FxHashMap<TableId, Lane<T>>,
    /// Empty buffers of more than [`LANE_KEEPS`] slots.
    buffers: Vec<VecDeque<(Instant, T)>>,
    /// Lanes with waiting tasks. May hold lanes emptied since (`ready` still set); they are skipped.
    ready: VecDeque<TableId>,
    fifo: VecDeque<(Instant, TableId, T)>,
    intake: FxHashMap<TableId, Intake>,
    retired: Intake,
    queued: usize,
    closed: bool,
    last_purge: Option<Instant>,
    /// Parked workers of this group, and those about to park. Kept by [`super::Hub`].
    pub(super) sleepers: Vec<usize>,
    /// Workers of this group that run another group's task now. Kept by [`super::Hub`].
    pub(super) abroad: usize,
    /// Whether this group stands in the set of groups that could help others. Kept by [`super::Hub`].
    pub(super) offered: bool,
}

impl<T> Inbox<T> {
    pub(crate) fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            lanes: FxHashMap::default(),
            buffers: Vec::new(),
            ready: VecDeque::new(),
            fifo: VecDeque::new(),
            intake: FxHashMap::default(),
            retired: Intake::default(),
            queued: 0,
            closed: false,
            last_purge: None,
            sleepers: Vec::new(),
            abroad: 0,
            offered: false,
        }
    }

    fn is_fifo(&self) -> bool {
        self.discipline.run_length <= 1
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
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

    /// Accepts `task` of `table` or hands it back.
    pub(crate) fn push(
        &mut self,
        table: TableId,
        at: Instant,
        task: T,
    ) -> Result<(), (Refusal, T)> {
        if self.closed {
            return Err((Refusal::Closed, task));
        }
        let intake = self.intake.entry(table).or_default();
        if self.queued >= self.discipline.limit {
            return Err((Refusal::GroupFull, task));
        }
        if intake.waiting as usize >= self.discipline.table_limit {
            return Err((Refusal::TableFull, task));
        }
        intake.accepted += 1;
        intake.waiting += 1;
        self.queued += 1;
        if self.is_fifo() {
            self.fifo.push_back((at, table, task));
        } else {
            let lane = self.lanes.entry(table).or_default();
            let slots = lane.tasks.capacity();
            if lane.tasks.len() == slots
                && slots >= 4
                && let Some(mut buffer) = self.buffers.pop_if(|buffer| buffer.capacity() > slots)
            {
                buffer.append(&mut lane.tasks);
                lane.short = std::mem::replace(&mut lane.tasks, buffer);
            }
            lane.tasks.push_back((at, task));
            if !lane.ready {
                lane.ready = true;
                self.ready.push_back(table);
            }
        }
        Ok(())
    }

    /// Counts a task that was refused for good.
    pub(crate) fn count_shed(&mut self, table: TableId) {
        self.intake.entry(table).or_default().shed += 1;
    }

    /// Counts a task that was taken out by [`Inbox::extract`] and ended without being run.
    pub(crate) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        self.intake.entry(table).or_default()
    }

    /// The next task for `worker` of this group.
    pub(crate) fn take(&mut self, worker: usize, run: &mut Run) -> Option<Taken<T>> {
        if self.queued == 0 {
            return None;
        }
        if self.is_fifo() {
            return self.take_fifo();
        }
        if let Some(table) = run.table
            && run.left > 0
            && self
                .lanes
                .get(&table)
                .is_some_and(|lane| !lane.tasks.is_empty())
            && !self.another_starves(table)
        {
            run.left -= 1;
            return self.take_from(table, Some(worker));
        }
        let table = self.choose(Some(worker), run.table)?;
        *run = Run {
            table: Some(table),
            left: self.discipline.run_length - 1,
        };
        self.take_from(table, Some(worker))
    }

    /// The task that has waited longest (by lane), for a worker of another group. It takes one: a few
    /// expensive tasks are not worth moving by halves.
    pub(crate) fn take_for_thief(&mut self) -> Option<T> {
        if self.queued == 0 {
            return None;
        }
        let taken = if self.is_fifo() {
            self.take_fifo()
        } else {
            let table = self.choose(None, None)?;
            self.take_from(table, None)
        };
        taken.map(|taken| taken.task)
    }

    fn take_fifo(&mut self) -> Option<Taken<T>> {
        let (_, table, task) = self.fifo.pop_front()?;
        self.count_taken(table);
        Some(Taken {
            task,
            from_sibling: false,
        })
    }

    fn count_taken(&mut self, table: TableId) {
        self.queued -= 1;
        if let Some(intake) = self.intake.get_mut(&table) {
            intake.waiting -= 1;
        }
    }

    /// Removes a lane from the front part of `ready`: one that `worker` ran last if there is one and nobody
    /// starves, else the first. `finished`, the table whose run is over, gives way to any other.
    fn choose(&mut self, worker: Option<usize>, finished: Option<TableId>) -> Option<TableId> {
        loop {
            let front = *self.ready.front()?;
            if self
                .lanes
                .get(&front)
                .is_none_or(|lane| lane.tasks.is_empty())
            {
                self.ready.pop_front();
                if let Some(lane) = self.lanes.get_mut(&front) {
                    lane.ready = false;
                }
                continue;
            }
            let index = match worker {
                Some(worker) if self.ready.len() > 1 => match self.first_other(finished) {
                    Some(first) if self.waited_too_long(self.ready[first]) => first,
                    _ => self.preferred(worker, finished),
                },
                _ => 0,
            };
            let table = self.ready.remove(index)?;
            if let Some(lane) = self.lanes.get_mut(&table) {
                lane.ready = false;
            }
            return Some(table);
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

    fn another_starves(&self, table: TableId) -> bool {
        self.first_other(Some(table))
            .is_some_and(|first| self.waited_too_long(self.ready[first]))
    }

    /// Where the lane of another table than `table` stands that has waited longest. The front itself may be
    /// `table`'s, whose lane went back to `ready` when its run began, or one emptied since.
    fn first_other(&self, table: Option<TableId>) -> Option<usize> {
        let waits = |other: &TableId| {
            self.lanes
                .get(other)
                .is_some_and(|lane| !lane.tasks.is_empty())
        };
        self.ready
            .iter()
            .take(LOOK_AHEAD)
            .position(|other| Some(*other) != table && waits(other))
    }

    fn waited_too_long(&self, table: TableId) -> bool {
        let head = self.lanes.get(&table).and_then(|lane| lane.tasks.front());
        head.is_some_and(|(at, _)| at.elapsed() > self.discipline.patience)
    }

    fn take_from(&mut self, table: TableId, worker: Option<usize>) -> Option<Taken<T>> {
        let lane = self.lanes.get_mut(&table)?;
        let (_, task) = lane.tasks.pop_front()?;
        let from_sibling = worker.is_some() && lane.last.is_some() && lane.last != worker;
        if worker.is_some() {
            lane.last = worker;
        }
        if lane.tasks.is_empty() {
            if lane.tasks.capacity() > LANE_KEEPS {
                let short = std::mem::take(&mut lane.short);
                let buffer = std::mem::replace(&mut lane.tasks, short);
                if self.buffers.len() < SPARE_BUFFERS {
                    self.buffers.push(buffer);
                }
            }
        } else if !lane.ready {
            lane.ready = true;
            self.ready.push_back(table);
        }
        self.count_taken(table);
        Some(Taken { task, from_sibling })
    }

    /// Takes out every queued task for which `dead` holds. The caller ends them and counts how.
    pub(crate) fn extract(&mut self, mut dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        let mut out = Vec::new();
        let mut kept = VecDeque::with_capacity(self.fifo.len());
        for (at, table, task) in self.fifo.drain(..) {
            if dead(&task) {
                out.push((table, task))
            } else {
                kept.push_back((at, table, task))
            }
        }
        self.fifo = kept;
        for (&table, lane) in &mut self.lanes {
            if lane.tasks.iter().any(|(_, task)| dead(task)) {
                for (at, task) in std::mem::take(&mut lane.tasks) {
                    if dead(&task) {
                        out.push((table, task));
                    } else {
                        lane.tasks.push_back((at, task));
                    }
                }
            }
        }
        for (table, _) in &out {
            self.count_taken(*table);
        }
        out
    }

    /// Counters of every table that ever submitted here.
    pub(crate) fn intake(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.intake.iter().map(|(&table, &intake)| (table, intake))
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub(crate) fn retire(&mut self, table: TableId) {
        if let Some(intake) = self.intake.remove(&table) {
            debug_assert_eq!(intake.waiting, 0, "a table retires after its last task");
            self.retired.absorb(intake);
        }
        self.lanes.remove(&table);
    }

    /// Counters of tables that were removed.
    pub(crate) fn retired(&self) -> Intake {
        self.retired
    }
}
