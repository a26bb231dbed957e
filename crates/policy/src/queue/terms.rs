//! What a queue is told with a task besides its table, and how it follows the tasks that it hands out.

use std::time::{Duration, Instant};

use super::Class;
use crate::TableId;

/// On which terms a task waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// How urgent it is.
    pub class: Class,
    /// The table's weight, in `0.01..=100.0`.
    pub weight: f32,
    /// Tasks of the table that the queue may hold; `None`: as many as of any table.
    pub limit: Option<usize>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            class: Class::Interactive,
            weight: 1.0,
            limit: None,
        }
    }
}

/// A task that has been taken out of a queue.
pub(super) struct Taken<T> {
    pub(super) table: TableId,
    pub(super) task: T,
    /// How long it was taken to last, in nanoseconds, if its table is over its share.
    pub(super) charged: Option<u64>,
}

/// What became of it.
pub(super) struct Outcome {
    pub(super) table: TableId,
    pub(super) class: Class,
    pub(super) charged: Option<u64>,
    /// The nanoseconds that it took, unless it turned out to be dead or too late.
    pub(super) spent: Option<u64>,
}

/// What a worker runs of one queue: task after task of one table, and how long the present one takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    pub(super) table: Option<TableId>,
    class: Class,
    charged: Option<u64>,
    /// Tasks of the table that may follow.
    pub(super) left: u32,
    began: Option<Instant>,
    ended: Option<Instant>,
    /// How long the present task will take, if others wait for it and that is known.
    pub(super) expected: Option<Duration>,
}

impl Run {
    /// Says that a task has been taken at `now`. `length` is how many of one table may follow each other.
    pub(super) fn begin<T>(&mut self, taken: &Taken<T>, class: Class, length: u32, now: Instant) {
        self.left = match self.table == Some(taken.table) && self.left > 0 {
            true => self.left - 1,
            false => length.saturating_sub(1),
        };
        self.table = Some(taken.table);
        self.class = class;
        self.charged = taken.charged;
        self.began = Some(now);
    }

    /// Says that what the worker was running ended at `now`. A query that was cut ends with the last unit that its
    /// worker ran of it.
    pub fn tell(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// How long the present task will take, as far as is known, if others wait meanwhile.
    pub fn expected(&self) -> Option<Duration> {
        self.expected
    }

    /// What became of the task that was taken last; once.
    pub(super) fn outcome(&mut self) -> Option<Outcome> {
        let (began, ended) = (self.began.take()?, self.ended.take());
        let spent = ended.map(|ended| ended.saturating_duration_since(began));
        Some(Outcome {
            table: self.table?,
            class: self.class,
            charged: self.charged,
            spent: spent.map(|spent| spent.as_nanos() as u64),
        })
    }
}
