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
//! assert!(queue.push(table, &Terms::default(), "a query", Time::ZERO).is_ok());
//! // Worker 0 takes it 30 us later.
//! let mut run = Run::default();
//! assert_eq!(queue.take(Some(0), &mut run, Time::from_nanos(30_000)), Some("a query"));
//! run.end(Time::from_nanos(90_000)); // it took 60 us, which the queue learns with the next take
//! ```

mod counts;
mod discipline;
mod effort;
mod flow;
mod flows;
mod intake;
mod order;
mod outlook;
mod relative;
mod ring;
mod service;
mod terms;
#[cfg(test)]
mod tests;
mod transfer;
mod underway;
mod weights;

use std::time::Duration;

use chiplet_table::Class;

use crate::{TableId, Time};
pub use discipline::{Discipline, QUEUE_PER_WORKER};
pub use effort::Effort;
use flows::{Flows, NOWHERE, Place};
pub use intake::{InVain, Intake};
use order::{Crowd, Front, Order, Taker};
pub use outlook::Outlook;
use ring::SearchAt;
pub use terms::{Run, Terms};
pub use transfer::Moved;
pub use underway::Underway;

/// Tasks, each with how many queries it answers.
pub(crate) type Parts<T> = Vec<(T, u32)>;

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

/// A group's queue of tasks.
pub struct Queue<T> {
    discipline: Discipline,
    /// Workers at work.
    workers: u32,
    /// Every table that ever submitted here.
    flows: Flows<T>,
    /// What waits, by class.
    orders: [Order<T>; 2],
    /// Where the search for dead tasks goes on.
    searched: SearchAt,
    retired: Intake,
    /// Of all tables, as [`Intake::in_vain`].
    in_vain: u64,
    closed: bool,
    refuses: bool,
    /// With fewer tasks the queue is open and not even half full.
    easy: usize,
}

impl<T> Queue<T> {
    /// An empty queue that `workers` serve.
    pub fn new(discipline: Discipline, workers: usize) -> Self {
        let mut queue = Self {
            discipline,
            workers: 0,
            flows: Flows::new(),
            orders: Class::ALL.map(|class| Order::new(class, &discipline)),
            searched: SearchAt::default(),
            retired: Intake::default(),
            in_vain: 0,
            closed: false,
            refuses: false,
            easy: 0,
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
            order.set_workers(&mut self.flows, self.workers);
        }
        self.set_easy();
    }

    fn set_easy(&mut self) {
        self.easy = match self.refuses || self.is_vacant() {
            true => 0,
            false => self.discipline.limit / 2,
        };
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
        match self.plain_place(table, terms) {
            Some(place) => {
                let queries = u64::from(terms.queries);
                self.flows.list[place as usize].intake.accepted += queries;
                let order = &mut self.orders[Class::Interactive as usize];
                let alone = Crowd::default();
                Ok(order.append_within(&mut self.flows, place, task, terms, at.as_nanos(), alone))
            }
            None => self.push_where_more_matters(table, terms, task, at),
        }
    }

    /// Where the flow of `table` is, if its task only has to be appended to it: the queue is [plain](Queue::is_plain)
    /// and less than half full, the table is known and has places left, and there is memory.
    #[inline(always)]
    fn plain_place(&self, table: TableId, terms: &Terms) -> Option<Place> {
        let place = terms.place?;
        let row = self.flows.list.get(place as usize)?;
        let order = &self.orders[Class::Interactive as usize];
        let flow = &row.flows[Class::Interactive as usize];
        let limit = terms.limit.unwrap_or(self.discipline.table_limit);
        let is_plain = row.table == table
            && terms.class == Class::Interactive
            && order.len() < self.easy
            && (flow.len as usize) < limit
            && self.is_plain()
            && order.has_room();
        is_plain.then_some(place)
    }

    #[inline(never)]
    fn push_where_more_matters(
        &mut self,
        table: TableId,
        terms: &Terms,
        task: T,
        at: Time,
    ) -> Result<Pace, (Refusal, T)> {
        let queries = u64::from(terms.queries);
        match self.accept(table, terms, 1, queries) {
            Ok(place) => {
                let task = std::iter::once((task, terms.queries));
                Ok(self.append(place, terms, task, at))
            }
            Err(refusal) => {
                self.note_refused(refusal, table, terms, queries, at);
                Err((refusal, task))
            }
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
        let weight = tasks.iter().map(|&(_, queries)| u64::from(queries)).sum();
        let place = match self.accept(table, terms, tasks.len(), weight) {
            Ok(place) => place,
            Err(refusal) => {
                self.note_refused(refusal, table, terms, weight, at);
                return Err((refusal, tasks));
            }
        };
        Ok(self.append(place, terms, tasks.into_iter(), at))
    }

    /// What is refused for want of places was asked for, too: by that a table that floods is told from one that keeps
    /// as many tasks waiting as there are places for.
    #[cold]
    fn note_refused(
        &mut self,
        refusal: Refusal,
        table: TableId,
        terms: &Terms,
        queries: u64,
        at: Time,
    ) {
        let is_asked_once = !terms.goes_on && !terms.patient;
        let is_full = matches!(refusal, Refusal::GroupFull | Refusal::TableFull);
        if is_full
            && is_asked_once
            && let Some(place) = self.flows.find(table)
        {
            let crowd = self.crowd(terms.class, 1);
            let order = &mut self.orders[terms.class as usize];
            order.note_refused(&mut self.flows, place, queries, at.as_nanos(), crowd);
        }
    }

    /// Makes room for so many tasks of `table` and counts them as `weight` accepted ones, or says why not. Gives the
    /// place of the table's flows. Whatever has to grow is grown before anything is changed, so that a refusal for want
    /// of memory leaves the queue as it was; at most the table has got empty flows.
    fn accept(
        &mut self,
        table: TableId,
        terms: &Terms,
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
        let waiting = self.len();
        if exceeds(waiting, self.discipline.limit) {
            return Err(Refusal::GroupFull);
        }
        let known = terms.place.unwrap_or(NOWHERE);
        let Ok(place) = self.flows.find_or_add(table, known) else {
            return Err(Refusal::NoMemory);
        };
        let row = &self.flows.list[place as usize];
        // The limit is that of both classes together.
        let own = (row.flows[0].len + row.flows[1].len) as usize;
        let limit = terms.limit.unwrap_or(self.discipline.table_limit);
        if exceeds(own, limit) || !self.has_place(own, limit, tasks) {
            return Err(Refusal::TableFull);
        }
        let order = &mut self.orders[terms.class as usize];
        if order.make_room(&mut self.flows, place, tasks).is_err() {
            return Err(Refusal::NoMemory);
        }
        self.flows.list[place as usize].intake.accepted += weight;
        Ok(place)
    }

    /// [`Discipline::has_place`] for so many more tasks of a table of which `own` wait.
    fn has_place(&self, own: usize, limit: usize, tasks: usize) -> bool {
        let waiting = self.len() + tasks;
        let is_last_quarter = self.discipline.limit - waiting < self.discipline.limit.div_ceil(4);
        !is_last_quarter || {
            let tables = self.tables() + usize::from(own == 0);
            self.discipline
                .has_place(own + tasks, limit, waiting, tables)
        }
    }

    /// Tables of which tasks wait; one counts twice if tasks of both classes do.
    fn tables(&self) -> usize {
        let flows = self.orders.iter().map(|order| order.tally.flows as usize);
        flows.sum()
    }

    /// Where the queue keeps what it knows of `table`, of which it has had a task ([`Terms::place`]).
    pub fn place_of(&self, table: TableId) -> Option<u32> {
        self.flows.find(table)
    }

    /// Adds tasks that have been accepted.
    fn append(
        &mut self,
        place: Place,
        terms: &Terms,
        tasks: impl ExactSizeIterator<Item = (T, u32)>,
        at: Time,
    ) -> Pace {
        let crowd = self.crowd(terms.class, tasks.len());
        let [interactive, bulk] = &mut self.orders;
        let (order, other) = match terms.class {
            Class::Interactive => (interactive, bulk),
            Class::Bulk => (bulk, interactive),
        };
        if other.is_alone_over() {
            other.judge_suspect(&mut self.flows, at.as_nanos(), crowd);
        }
        order.append(&mut self.flows, place, tasks, terms, at.as_nanos(), crowd)
    }

    /// What the last of so many tasks of this class meets. In a queue that is more than half full nobody who fills it
    /// goes before those who do not.
    fn crowd(&self, class: Class, came: usize) -> Crowd {
        let waiting = (self.len() + came).saturating_sub(1);
        let is_crowded = waiting > self.discipline.limit / 2;
        Crowd {
            much: is_crowded.then(|| waiting / (2 * self.tables()).max(1)),
            is_mixed: self.orders[1 - class as usize].len() > 0,
            is_low: waiting <= self.discipline.limit / 4,
        }
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
                order.learn(flow, run, &took, away);
            }
            None => order.not_begun(&mut self.flows, place, run),
        }
        if run.missed {
            self.count_in_vain(place, run.class, run.queries.into(), run.effort);
        }
    }

    /// Takes note of how long a task took that was [handed over](Run::hand_over), at home or `away` from it.
    pub fn end_late(&mut self, mut task: Run, away: bool) {
        let place = task.last(&self.flows);
        self.learn(&mut task, place, away);
    }

    /// The next task for a worker: one of the group's, or with `None` a thief from another group, who knows by `run`
    /// which table it has taken before. `now` may be a little old.
    #[inline(always)]
    pub fn take(&mut self, worker: Option<usize>, run: &mut Run, now: Time) -> Option<T> {
        let last = run.last(&self.flows);
        self.learn(run, last, worker.is_none());
        let worker = worker.map(|worker| worker as u32);
        let taker = Taker { worker, last };
        let [interactive, bulk] = &mut self.orders;
        let task = match interactive.is_plain() && bulk.len() == 0 {
            true => interactive.take_within(&mut self.flows, taker, run, now)?,
            false => self.take_of_all(taker, run, now)?,
        };
        if run.effort.is_some() {
            run.expected = match self.is_empty() {
                true => None,
                false => self.orders[run.class as usize].usual(&mut self.flows, run, now),
            };
        }
        Some(task)
    }

    /// Whether only interactive tasks wait, and only of tables that are not even suspected to ask for more than their
    /// share.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let [interactive, bulk] = &self.orders;
        interactive.is_plain() && !interactive.is_alone_over() && bulk.len() == 0
    }

    /// The next task where bulk tasks wait, or some of tables over their share.
    #[cold]
    fn take_of_all(&mut self, taker: Taker, run: &mut Run, now: Time) -> Option<T> {
        let fronts = self.fronts(now.as_nanos());
        let (class, front) = self.next(fronts)?;
        // A class that never goes before another takes no part of what flows over their quota get at least.
        let has_over = |class: &Class| {
            self.orders[*class as usize].has_over() && self.place(*class, 0) < u64::MAX
        };
        let classes = Class::ALL.iter().filter(|class| has_over(class)).count();
        let order = &mut self.orders[class as usize];
        match front.over {
            true => order.take_over(
                &mut self.flows,
                (front, classes.max(1) as u64),
                taker,
                run,
                now,
            ),
            false => order.take_within(&mut self.flows, taker, run, now),
        }
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

    fn fronts(&self, now: u64) -> [Option<Front>; 2] {
        [0, 1].map(|class: usize| self.orders[class].front(&self.flows, now))
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
