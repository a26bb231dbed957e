//! What a queue is told with a task besides its table, and how it follows the tasks that it hands out.

use std::time::{Duration, Instant};

use chiplet_policy::TableId;

use crate::class::Class;

/// On which terms a task waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    /// The table's weight, in `0.01..=100.0`.
    pub(crate) weight: f32,
    /// Tasks of the table that the queue may hold; `None`: as many as of any table.
    pub(crate) limit: Option<usize>,
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

/// What a worker runs of one queue: task after task of one table, and how long the present one takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    pub(super) table: Option<TableId>,
    class: Class,
    /// Tasks of the table that may follow.
    pub(super) left: u32,
    began: Option<Instant>,
    ended: Option<Instant>,
    /// How long the present task will take, if others wait for it and that is known.
    pub(super) expected: Option<Duration>,
}

impl Run {
    /// Says that a task has been taken at `now`. `length` is how many of one table may follow each other.
    pub(super) fn begin(&mut self, table: TableId, class: Class, length: u32, now: Instant) {
        self.left = match self.table == Some(table) && self.left > 0 {
            true => self.left - 1,
            false => length.saturating_sub(1),
        };
        self.table = Some(table);
        self.class = class;
        self.began = Some(now);
    }

    /// Says that what the worker was running ended at `now`. A query that was cut ends with the last unit that its
    /// worker ran of it.
    pub(crate) fn tell(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// How long the present task will take, as far as is known, if others wait meanwhile.
    pub(crate) fn expected(&self) -> Option<Duration> {
        self.expected
    }

    /// The table and class of the task that has ended, and the nanoseconds that it took; once.
    pub(super) fn spent(&mut self) -> Option<(TableId, Class, u64)> {
        let (began, ended) = (self.began.take(), self.ended.take());
        let spent = ended?.saturating_duration_since(began?);
        Some((self.table?, self.class, spent.as_nanos() as u64))
    }
}
