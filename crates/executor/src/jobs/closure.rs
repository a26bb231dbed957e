//! A closure as a task.

use std::sync::Arc;

use chiplet_policy::{StealLevel, Time};
use chiplet_table::Context;
use chiplet_table::host::contain;

use super::guarded;
use super::host::in_context;
use crate::engine::completion::Live;
use crate::engine::live::{Run, Work};
use crate::engine::worker::Worker;
use crate::error::Error;

/// A closure on a table's home.
pub(crate) struct Closure;

pub(crate) type ClosureTask<F, T> = Live<T, Closure, F>;

impl<T> Work<T> for Closure {}

impl<F, T> Run<T, F> for Closure
where
    F: FnOnce(&mut Context) -> T + Send + 'static,
    T: Send + 'static,
{
    #[inline(always)]
    fn run(task: &Arc<ClosureTask<F, T>>, worker: &mut Worker, started: Time, level: StealLevel) {
        let code = task.take_code();
        if worker.is_too_late(&task.header, started) {
            contain(|| drop(code));
            return task.pass_over(worker, started);
        }
        let (result, used) = in_context(worker, task, |context| {
            guarded(|| code.map_or(Err(Error::Cancelled), |code| Ok(code(context))))
        });
        let ended = worker.now();
        worker.end_task(ended, &used);
        let record = worker.report(level, [task.header.accepted, started, ended]);
        let (mut busy, mut of_all) = (record.service, record.service);
        if !(used.blocked.is_zero() && used.helped.is_zero()) {
            busy = used.busy(ended.since(started)).as_nanos() as u64;
            of_all = busy + used.helped.as_nanos() as u64;
        }
        // A closure that reports nothing still counts as traffic, at a nominal byte a nanosecond (1 GB/s per
        // core, what a core pulls from memory in a scattered search), so that placement sees it.
        let bytes = match used.bytes {
            0 => of_all,
            bytes => bytes,
        };
        task.end(worker, record, (bytes, busy), result);
    }
}
