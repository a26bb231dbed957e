//! A log of tasks that came to an executor, from which their way can be decided again, and what was decided.

use std::time::Duration;

use crate::{StealLevel, Time};

/// Tasks in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Each table's home: the place of its group.
    pub homes: Vec<usize>,
    /// The tasks.
    pub arrivals: Vec<Arrival>,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it came.
    pub at: Time,
    /// Its table's place in [`Log::homes`].
    pub table: usize,
    /// How long it took a worker.
    pub took: Duration,
}

/// A task was begun, or it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A worker began it.
    Begun {
        /// The task's place in [`Log::arrivals`].
        task: usize,
        /// When.
        at: Time,
        /// Which worker.
        worker: usize,
        /// Where the worker found it.
        level: StealLevel,
    },
    /// No queue had a place for it.
    Refused {
        /// The task's place in [`Log::arrivals`].
        task: usize,
    },
}

/// What happens at a time in a replay. Of what happens at the same time this order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task comes.
    Arrive(usize),
    /// A worker has ended its task, or is awake.
    Work(usize),
    /// The timed look.
    Look,
}

/// In a replay, the time from a worker's wake-up until it looks for work. Each worker's number is added in nanoseconds,
/// so that two that are woken at once come one after the other.
pub fn wake_time(worker: usize) -> Duration {
    Duration::from_nanos(5_000 + worker as u64)
}
