//! A closure as a task.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::{StealLevel, Time};
use chiplet_table::Context;
use chiplet_table::host::contain;

use super::guarded;
use super::host::in_context;
use crate::engine::live::{Live, Run, Work};
use crate::engine::task::Header;
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::sync::Slot;

/// A closure on a table's home.
pub(crate) struct Closure<F>(Slot<F>);

pub(crate) type ClosureTask<F, T> = Live<T, Closure<F>>;

pub(crate) fn task<F, T>(header: Header, code: F) -> ClosureTask<F, T> {
    Live::new(header, Closure(Slot::new(Some(code))))
}

impl<F> Closure<F> {
    /// The closure, if it has not been run.
    pub(crate) fn take(&self) -> Option<F> {
        self.0.take()
    }
}

impl<F: Send, T> Work<T> for Closure<F> {}

impl<F, T> Run<T> for Closure<F>
where
    F: FnOnce(&mut Context) -> T + Send + 'static,
    T: Send + 'static,
{
    fn run(task: &Arc<Live<T, Self>>, worker: &mut Worker, started: Time, level: StealLevel) {
        let code = task.work.take();
        if worker.is_too_late(&task.header, started) {
            contain(|| drop(code));
            return task.pass_over(worker, started);
        }
        let (result, used) = in_context(worker, task, |context| match code {
            Some(code) => guarded(|| Ok(code(context))),
            None => Err(Error::Cancelled),
        });
        let ended = worker.now();
        worker.end_task(ended, &used);
        let record = worker.report(level, [task.header.accepted, started, ended]);
        let nanos = |time: Duration| time.as_nanos() as u64;
        let busy = record.service.saturating_sub(nanos(used.blocked));
        // A closure that reports nothing still counts as traffic, at a nominal byte a nanosecond (1 GB/s per
        // core, what a core pulls from memory in a scattered search), so that placement sees it.
        let bytes = match used.bytes {
            0 => busy + nanos(used.helped),
            bytes => bytes,
        };
        task.end(worker, record, (bytes, busy), result);
    }
}
