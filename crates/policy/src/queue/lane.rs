//! One table's tasks in a domain's queue, and what is known of how long they take.

use std::collections::{TryReserveError, VecDeque};

use super::service::Service;
use super::{Effort, Intake, Terms};
use crate::TableId;

/// An emptied lane gives back its buffer above this many slots.
const LANE_KEEPS: usize = 16;

/// Buffers given back that wait for the next lane that grows, so that a bursty table does not allocate anew in
/// every burst; about as many lanes are long at once as a domain has cores.
const SPARE_BUFFERS: usize = 8;

/// A waiting task. Times are nanoseconds since the hub was made.
struct Waiting<T> {
    task: T,
    /// When it was accepted.
    at: u64,
    /// Queries that it answers.
    queries: u32,
    effort: Option<Effort>,
}

/// A task out of a lane.
pub(super) struct Popped<T> {
    pub(super) task: T,
    pub(super) at: u64,
    pub(super) queries: u32,
    pub(super) effort: Option<Effort>,
}

impl<T> Waiting<T> {
    fn popped(self) -> Popped<T> {
        Popped {
            task: self.task,
            at: self.at,
            queries: self.queries,
            effort: self.effort,
        }
    }
}

/// What the queue keeps for one table.
pub(super) struct Lane<T> {
    /// `None` once the table is forgotten.
    pub(super) table: Option<TableId>,
    tasks: VecDeque<Waiting<T>>,
    /// The lane's own short buffer, while `tasks` is a long one from [`Buffers`].
    short: VecDeque<Waiting<T>>,
    /// Queries of the waiting tasks.
    queries: u64,
    pub(super) intake: Intake,
    pub(super) service: Service,
    /// The worker of the domain that last ran this table.
    pub(super) last: Option<usize>,
    /// When the task that came last would have come, had its table kept to its share.
    newest: u64,
    /// The table's weight, as of the last task that came.
    pub(super) weight: f32,
    /// Whether it has asked for more than its share since it was empty.
    pub(super) over: bool,
    /// Its place among lanes over their share.
    pub(super) tag: u64,
    /// How much longer its tasks have taken than they were charged, in nanoseconds; counted while it is over its share.
    pub(super) uncharged: i64,
    /// Whether it stands in the order's heap of those.
    pub(super) in_over: bool,
}

impl<T> Lane<T> {
    pub(super) fn of(table: TableId) -> Self {
        Self {
            table: Some(table),
            tasks: VecDeque::new(),
            short: VecDeque::new(),
            queries: 0,
            intake: Intake::default(),
            service: Service::default(),
            last: None,
            newest: 0,
            weight: 1.0,
            over: false,
            tag: 0,
            uncharged: 0,
            in_over: false,
        }
    }
}

/// Empty buffers of more than [`LANE_KEEPS`] slots.
pub(super) struct Buffers<T>(Vec<VecDeque<Waiting<T>>>);

impl<T> Buffers<T> {
    pub(super) fn new() -> Self {
        // All at once: a worker that gives a buffer back must not need memory for that.
        Self(Vec::with_capacity(SPARE_BUFFERS))
    }
}

impl<T> Lane<T> {
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Queries of its waiting tasks.
    pub(super) fn queries(&self) -> u64 {
        self.queries
    }

    /// When the task that is next in this lane was accepted.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u64> {
        self.tasks.front().map(|waiting| waiting.at)
    }

    /// When its waiting tasks were accepted, the oldest first.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = u64> {
        self.tasks.iter().map(|waiting| waiting.at)
    }

    /// How far a task that takes `nanos` moves the lane's tag on.
    pub(super) fn step(&self, nanos: u64, workers: u64) -> u64 {
        let time = nanos as f64 / workers as f64;
        ((time / f64::from(self.weight)) as u64).max(1)
    }

    /// What the next task is charged: what it is `expected` to take, and what earlier ones were charged too little. If
    /// those were charged too much, as tasks are that turn out to be dead, it is charged less.
    pub(super) fn charge(&mut self, expected: u64) -> u64 {
        let due = expected.saturating_add_signed(self.uncharged);
        self.uncharged += expected as i64 - due as i64;
        due
    }

    /// Makes sure that [`Lane::append`] of so many tasks needs no memory.
    pub(super) fn make_room(
        &mut self,
        tasks: usize,
        buffers: &mut Buffers<T>,
    ) -> Result<(), TryReserveError> {
        self.lengthen(buffers);
        self.tasks.try_reserve(tasks)
    }

    /// Adds a task that was accepted at `at`.
    pub(super) fn append(&mut self, task: T, terms: &Terms, at: u64) {
        let Terms {
            queries, effort, ..
        } = *terms;
        self.queries += u64::from(queries);
        let waiting = Waiting {
            task,
            at,
            queries,
            effort,
        };
        match self.tasks.back() {
            // It has come from another group, or its submitter was held up on its way here.
            Some(last) if last.at > at => {
                let place = self.tasks.partition_point(|other| other.at <= at);
                self.tasks.insert(place, waiting);
            }
            _ => self.tasks.push_back(waiting),
        }
    }

    /// Takes note of a task that comes at `at`, accepted or not: by how much it is too early, if the table's tasks come
    /// `apart` from each other where it asks for just its share. It counts as `lead` too early at most.
    pub(super) fn ask(&mut self, at: u64, apart: u64, lead: u64) -> u64 {
        self.newest = self.newest.saturating_add(apart).min(at + lead).max(at);
        self.newest - at
    }

    /// The next task is not too early for those that came before it, if it comes at `at`.
    pub(super) fn catch_up(&mut self, at: u64) {
        self.newest = self.newest.min(at);
    }

    /// If the lane is full, goes on in a longer buffer if there is one to spare.
    pub(super) fn lengthen(&mut self, buffers: &mut Buffers<T>) {
        let slots = self.tasks.capacity();
        if self.tasks.len() == slots
            && slots >= 4
            && let Some(mut buffer) = buffers.0.pop_if(|buffer| buffer.capacity() > slots)
        {
            buffer.append(&mut self.tasks);
            self.short = std::mem::replace(&mut self.tasks, buffer);
        }
    }

    /// Its table is forgotten: nothing waits or will.
    pub(super) fn forget(&mut self) {
        self.table = None;
        (self.tasks, self.short) = Default::default();
    }

    /// The next task.
    pub(super) fn pop(&mut self, buffers: &mut Buffers<T>) -> Option<Popped<T>> {
        let waiting = self.tasks.pop_front()?;
        self.queries -= u64::from(waiting.queries);
        if self.tasks.is_empty() && self.tasks.capacity() > LANE_KEEPS {
            let short = std::mem::take(&mut self.short);
            let buffer = std::mem::replace(&mut self.tasks, short);
            if buffers.0.len() < SPARE_BUFFERS {
                buffers.0.push(buffer);
            }
        }
        Some(waiting.popped())
    }

    /// Takes those of its tasks from `first` to `end` out for which `dead` holds. Returns where the others end.
    pub(super) fn extract(
        &mut self,
        first: usize,
        end: usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(Popped<T>),
    ) -> usize {
        let mut living = first;
        for at in first..end {
            if !dead(&self.tasks[at].task) {
                self.tasks.swap(living, at);
                living += 1;
            }
        }
        for waiting in self.tasks.drain(living..end) {
            self.queries -= u64::from(waiting.queries);
            out(waiting.popped());
        }
        living
    }
}
