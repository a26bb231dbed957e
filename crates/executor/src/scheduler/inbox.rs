//! A domain's queue: bounded, counted, and served in runs so that a table's vectors stay in the core's cache.
//!
//! Every queued task waits in the lane of its table ([`Lanes`]). A worker that has just run a table goes on with it
//! for up to `run_length` tasks, because its private cache holds that table now; the run ends early once it has kept
//! another table waiting for `patience`. Then another lane has its turn. With `run_length == 1` there is one lane for all:
//! a plain FIFO queue.
//!
//! The inbox is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is.
//!
//! All memory that a queued task needs here is reserved before it is accepted ([`Inbox::push`]), and taking it out again
//! needs none: a queue that cannot grow refuses tasks and still hands out those that wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use chiplet_policy::TableId;

use super::lanes::{Lanes, Taken};
use crate::counts::Intake;
use crate::sync::{Step, left_out};

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

/// A table that a worker is running task after task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    table: Option<TableId>,
    left: u32,
    began: Option<Instant>,
    /// Since when its present task runs.
    since: Option<Instant>,
    /// Time spent in this run, for the table's lane when it ends.
    spent: Duration,
}

impl Run {
    /// Says that whatever the worker was running ended at `now`.
    pub(crate) fn tell(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.spent += now.saturating_duration_since(since);
        }
    }
}

/// Whether a table holds all the places it may.
pub(super) fn is_full(intake: &Intake, limit: usize) -> bool {
    intake.waiting as usize >= limit && !left_out(Step::BoundRefuses)
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

pub(crate) struct Inbox<T> {
    discipline: Discipline,
    lanes: Lanes<T>,
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
            lanes: Lanes::new(discipline.patience),
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
        if self.is_fifo() {
            self.push_fifo(table, task)?;
        } else {
            self.lanes.push(table, task, self.discipline.table_limit)?;
        }
        self.queued += 1;
        Ok(())
    }

    fn push_fifo(&mut self, table: TableId, task: T) -> Result<(), (Refusal, T)> {
        match self.lanes.intake_or_new(table) {
            Ok(intake) if is_full(intake, self.discipline.table_limit) => {
                Err((Refusal::TableFull, task))
            }
            Ok(intake) if self.fifo.try_reserve(1).is_ok() => {
                intake.accepted += 1;
                intake.waiting += 1;
                self.fifo.push_back((table, task));
                Ok(())
            }
            _ => Err((Refusal::NoMemory, task)),
        }
    }

    /// Queues a task that has been accepted in another group. It has no place left to go back to, so memory that the
    /// system refuses ends the process here, as it does by default.
    pub(super) fn adopt(&mut self, table: TableId, task: T) {
        self.queued += 1;
        if self.is_fifo() {
            self.lanes.intake_mut(table).waiting += 1;
            self.fifo.push_back((table, task));
        } else {
            self.lanes.adopt(table, task);
        }
    }

    /// Counts a refused task of `table`: with the removed tables' if there is no memory to count it by itself.
    pub(crate) fn count_shed(&mut self, table: TableId) {
        match self.lanes.intake_or_new(table) {
            Ok(intake) => intake.shed += 1,
            Err(_) => self.retired.shed += 1,
        }
    }

    /// The counters of one table, which has had a task here.
    pub(crate) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        self.lanes.intake_mut(table)
    }

    /// The next task for `worker` of this group. `now` may be a little old: it only ends runs.
    pub(crate) fn take(&mut self, worker: usize, run: &mut Run, now: Instant) -> Option<Taken<T>> {
        // A task that ended in the queue was never told to end; the time since is nobody's service.
        run.since = None;
        // What most looks after a task find. The run keeps what it has to charge.
        if self.queued == 0 {
            return None;
        }
        if self.is_fifo() {
            return self.take_fifo();
        }
        if let Some(table) = run.table
            && run.left > 0
            && !(self.is_over(run, now) && self.queued > self.lanes.waiting(table))
            && let Some(taken) = self.lanes.go_on(table, worker)
        {
            run.left -= 1;
            run.since = Some(now);
            self.queued -= 1;
            return Some(taken);
        }
        if let Some(table) = run.table {
            self.lanes.charge(table, std::mem::take(&mut run.spent));
        }
        let (table, taken) = self.lanes.turn(Some(worker), run.table)?;
        *run = Run {
            table: Some(table),
            left: self.discipline.run_length - 1,
            began: Some(now),
            since: Some(now),
            spent: Duration::ZERO,
        };
        self.queued -= 1;
        Some(taken)
    }

    /// A task of the lane whose turn it is, for a worker of another group. It takes one: a few expensive tasks are
    /// not worth moving by halves.
    pub(crate) fn take_for_thief(&mut self) -> Option<T> {
        if self.is_fifo() {
            return self.take_fifo().map(|taken| taken.task);
        }
        let (_, taken) = self.lanes.turn(None, None)?;
        self.queued -= 1;
        Some(taken.task)
    }

    fn take_fifo(&mut self) -> Option<Taken<T>> {
        let (table, task) = self.fifo.pop_front()?;
        self.queued -= 1;
        self.lanes.intake_mut(table).waiting -= 1;
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

    /// Takes out every queued task for which `dead` holds, or those of one table. The caller ends them and counts how.
    pub(crate) fn extract(
        &mut self,
        of: Option<TableId>,
        mut dead: impl FnMut(&T) -> bool,
    ) -> Vec<(TableId, T)> {
        let mut out = Vec::new();
        for _ in 0..self.fifo.len() {
            if let Some((table, task)) = self.fifo.pop_front() {
                if of.is_none_or(|of| of == table) && dead(&task) {
                    out.push((table, task));
                } else {
                    self.fifo.push_back((table, task));
                }
            }
        }
        self.lanes.extract(of, &mut dead, &mut out);
        self.queued -= out.len();
        for (table, _) in &out {
            self.lanes.intake_mut(*table).waiting -= 1;
        }
        out
    }

    /// Counters of every table that ever submitted here.
    pub(crate) fn intake(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.lanes.intakes()
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub(crate) fn retire(&mut self, table: TableId) {
        if let Some(intake) = self.lanes.remove(table) {
            debug_assert_eq!(intake.waiting, 0, "a table retires after its last task");
            self.retired.absorb(intake);
        }
    }

    /// Counters of tables that were removed.
    pub(crate) fn retired(&self) -> Intake {
        self.retired
    }
}
