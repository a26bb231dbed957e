//! What a worker runs: the parts every task has, and a task made of a closure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::Rung;

use crate::cell::{Cell, contain, end_of};
use crate::context::{Context, Wanted};
use crate::counts::End;
use crate::error::Error;
use crate::registry::TableEntry;
use crate::sync::{Mutex, now};
use crate::ticket::Outcome;
use crate::timer::Expire;
use crate::worker::Worker;

/// What is known of a task before it runs.
pub(crate) struct Header {
    pub(crate) executor: u64,
    pub(crate) entry: Arc<TableEntry>,
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

/// How a task that has run into `result` is to be counted. A ticket may be told at any moment that its deadline has
/// passed, so this is settled first; without a deadline there is nothing to settle, and no lock to take.
pub(crate) fn settled<T>(header: &Header, cell: &Cell<T>, result: &Result<T, Error>) -> End {
    let end = end_of(result);
    match header.expires {
        Some(_) => cell.settle(end),
        None => end,
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

    /// Runs it on this worker; a split query may end later and elsewhere.
    fn execute(self: Arc<Self>, worker: &mut Worker, started: Instant);
}

/// Takes a task through its life on `worker`.
pub(crate) fn run(task: Arc<dyn Task>, worker: &mut Worker, rung: Rung) {
    let table = task.header().entry.id;
    match task.begin() {
        Err(end) => worker.page().found_ended(table, end, task.weight()),
        Ok(()) => {
            worker.page().started(table, rung, task.weight());
            let started = now();
            Arc::clone(&task).execute(worker, started);
        }
    }
    // The closure's captures may be dropped here, and that is the caller's code.
    contain(|| drop(task));
}

/// The text of a panic.
pub(crate) fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a payload that is not text".to_owned()
    };
    contain(|| drop(payload));
    text
}

/// Runs the caller's code; a panic becomes an error.
pub(crate) fn guarded<T>(code: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(code))
        .unwrap_or_else(|payload| Err(Error::Panicked(panic_message(payload))))
}

/// A closure on a table's home.
pub(crate) struct ClosureTask<F, T> {
    pub(crate) header: Header,
    pub(crate) code: Mutex<Option<F>>,
    pub(crate) cell: Cell<T>,
}

impl<F, T> ClosureTask<F, T> {
    pub(crate) fn new(header: Header, code: F) -> Self {
        Self {
            header,
            code: Mutex::new(Some(code)),
            cell: Cell::new(),
        }
    }
}

impl<F, T> Task for ClosureTask<F, T>
where
    F: FnOnce(&mut Context) -> T + Send + 'static,
    T: Send + 'static,
{
    fn header(&self) -> &Header {
        &self.header
    }

    fn begin(&self) -> Result<(), End> {
        self.cell.begin()
    }

    fn end_queued(&self, error: Error) -> Option<End> {
        self.cell.end_queued(error)
    }

    fn is_ended(&self) -> bool {
        self.cell.is_ended()
    }

    fn execute(self: Arc<Self>, worker: &mut Worker, started: Instant) {
        let code = self.code.lock().take();
        let (result, bytes) = worker.in_context(&*self, |_, context| match code {
            Some(code) if self.header.is_expired(started) => {
                contain(|| drop(code));
                Err(Error::Expired)
            }
            Some(code) => guarded(|| Ok(code(context))),
            None => Err(Error::Cancelled),
        });
        let ended = now();
        worker.tell(ended);
        let busy = ended.saturating_duration_since(started);
        // A closure that reports nothing still counts as traffic, at a nominal byte a nanosecond (1 GB/s per
        // core, what a core pulls from memory in a scattered search), so that placement sees it.
        let bytes = match bytes {
            0 => busy.as_nanos() as u64,
            bytes => bytes,
        };
        let end = settled(&self.header, &self.cell, &result);
        {
            let mut page = worker.page();
            page.ended(&self.header.entry, end, self.header.waited(started), busy);
            page.worked(self.header.entry.id, bytes, busy);
        }
        self.cell.end(result);
    }
}

impl<F, T> Expire for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn expire(&self) {
        self.cell.expire();
    }
}

impl<F, T> Wanted for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn is_wanted(&self) -> bool {
        !self.header.is_due() && self.cell.stop_reason().is_none()
    }
}

impl<F, T> Outcome<T> for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn header(&self) -> &Header {
        &self.header
    }

    fn cell(&self) -> &Cell<T> {
        &self.cell
    }
}
