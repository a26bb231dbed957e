//! A group's queue: what it accepts and counts, which class is next, and how long what waits will take.
//!
//! Interactive and bulk tasks wait in an order of their own each (`queue/order.rs`). A bulk task is next when no
//! interactive one waits. While some do, all bulk work together counts as one more of their tables, whose weight is
//! [`Discipline::bulk_weight`]. Each interactive task that is served brings credit by that weight, and a bulk task is
//! next as soon as there is some, which it uses up.
//!
//! The queue is plain data under its group's lock; nothing here blocks or wakes, or asks what time it is. All memory
//! that a waiting task needs here is reserved before it is accepted, and taking it out again needs none: a queue that
//! cannot grow refuses tasks and still hands out those that wait.
//!
//! Every [`Time`] comes in from outside. So a simulator may make it up, and equal calls give equal answers.
//!
//! ```
//! use chiplet_policy::{TableId, Time};
//! use chiplet_policy::queue::{Discipline, Queue, Run, Terms};
//!
//! let discipline = Discipline {
//!     run_length: 16,
//!     reorder: 0.3,
//!     limit: 1_000,
//!     table_limit: 750,
//!     bulk_weight: Discipline::BULK_WEIGHT,
//! };
//! let mut queue = Queue::new(discipline, 8);
//! let table = TableId { slot: 0, generation: 0 };
//! assert!(queue.push(table, &Terms::default(), "a query", Time::ZERO).is_ok());
//! // A worker takes it 30 us later.
//! let mut run = Run::default();
//! assert_eq!(queue.take(false, &mut run, Time::from_nanos(30_000)), Some("a query"));
//! run.end(Time::from_nanos(90_000)); // it took 60 us, which the queue learns with the next take
//! ```

mod cold;
mod counts;
mod discipline;
mod flow;
mod flows;
mod intake;
mod order;
mod outlook;
mod prefetch;
mod service;
mod slots;
mod terms;
#[cfg(test)]
mod tests;
mod transfer;
mod turns;
mod underway;
mod weights;

use chiplet_table::Class;

use crate::{TableId, Time};
pub use discipline::{Discipline, QUEUE_PER_WORKER};
use flow::{NO_SLOT, SlotId};
use flows::{Flows, NOWHERE, Place};
pub use intake::{InVain, Intake};
use order::{Front, Order};
pub use outlook::Outlook;
use terms::NEVER;
pub use terms::{Run, Terms};
pub use transfer::Moved;
pub use underway::Underway;

/// Tasks, each with how many queries it answers.
pub(crate) type Parts<T> = Vec<(T, u32)>;

/// How fast a table's tasks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// They are served in order of arrival.
    Within,
    /// The table's flow is backlogged: it is served in turns, after those of which little waits.
    Backlogged,
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

/// A group's queue of tasks.
pub struct Queue<T> {
    discipline: Discipline,
    /// Workers at work.
    workers: u32,
    /// Every table that ever submitted here.
    flows: Flows,
    /// What waits, by class.
    orders: [Order<T>; 2],
    /// Where the search for dead tasks goes on: of which class, and at which slot.
    searched: (usize, SlotId),
    retired: Intake,
    /// Of all tables, as [`Intake::in_vain`].
    in_vain: u64,
    closed: bool,
    refuses: bool,
    /// With no more tasks than this there are places for whoever has not too many: the queue is open, and not in its
    /// last quarter.
    easy: usize,
    /// Nanoseconds of work that bulk tasks may do while interactive ones wait: what their weight has brought them.
    credit: f64,
}

impl<T> Queue<T> {
    /// An empty queue that `workers` serve.
    pub fn new(mut discipline: Discipline, workers: usize) -> Self {
        // So many slots have numbers.
        discipline.limit = discipline.limit.min(NO_SLOT as usize);
        let mut queue = Self {
            discipline,
            workers: 0,
            flows: Flows::default(),
            orders: Class::ALL.map(|class| Order::new(class, &discipline)),
            searched: (0, 0),
            retired: Intake::default(),
            in_vain: 0,
            closed: false,
            refuses: false,
            easy: 0,
            credit: 0.0,
        };
        queue.set_workers(workers);
        queue
    }

    /// Tasks that wait.
    #[inline]
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
        self.set_easy();
    }

    fn set_easy(&mut self) {
        self.easy = match self.refuses || self.workers == 0 {
            true => 0,
            false => self.discipline.limit - self.discipline.limit.div_ceil(4),
        };
    }

    /// Workers that serve it. If there are none it refuses tasks.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the queue, and with `refuses` accepts nothing from now on; what is queued stays.
    pub fn close(&mut self, refuses: bool) {
        self.closed = true;
        self.refuses = refuses;
        self.set_easy();
    }

    /// Accepts `task` of `table`, which came at `at`, or hands it back. It counts as many accepted ones as it has
    /// queries.
    #[inline(always)]
    pub fn push(
        &mut self,
        table: TableId,
        terms: &Terms,
        task: T,
        at: Time,
    ) -> Result<Pace, (Refusal, T)> {
        match self.accept(table, terms, 1, terms.queries.into()) {
            Ok(place) => {
                let task = std::iter::once((task, terms.queries));
                Ok(self.append(place, terms, task, at))
            }
            Err(refusal) => Err((refusal, task)),
        }
    }

    /// Accepts all of `tasks`, each with its queries, which came at `at`, or hands all of them back. They count as many
    /// accepted ones as they have queries.
    pub fn push_all(
        &mut self,
        table: TableId,
        terms: &Terms,
        tasks: Parts<T>,
        at: Time,
    ) -> Result<Pace, (Refusal, Parts<T>)> {
        if tasks.is_empty() {
            return Ok(Pace::Within);
        }
        let weight = tasks.iter().map(|&(_, queries)| u64::from(queries)).sum();
        match self.accept(table, terms, tasks.len(), weight) {
            Ok(place) => Ok(self.append(place, terms, tasks.into_iter(), at)),
            Err(refusal) => Err((refusal, tasks)),
        }
    }

    /// Makes room for so many tasks of `table` and counts them as `weight` accepted ones, or says why not. Gives the
    /// place of the table's flows. Whatever has to grow is grown before anything is changed, so that a refusal for want
    /// of memory leaves the queue as it was; at most the table has got empty flows.
    #[inline(always)]
    fn accept(
        &mut self,
        table: TableId,
        terms: &Terms,
        tasks: usize,
        weight: u64,
    ) -> Result<Place, Refusal> {
        let is_easy = self.easy.saturating_sub(self.len()) >= tasks;
        if !is_easy {
            self.check(terms, tasks)?;
        }
        let known = terms.place.unwrap_or(NOWHERE);
        let Ok(place) = self.flows.find_or_add(table, known) else {
            return Err(Refusal::NoMemory);
        };
        let row = &self.flows.list[place as usize];
        // The limit is that of both classes together.
        let own = row.flows[0].list.len + row.flows[1].list.len;
        let limit = terms.limit.unwrap_or(self.discipline.table_limit);
        if limit.saturating_sub(own) < tasks || !is_easy && !self.has_place(own, limit, tasks) {
            return Err(Refusal::TableFull);
        }
        let order = &mut self.orders[terms.class as usize];
        if order.make_room(tasks).is_err() {
            return Err(Refusal::NoMemory);
        }
        self.flows.list[place as usize].intake.accepted += weight;
        Ok(place)
    }

    /// Whether the queue accepts so many tasks, whosever they are.
    #[inline(never)]
    fn check(&self, terms: &Terms, tasks: usize) -> Result<(), Refusal> {
        if self.refuses && (self.is_empty() || !terms.goes_on) {
            return Err(Refusal::Closed);
        }
        if self.workers == 0 {
            return Err(Refusal::Vacant);
        }
        match self.discipline.limit.saturating_sub(self.len()) < tasks {
            true => Err(Refusal::GroupFull),
            false => Ok(()),
        }
    }

    /// [`Discipline::has_place`] for so many more tasks of a table of which `own` wait.
    fn has_place(&self, own: usize, limit: usize, tasks: usize) -> bool {
        let (waiting, tables) = (self.len() + tasks, self.tables() + usize::from(own == 0));
        self.discipline
            .has_place(own + tasks, limit, waiting, tables)
    }

    /// Tables of which tasks wait; one counts twice if tasks of both classes do.
    fn tables(&self) -> usize {
        let flows = self.orders.iter().map(|order| order.weights.flows as usize);
        flows.sum()
    }

    /// Where the queue keeps what it knows of `table`, of which it has had a task ([`Terms::place`]).
    pub fn place_of(&self, table: TableId) -> Option<u32> {
        self.flows.find(table)
    }

    /// Adds tasks that have been accepted.
    #[inline(always)]
    fn append(
        &mut self,
        place: Place,
        terms: &Terms,
        tasks: impl Iterator<Item = (T, u32)>,
        at: Time,
    ) -> Pace {
        let order = &mut self.orders[terms.class as usize];
        order.push(&mut self.flows, place, tasks, terms, at.as_nanos())
    }

    /// Takes note of how long the last task of `run` took, at home or away, whose table's flow is at `place`.
    #[inline(always)]
    fn learn(&mut self, run: &mut Run, place: Place, away: bool) {
        let Some(took) = run.outcome() else { return };
        if place == NOWHERE {
            return;
        }
        let order = &mut self.orders[run.class as usize];
        match took {
            Some(took) => {
                let flow = &mut self.flows[(place, run.class as usize)];
                let was_unknown = flow.cost == 0;
                order.learn(flow, run, &took, away);
                if was_unknown {
                    order.gets_known(&mut self.flows, place);
                }
            }
            None => {
                order.not_begun(&mut self.flows, place, run);
                if run.class == Class::Bulk {
                    self.credit = (self.credit + run.charged as f64).min(0.0);
                }
            }
        }
        if run.missed {
            self.count_in_vain(place, run.class, run.queries.into());
        }
    }

    /// Takes note of how long a task took that was [handed over](Run::hand_over), at home or `away` from it.
    pub fn end_late(&mut self, mut task: Run, away: bool) {
        let place = task.last(&self.flows);
        self.learn(&mut task, place, away);
    }

    /// The next task for a worker of the group, or of another one that takes it `away`. `run` is what that worker has run
    /// of this queue. `now` may be a little old.
    #[inline(always)]
    pub fn take(&mut self, away: bool, run: &mut Run, now: Time) -> Option<T> {
        let last = run.last(&self.flows);
        self.learn(run, last, away);
        let [interactive, bulk] = &mut self.orders;
        let task = match bulk.len() {
            0 => interactive.take(&mut self.flows, last, run, now)?,
            _ => self.take_of_both(last, run, now)?,
        };
        if run.expires < NEVER {
            run.expected = match self.is_empty() {
                true => None,
                false => self.orders[run.class as usize].usual(&mut self.flows, run, now),
            };
        }
        Some(task)
    }

    /// The next task where bulk ones wait.
    #[inline(never)]
    fn take_of_both(&mut self, last: Place, run: &mut Run, now: Time) -> Option<T> {
        let [interactive, bulk] = &mut self.orders;
        let (is_contended, weights) = (interactive.len() > 0, interactive.weights.sum);
        if !is_contended || self.credit > 0.0 {
            let task = bulk.take(&mut self.flows, last, run, now)?;
            self.credit = match is_contended {
                true => self.credit - run.charged as f64,
                false => 0.0,
            };
            return Some(task);
        }
        let task = interactive.take(&mut self.flows, last, run, now)?;
        let weight = f64::from(self.discipline.bulk_weight);
        self.credit += run.charged as f64 * weight / weights;
        Some(task)
    }

    /// The task that is next in order, but for bulk ones whose weight lets them go before interactive ones.
    #[inline(always)]
    fn front(&self) -> Option<(Class, Front)> {
        let class = match self.orders[Class::Interactive as usize].len() {
            0 => Class::Bulk,
            _ => Class::Interactive,
        };
        let front = self.orders[class as usize].front(&self.flows)?;
        Some((class, front))
    }

    /// `table` has another index from `at` on: how long a task of it takes is not known. Its mean cost is believed
    /// until its own tasks have moved it.
    pub fn replaced(&mut self, table: TableId, at: Time) {
        if let Some(place) = self.flows.find(table) {
            for flow in &mut self.flows.list[place as usize].flows {
                flow.service.forget_usual(at.as_nanos());
            }
        }
    }
}
