//! A group's queue: what it accepts and counts, which class is next, and how long what waits will take.
//!
//! Interactive and bulk tasks wait in an order of their own each ([`Order`]). A bulk task is next when no interactive
//! one waits, or when it came [`Discipline::bulk_wait`] before the first of those: its key counts as that much later.
//! So bulk work gives way for that long and no longer.
//!
//! The queue is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is. All memory
//! that a waiting task needs here is reserved before it is accepted ([`Queue::accept`]), and taking it out again needs
//! none: a queue that cannot grow refuses tasks and still hands out those that wait.

mod outlook;

use std::time::{Duration, Instant};

use chiplet_policy::TableId;
use rustc_hash::FxHashMap;

use super::lane::Lane;
use super::order::{Front, Order};
use super::terms::{Run, Terms};
use crate::class::Class;
use crate::counts::Intake;
use crate::sync::{Step, left_out};

/// How a group's queue behaves; the same for all groups of an executor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discipline {
    /// Tasks of one table that a worker may run in a row although older ones wait; 1 means plain order.
    pub(crate) run_length: u32,
    /// A task may go before the oldest if it is younger by at most this part of that one's age.
    pub(crate) reorder: f64,
    /// Tasks the group may hold.
    pub(crate) limit: usize,
    /// Tasks one table may hold of them, unless it has a limit of its own.
    pub(crate) table_limit: usize,
    /// How long a bulk task gives way to interactive ones.
    pub(crate) bulk_wait: Duration,
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

/// A task that leaves for another group's queue: its table, on which terms it waited, and itself.
pub(super) type Moved<T> = (TableId, Terms, T);

pub(crate) struct Queue<T> {
    discipline: Discipline,
    /// Workers at work.
    workers: u32,
    /// When nanoseconds are counted from.
    epoch: Instant,
    /// What waits, by class.
    orders: [Order<T>; 2],
    retired: Intake,
    /// Tasks that were refused or expired here since the balancer last asked.
    missed: FxHashMap<TableId, u64>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(discipline: Discipline, workers: usize, epoch: Instant) -> Self {
        let workers = workers as u32;
        Self {
            discipline,
            workers,
            epoch,
            orders: [(); 2].map(|()| Order::new(&discipline, workers)),
            retired: Intake::default(),
            missed: FxHashMap::default(),
            closed: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.orders[0].len() + self.orders[1].len()
    }

    pub(super) fn set_workers(&mut self, workers: usize) {
        self.workers = workers as u32;
        for order in &mut self.orders {
            order.set_workers(self.workers);
        }
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
        terms: Terms,
        task: T,
        at: Instant,
    ) -> Result<Pace, (Refusal, T)> {
        match self.accept(table, terms, 1, 1) {
            Ok(()) => Ok(self.append(table, terms, task, at)),
            Err(refusal) => {
                self.note_refused(refusal, table, terms, 1, at);
                Err((refusal, task))
            }
        }
    }

    /// Accepts all of `tasks`, which came at `at` and count as `weight` accepted ones, or hands all of them back.
    pub(crate) fn push_all(
        &mut self,
        table: TableId,
        terms: Terms,
        tasks: Vec<T>,
        weight: u64,
        at: Instant,
    ) -> Result<Pace, (Refusal, Vec<T>)> {
        if let Err(refusal) = self.accept(table, terms, tasks.len(), weight) {
            self.note_refused(refusal, table, terms, tasks.len(), at);
            return Err((refusal, tasks));
        }
        let mut pace = Pace::Within;
        for task in tasks {
            pace = self.append(table, terms, task, at);
        }
        Ok(pace)
    }

    /// What is refused for want of places was asked for, too: by that a table that floods is told from one that keeps
    /// as many tasks waiting as there are places for.
    fn note_refused(
        &mut self,
        refusal: Refusal,
        table: TableId,
        terms: Terms,
        tasks: usize,
        at: Instant,
    ) {
        if matches!(refusal, Refusal::GroupFull | Refusal::TableFull) {
            let at = self.nanos(at);
            self.orders[terms.class as usize].note_refused(table, tasks, at);
        }
    }

    /// Makes room for so many tasks of `table` and counts them as `weight` accepted ones, or says why not. Whatever
    /// has to grow is grown before anything is changed, so that a refusal for want of memory leaves the queue as it
    /// was; at most the table has got an empty lane.
    fn accept(
        &mut self,
        table: TableId,
        terms: Terms,
        tasks: usize,
        weight: u64,
    ) -> Result<(), Refusal> {
        let bounded = !left_out(Step::BoundRefuses);
        let exceeds = |waiting: usize, limit: usize| limit.saturating_sub(waiting) < tasks;
        if self.closed && !left_out(Step::CloseRefuses) {
            return Err(Refusal::Closed);
        }
        if self.is_vacant() {
            return Err(Refusal::Vacant);
        }
        if exceeds(self.len(), self.discipline.limit) && bounded {
            return Err(Refusal::GroupFull);
        }
        // The limit is that of both classes together.
        let [interactive, bulk] = &mut self.orders;
        let (order, other) = match terms.class {
            Class::Interactive => (interactive, bulk),
            Class::Bulk => (bulk, interactive),
        };
        let elsewhere = match other.len() {
            0 => 0,
            _ => other.lane(table).map_or(0, Lane::len),
        };
        let Ok(lane) = order.lane_mut(table) else {
            return Err(Refusal::NoMemory);
        };
        let limit = terms.limit.unwrap_or(self.discipline.table_limit);
        if exceeds(lane.len() + elsewhere, limit) && bounded {
            return Err(Refusal::TableFull);
        }
        let lane = order.make_room(table, tasks);
        lane.map_err(|_| Refusal::NoMemory)?.intake.accepted += weight;
        Ok(())
    }

    /// Queues a task that has been accepted in another group. It has no place left to go back to, so memory that the
    /// system refuses ends the process here, as it does by default.
    pub(super) fn adopt(&mut self, (table, terms, task): Moved<T>, at: Instant) {
        self.append(table, terms, task, at);
    }

    fn append(&mut self, table: TableId, terms: Terms, task: T, at: Instant) -> Pace {
        let at = self.nanos(at);
        self.orders[terms.class as usize].append(table, task, at, terms.weight)
    }

    /// Counts refused tasks of `table`: with the removed tables' if there is no memory to count them by themselves.
    pub(crate) fn count_shed(&mut self, table: TableId, tasks: u64) {
        let order = &mut self.orders[self.class_with(table) as usize];
        match order.lane_mut(table) {
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

    /// The counters of one table, which has had a task here. What is counted of it may lie with either class; it is
    /// the sum that is told.
    pub(crate) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        let order = &mut self.orders[self.class_with(table) as usize];
        order.intake_mut(table)
    }

    /// A class of which the table has had tasks, if there is one.
    fn class_with(&self, table: TableId) -> Class {
        match self.orders[Class::Bulk as usize].lane(table) {
            Some(_) => Class::Bulk,
            None => Class::Interactive,
        }
    }

    /// Takes note of how long the last task of `run` took, at home or away.
    pub(crate) fn learn(&mut self, run: &mut Run, away: bool) {
        if let Some(outcome) = run.outcome() {
            self.orders[outcome.class as usize].learn(&outcome, away);
        }
    }

    /// The next task for a worker: one of the group's, or with `None` a thief from another group, who knows by `run`
    /// which table it has taken before. `now` may be a little old.
    pub(crate) fn take(&mut self, worker: Option<usize>, run: &mut Run, now: Instant) -> Option<T> {
        self.learn(run, worker.is_none());
        // What most looks after a task find.
        if self.len() == 0 {
            return None;
        }
        let fronts = self.fronts();
        let (class, front) = self.next(fronts)?;
        let at = self.nanos(now);
        let order = &mut self.orders[class as usize];
        let taken = order.take(front, worker, run, at)?;
        run.begin(&taken, class, self.discipline.run_length, now);
        run.expected = match self.len() {
            0 => None,
            _ => self.orders[class as usize].service(taken.table),
        };
        Some(taken.task)
    }

    /// Which class is next, and its front.
    fn next(&self, [interactive, bulk]: [Option<Front>; 2]) -> Option<(Class, Front)> {
        match (interactive, bulk) {
            (Some(front), Some(bulk)) if front.key <= self.due(bulk) => {
                Some((Class::Interactive, front))
            }
            (Some(front), None) => Some((Class::Interactive, front)),
            (_, bulk) => Some((Class::Bulk, bulk?)),
        }
    }

    fn fronts(&mut self) -> [Option<Front>; 2] {
        self.orders.each_mut().map(Order::front)
    }

    /// When a bulk task counts as having come, among interactive ones.
    fn due(&self, bulk: Front) -> u64 {
        let gives_way = self.discipline.bulk_wait.as_nanos();
        let gives_way = u64::try_from(gives_way).unwrap_or(u64::MAX);
        bulk.key.saturating_add(gives_way)
    }

    /// Takes out every queued task for which `dead` holds, or those of one table. The caller ends them and counts how.
    pub(crate) fn extract(
        &mut self,
        of: Option<TableId>,
        mut dead: impl FnMut(&T) -> bool,
    ) -> Vec<(TableId, T)> {
        let mut out = Vec::new();
        for order in &mut self.orders {
            order.extract(of, &mut dead, |table, _, task| out.push((table, task)));
        }
        out
    }

    /// Takes out everything, for another group's queue.
    pub(super) fn move_out(&mut self) -> Vec<Moved<T>> {
        let mut out = Vec::new();
        for (class, order) in Class::ALL.into_iter().zip(&mut self.orders) {
            let limit = None;
            order.extract(
                None,
                |_| true,
                |table, weight, task| {
                    out.push((
                        table,
                        Terms {
                            class,
                            weight,
                            limit,
                        },
                        task,
                    ));
                },
            );
        }
        out
    }

    /// Counters of every table that ever submitted here; of some in two parts.
    pub(crate) fn intake(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.orders.iter().flat_map(Order::intake)
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub(crate) fn retire(&mut self, table: TableId) {
        for order in &mut self.orders {
            if let Some(intake) = order.retire(table) {
                self.retired.absorb(intake);
            }
        }
        self.missed.remove(&table);
    }

    /// Counters of tables that were removed.
    pub(crate) fn retired(&self) -> Intake {
        self.retired
    }
}
