//! What a queue and a worker know of a task. The tasks themselves are in `jobs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::Rung;

use super::completion::contain;
use super::registry::EntryRef;
use super::worker::Worker;
use crate::class::Class;
use crate::counts::End;
use crate::error::Error;
use crate::sync::now;

/// What is known of a task before it runs.
pub(crate) struct Header {
    pub(crate) executor: u64,
    pub(crate) entry: EntryRef,
    pub(crate) class: Class,
    pub(crate) accepted: Instant,
    pub(crate) expires: Option<Instant>,
}

impl Header {
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|at| now >= at)
    }

    /// Whether the deadline has passed by now. Without one nobody asks what time it is.
    pub(crate) fn is_due(&self) -> bool {
        self.expires.is_some_and(|at| now() >= at)
    }

    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.accepted)
    }
}

/// A task as queues and workers see it.
pub(crate) trait Task: Send + Sync {
    fn header(&self) -> &Header;

    /// As how many accepted tasks it counts: the queries of a batch's part.
    fn weight(&self) -> u64 {
        1
    }

    /// Claims it for running, or says how it ended in the queue.
    fn begin(&self) -> Result<(), End>;

    /// Ends it if it has not started; says how it has ended, if it has.
    fn end_queued(&self, error: Error) -> Option<End>;

    /// Whether it has ended in the queue.
    fn is_ended(&self) -> bool;

    /// Runs it on this worker, which took it from `rung`; a split query may end later and elsewhere.
    fn execute(self: Arc<Self>, worker: &mut Worker, started: Instant, rung: Rung);
}

/// A task that has been cut: any worker may run its units.
pub(crate) trait Divided: Send + Sync {
    /// Runs one of its units, once each.
    fn run_unit(self: Arc<Self>, unit: usize, worker: &mut Worker, rung: Rung);
}

/// One unit of a task that has been cut.
pub(crate) struct Unit {
    pub(crate) task: Arc<dyn Divided>,
    pub(crate) index: usize,
}

impl Unit {
    pub(crate) fn run(self, worker: &mut Worker, rung: Rung) {
        self.task.run_unit(self.index, worker, rung);
    }
}

/// Takes a task through its life on `worker`.
pub(crate) fn run(task: Arc<dyn Task>, worker: &mut Worker, rung: Rung) {
    let table = task.header().entry.id;
    match task.begin() {
        Err(end) => worker.stats().found_ended(table, end, task.weight()),
        Ok(()) => {
            worker.stats().started(table, rung, task.weight());
            let started = now();
            Arc::clone(&task).execute(worker, started, rung);
        }
    }
    // The closure's captures may be dropped here, and that is the caller's code.
    contain(|| drop(task));
}
