//! A group's queue: what it accepts and counts, which class is next, and how long what waits will take.
//!
//! Interactive and bulk tasks wait in an order of their own each (`queue/order/mod.rs`). A bulk task is next when no
//! interactive one waits, or when it came [`Discipline::bulk_wait`] before the first of those: its key counts as that
//! much later. So bulk work gives way for that long and no longer.
//!
//! The queue is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is. All memory
//! that a waiting task needs here is reserved before it is accepted, and taking it out again needs none: a queue that
//! cannot grow refuses tasks and still hands out those that wait.
//!
//! Every [`Time`] comes in from outside. So a simulator may make it up, and equal calls give equal answers.
//!
//! ```
//! use std::time::Duration;
//! use chiplet_policy::{TableId, Time};
//! use chiplet_policy::queue::{Discipline, Queue, Run, Terms};
//!
//! let discipline = Discipline {
//!     run_length: 16,
//!     reorder: 0.3,
//!     limit: 1_000,
//!     table_limit: 750,
//!     bulk_wait: Some(Duration::from_millis(100)),
//! };
//! let mut queue = Queue::new(discipline, 8);
//! let table = TableId { slot: 0, generation: 0 };
//! assert!(queue.push(table, Terms::default(), "a query", Time::ZERO).is_ok());
//! // Worker 0 takes it 30 us later.
//! let mut run = Run::default();
//! assert_eq!(queue.take(Some(0), &mut run, Time::from_nanos(30_000)), Some("a query"));
//! run.end(Time::from_nanos(90_000)); // it took 60 us, which the queue learns with the next take
//! ```

mod discipline;
mod effort;
mod intake;
mod lane;
mod lanes;
mod order;
mod outlook;
mod relative;
mod service;
mod terms;
#[cfg(test)]
mod tests;
mod underway;
mod weights;

use std::time::Duration;

use chiplet_table::Class;

use crate::{TableId, Time};
pub use discipline::{Discipline, QUEUE_PER_WORKER};
pub use effort::Effort;
pub use intake::{InVain, Intake, IntakeAt};
use lanes::Place;
use order::{Front, Order, SearchAt};
pub use outlook::Outlook;
use terms::Outcome;
pub use terms::{Run, Terms};
pub use underway::Underway;

/// How fast a table's tasks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The table asks for its share of the domain's time at most.
    Within,
    /// It has asked for more for some time.
    OverShare,
}

/// Why a task was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is closed.
    Closed,
    /// It holds as many tasks as it may.
    GroupFull,
    /// It holds as many tasks of that table as it may, or has only places left for tables of which less waits.
    TableFull,
    /// Nobody of the group is at work; its tables have other homes by now.
    Vacant,
    /// The system has no memory for a longer queue.
    NoMemory,
}

impl Refusal {
    /// Whether there was no place, which another group may have.
    pub fn is_for_places(self) -> bool {
        !matches!(self, Self::Closed | Self::NoMemory)
    }
}

/// A task that leaves for another group's queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved<T> {
    /// Its table.
    pub table: TableId,
    /// On which terms it waits.
    pub terms: Terms,
    /// When it came.
    pub at: Time,
    /// The task itself.
    pub task: T,
}

/// A group's queue of tasks.
pub struct Queue<T> {
    discipline: Discipline,
    /// Workers at work.
    workers: u32,
    /// What waits, by class.
    orders: [Order<T>; 2],
    /// Where the search for dead tasks goes on.
    searched: SearchAt,
    retired: Intake,
    /// Of all tables, as [`Intake::in_vain`].
    in_vain: u64,
    closed: bool,
    refuses: bool,
}

impl<T> Queue<T> {
    /// An empty queue that `workers` serve.
    pub fn new(discipline: Discipline, workers: usize) -> Self {
        let workers = workers as u32;
        Self {
            discipline,
            workers,
            orders: [(); 2].map(|()| Order::new(&discipline, workers)),
            searched: SearchAt::default(),
            retired: Intake::default(),
            in_vain: 0,
            closed: false,
            refuses: false,
        }
    }

    /// Tasks that wait.
    pub fn len(&self) -> usize {
        self.orders[0].len() + self.orders[1].len()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says how many workers serve the queue from now on.
    pub fn set_workers(&mut self, workers: usize) {
        self.workers = workers as u32;
        for order in &mut self.orders {
            order.set_workers(self.workers);
        }
    }

    /// Whether nobody of the group is at work, so that it refuses tasks.
    pub fn is_vacant(&self) -> bool {
        self.workers == 0
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the queue, and with `refuses` accepts nothing from now on; what is queued stays.
    pub fn close(&mut self, refuses: bool) {
        self.closed = true;
        self.refuses = refuses;
    }

    /// Accepts `task` of `table`, which came at `at`, or hands it back. It counts as many accepted ones as it has
    /// queries.
    pub fn push(
        &mut self,
        table: TableId,
        terms: Terms,
        task: T,
        at: Time,
    ) -> Result<Pace, (Refusal, T)> {
        match self.accept(table, terms, 1, u64::from(terms.queries)) {
            Ok(place) => Ok(self.append(place, terms, task, at)),
            Err(refusal) => {
                self.note_refused(refusal, table, terms, u64::from(terms.queries), at);
                Err((refusal, task))
            }
        }
    }

    /// Accepts all of `tasks`, each with its queries, which came at `at`, or hands all of them back. They count as many
    /// accepted ones as they have queries.
    pub fn push_all(
        &mut self,
        table: TableId,
        mut terms: Terms,
        tasks: Vec<(T, u32)>,
        at: Time,
    ) -> Result<Pace, (Refusal, Vec<(T, u32)>)> {
        let weight = tasks.iter().map(|&(_, queries)| u64::from(queries)).sum();
        let place = match self.accept(table, terms, tasks.len(), weight) {
            Ok(place) => place,
            Err(refusal) => {
                self.note_refused(refusal, table, terms, weight, at);
                return Err((refusal, tasks));
            }
        };
        let mut pace = Pace::Within;
        for (task, queries) in tasks {
            terms.queries = queries;
            pace = self.append(place, terms, task, at);
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
        queries: u64,
        at: Time,
    ) {
        let is_asked_once = !terms.goes_on && !terms.patient;
        if matches!(refusal, Refusal::GroupFull | Refusal::TableFull) && is_asked_once {
            let at = at.as_nanos();
            let much = self.much();
            self.orders[terms.class as usize].note_refused(table, queries, at, much);
        }
    }

    /// Makes room for so many tasks of `table` and counts them as `weight` accepted ones, or says why not. Gives the
    /// place of the table's lane. Whatever has to grow is grown before anything is changed, so that a refusal for want
    /// of memory leaves the queue as it was; at most the table has got an empty lane.
    fn accept(
        &mut self,
        table: TableId,
        terms: Terms,
        tasks: usize,
        weight: u64,
    ) -> Result<Place, Refusal> {
        let exceeds = |waiting: usize, limit: usize| limit.saturating_sub(waiting) < tasks;
        if self.refuses && (self.is_empty() || !terms.goes_on) {
            return Err(Refusal::Closed);
        }
        if self.is_vacant() {
            return Err(Refusal::Vacant);
        }
        if exceeds(self.len(), self.discipline.limit) {
            return Err(Refusal::GroupFull);
        }
        let waiting = self.len() + tasks;
        let tables = self.orders.iter().map(Order::tables).sum::<usize>();
        // The limit is that of both classes together.
        let [interactive, bulk] = &mut self.orders;
        let (order, other) = match terms.class {
            Class::Interactive => (interactive, bulk),
            Class::Bulk => (bulk, interactive),
        };
        let elsewhere = match other.len() {
            0 => 0,
            _ => other
                .lanes
                .find(table)
                .map_or(0, |place| other.lanes[place].len()),
        };
        let Ok(place) = order.lanes.find_or_add(table) else {
            return Err(Refusal::NoMemory);
        };
        let limit = terms.limit.unwrap_or(self.discipline.table_limit);
        let own = order.lanes[place].len() + elsewhere;
        let tables = tables + usize::from(own == 0);
        let has_place = self
            .discipline
            .has_place(own + tasks, limit, waiting, tables);
        if exceeds(own, limit) || !has_place {
            return Err(Refusal::TableFull);
        }
        let lane = order.make_room(place, tasks);
        lane.map_err(|_| Refusal::NoMemory)?.intake.accepted += weight;
        Ok(place)
    }

    /// Queues a task that has been accepted in another group, where it keeps its age. It has no place left to go back
    /// to, so memory that the system refuses ends the process here, as it does by default.
    pub fn adopt(&mut self, moved: Moved<T>) {
        let order = &mut self.orders[moved.terms.class as usize];
        let place = order.lanes.find_or_add(moved.table);
        let place = place.unwrap_or_else(|_| std::process::abort());
        self.append(place, moved.terms, moved.task, moved.at);
    }

    fn append(&mut self, place: Place, terms: Terms, task: T, at: Time) -> Pace {
        let at = at.as_nanos();
        let much = self.much();
        self.orders[terms.class as usize].append(place, task, at, terms, much)
    }

    /// How many tasks of a table are so many that it is over its share: in a queue that is more than half full nobody
    /// who fills it goes before those who do not.
    fn much(&self) -> Option<usize> {
        if self.len() <= self.discipline.limit / 2 {
            return None;
        }
        let tables = self.orders.iter().map(Order::tables).sum::<usize>();
        Some(self.len() / (2 * tables).max(1))
    }

    /// Counts tasks of `table` as accepted that no queue had: a worker goes on with them by itself.
    pub fn count_accepted(&mut self, table: TableId, tasks: u64) {
        self.intake_mut(table).accepted += tasks;
    }

    /// Counts refused tasks of `table` and `class`: with the removed tables' if there is no memory to count them by
    /// themselves.
    pub fn count_shed(&mut self, table: TableId, class: Class, tasks: u64) {
        let order = &mut self.orders[self.class_with(table) as usize];
        match order.lanes.find_or_add(table) {
            Ok(place) => order.lanes[place].intake.shed += tasks,
            Err(_) => self.retired.shed += tasks,
        }
        self.count_in_vain(table, class, tasks, None);
    }

    /// Counts tasks of `table`, `class` and this effort that expired while they waited.
    pub fn count_expired(
        &mut self,
        table: TableId,
        class: Class,
        tasks: u64,
        effort: Option<Effort>,
    ) {
        self.intake_mut(table).expired += tasks;
        self.count_in_vain(table, class, tasks, effort);
        let order = &mut self.orders[class as usize];
        if let Some(place) = order.lanes.find(table) {
            order.missed(place, tasks);
        }
    }

    /// As long as none of the class and effort has ended here, nothing is known of the time.
    fn count_in_vain(&mut self, table: TableId, class: Class, tasks: u64, effort: Option<Effort>) {
        let lanes = &self.orders[class as usize].lanes;
        let cost = lanes
            .find(table)
            .map_or(0, |place| lanes[place].service.cost_of(effort));
        if cost > 0 {
            let time = cost.saturating_mul(tasks);
            self.in_vain = self.in_vain.wrapping_add(time);
            let intake = self.intake_mut(table);
            intake.in_vain = intake.in_vain.wrapping_add(time);
        }
    }

    /// The sum of all tables' [`Intake::in_vain`] so far, those included that are gone.
    pub fn in_vain(&self) -> u64 {
        self.in_vain
    }

    /// The counters of one table, which has had a task here. What is counted of it may lie with either class; it is
    /// the sum that is told.
    pub fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        let order = &mut self.orders[self.class_with(table) as usize];
        order.intake_mut(table)
    }

    /// A class of which the table has had tasks, if there is one.
    fn class_with(&self, table: TableId) -> Class {
        match self.orders[Class::Bulk as usize].lanes.find(table) {
            Some(_) => Class::Bulk,
            None => Class::Interactive,
        }
    }

    /// Takes note of how long the last task of `run` took, at home or away.
    fn learn(&mut self, run: &mut Run, away: bool) {
        if let Some(outcome) = run.outcome() {
            let ended = outcome
                .took
                .as_ref()
                .map_or(0, |took| took.ended.as_nanos());
            self.orders[outcome.class as usize].learn(&outcome, ended, away);
            if outcome.missed {
                let Outcome {
                    table,
                    class,
                    queries,
                    effort,
                    ..
                } = outcome;
                self.count_in_vain(table, class, queries.into(), effort);
            }
        }
    }

    /// Takes note of how long a task took that was [handed over](Run::hand_over), at home or `away` from it.
    pub fn end_late(&mut self, mut task: Run, away: bool) {
        self.learn(&mut task, away);
    }

    /// The next task for a worker: one of the group's, or with `None` a thief from another group, who knows by `run`
    /// which table it has taken before. `now` may be a little old.
    pub fn take(&mut self, worker: Option<usize>, run: &mut Run, now: Time) -> Option<T> {
        self.learn(run, worker.is_none());
        // What most looks after a task find.
        if self.is_empty() {
            return None;
        }
        let at = now.as_nanos();
        let fronts = self.fronts(at);
        let (class, front) = self.next(fronts)?;
        let order = &mut self.orders[class as usize];
        let taken = order.take(front, worker, run, at)?;
        run.begin(&taken, class, self.discipline.run_length, now);
        run.expected = match self.len() {
            0 => None,
            _ => {
                let usual = self.orders[class as usize].usual(&taken, at);
                usual.map(Duration::from_nanos)
            }
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

    fn fronts(&mut self, now: u64) -> [Option<Front>; 2] {
        let [interactive, bulk] = &mut self.orders;
        [interactive.front(now), bulk.front(now)]
    }

    /// When a bulk task counts as having come, among interactive ones.
    fn due(&self, bulk: Front) -> u64 {
        self.place(Class::Bulk, bulk.key)
    }

    /// The place among all tasks of one of `class` that has `key` among those.
    fn place(&self, class: Class, key: u64) -> u64 {
        let gives_way = match class {
            Class::Interactive => Duration::ZERO,
            Class::Bulk => self.discipline.gives_way(),
        };
        let gives_way = u64::try_from(gives_way.as_nanos());
        key.saturating_add(gives_way.unwrap_or(u64::MAX))
    }

    /// Takes out every queued task for which `dead` holds. The caller ends them and counts how.
    pub fn extract(&mut self, dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        self.searched = SearchAt::default();
        self.search(usize::MAX, dead).0
    }

    /// As [`Queue::extract`], of the next tasks after those that it has looked at before; it looks at no more than
    /// about `steps`. Says whether it has come to the end: then it begins anew.
    pub fn search(
        &mut self,
        mut steps: usize,
        mut dead: impl FnMut(&T) -> bool,
    ) -> (Vec<(TableId, T)>, bool) {
        let mut out = Vec::new();
        while let Some(order) = self.orders.get_mut(self.searched.order) {
            let at = &mut self.searched;
            let is_through = order.extract(at, &mut steps, &mut dead, |table, _, popped| {
                out.push((table, popped.task));
            });
            if !is_through {
                return (out, false);
            }
            *at = SearchAt::of(at.order + 1);
        }
        self.searched = SearchAt::default();
        (out, true)
    }

    /// Takes out everything, for another group's queue.
    pub fn move_out(&mut self) -> Vec<Moved<T>> {
        let mut out = Vec::new();
        for (class, order) in Class::ALL.into_iter().zip(&mut self.orders) {
            let (limit, mut from, mut steps) = (None, SearchAt::default(), usize::MAX);
            order.extract(
                &mut from,
                &mut steps,
                |_| true,
                |table, weight, popped| {
                    out.push(Moved {
                        table,
                        terms: Terms {
                            class,
                            weight,
                            limit,
                            queries: popped.queries,
                            effort: popped.effort,
                            ..Terms::default()
                        },
                        at: Time::from_nanos(popped.at),
                        task: popped.task,
                    });
                },
            );
        }
        out
    }

    /// Counters of tables that submitted here, each with how many of its queries wait: those of the next `most` lanes
    /// from `at` on, added to `out`. Returns where to go on, `None` at the end. Some tables come in two parts.
    ///
    /// So a reader of very many tables need not hold the queue for long. It may be used in between, but no table be
    /// [retired](Queue::retire). Of what is read later a task is seen at a later step, or not at all: bulk lanes, where
    /// the ends of both classes' tasks are counted, come first, so no end is read without its beginning.
    pub fn intake_part(
        &self,
        at: IntakeAt,
        most: usize,
        out: &mut Vec<(TableId, Intake, u64)>,
    ) -> Option<IntakeAt> {
        let order = self.orders.iter().rev().nth(at.orders)?;
        let lanes = at.lanes.saturating_add(most);
        out.extend(order.intake(at.lanes..lanes));
        let IntakeAt { orders, .. } = at;
        match lanes < order.lanes.places() {
            true => Some(IntakeAt { orders, lanes }),
            false if orders + 1 < self.orders.len() => Some(IntakeAt {
                orders: orders + 1,
                lanes: 0,
            }),
            false => None,
        }
    }

    /// `table` has another index from `at` on: how long a task of it takes is not known. Its mean cost is believed
    /// until its own tasks have moved it.
    pub fn replaced(&mut self, table: TableId, at: Time) {
        let at = at.as_nanos();
        for order in &mut self.orders {
            order.replaced(table, at);
        }
    }

    /// Moves the counters of a removed table, which has nothing queued any more, to the retired ones.
    pub fn retire(&mut self, table: TableId) {
        for order in &mut self.orders {
            if let Some(intake) = order.retire(table) {
                self.retired.absorb(intake);
            }
        }
    }

    /// Counters of tables that were removed.
    pub fn retired(&self) -> Intake {
        self.retired
    }
}
