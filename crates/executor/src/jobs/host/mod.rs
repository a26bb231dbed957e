//! The worker as the code of its task sees it, through the context.

mod parts;

use std::sync::Arc;
use std::time::Duration;

use chiplet_table::Context;
use chiplet_table::host::{self, Host, Part, Tally};
use chiplet_topology::DomainId;

use crate::engine::task::Task;
use crate::engine::worker::Worker;

/// A worker and the task that it runs.
struct Hosted<'a> {
    worker: &'a Worker,
    task: Arc<dyn Task>,
}

/// Runs `code` on this worker with a context for `task`, within its span. Returns with its result what the context was
/// told.
pub(super) fn in_context<R>(
    worker: &Worker,
    task: Arc<dyn Task>,
    code: impl FnOnce(&mut Context<'_>) -> R,
) -> (R, Tally) {
    let hosted = Hosted { worker, task };
    let mut context = host::context(&hosted);
    let span = &hosted.task.header().span;
    let result = span.within(|| code(&mut context));
    (result, host::tally(&context))
}

impl Host for Hosted<'_> {
    fn is_wanted(&self) -> bool {
        self.task.is_wanted()
    }

    fn domain(&self) -> DomainId {
        self.worker.place().domain
    }

    fn node(&self) -> u32 {
        self.worker.place().node
    }

    fn block(&self, code: &mut dyn FnMut()) -> Duration {
        self.worker.block(code)
    }

    fn helpers(&self) -> usize {
        self.worker.team(false) - 1
    }

    fn run_parts(&self, count: usize, code: Arc<Part>) -> Tally {
        parts::run(self, count, code)
    }
}
