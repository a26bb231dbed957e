//! A closure as a task.

use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Class, Rung, TableId};

use super::{guarded, pass_over, settled};
use crate::context::{Context, Wanted};
use crate::counts::End;
use crate::engine::completion::{Completion, contain};
use crate::engine::task::{Header, Task};
use crate::engine::timer::Expire;
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::report::Answer;
use crate::sync::{Mutex, now};
use crate::ticket::Outcome;

/// A closure on a table's home.
pub(crate) struct ClosureTask<F, T> {
    pub(crate) header: Header,
    pub(crate) code: Mutex<Option<F>>,
    pub(crate) completion: Completion<Answer<T>>,
}

impl<F, T> ClosureTask<F, T> {
    pub(crate) fn new(header: Header, code: F) -> Self {
        Self {
            header,
            code: Mutex::new(Some(code)),
            completion: Completion::new(),
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
        self.completion.begin()
    }

    fn end_queued(&self, error: Error) -> Option<End> {
        self.completion.end_queued(error)
    }

    fn is_ended(&self) -> bool {
        self.completion.is_ended()
    }

    fn execute(self: Arc<Self>, worker: &mut Worker, started: Instant, rung: Rung) {
        let code = self.code.lock().take();
        if worker.is_too_late(&self.header, started) {
            contain(|| drop(code));
            return pass_over(&self.header, &self.completion, worker, started);
        }
        let (result, used) = worker.in_context(&self, |_, context| match code {
            Some(code) => guarded(|| Ok(code(context))),
            None => Err(Error::Cancelled),
        });
        let ended = now();
        worker.tell(ended, &used);
        let service = ended.saturating_duration_since(started);
        let busy = used.busy(service);
        // A closure that reports nothing still counts as traffic, at a nominal byte a nanosecond (1 GB/s per
        // core, what a core pulls from memory in a scattered search), so that placement sees it.
        let bytes = match used.bytes {
            0 => (busy + used.helped).as_nanos() as u64,
            bytes => bytes,
        };
        let end = settled(&self.header, &self.completion, &result);
        let report = worker.report(rung, self.header.waited(started), service);
        {
            let mut stats = worker.stats();
            stats.ended(&self.header.entry, end, report.wait, service);
            stats.worked(self.header.entry.id, bytes, busy);
        }
        self.completion.end(result.map(|answer| (answer, report)));
    }
}

impl<F, T> Expire for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn expire(&self) {
        self.completion.expire();
    }
}

impl<F, T> Wanted for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn is_wanted(&self) -> bool {
        !self.header.is_due() && self.completion.stop_reason().is_none()
    }

    fn table_id(&self) -> TableId {
        self.header.entry.id
    }

    fn came(&self) -> (Class, Instant) {
        (self.header.class, self.header.accepted)
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

    fn completion(&self) -> &Completion<Answer<T>> {
        &self.completion
    }
}
