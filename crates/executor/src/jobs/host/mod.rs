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
struct Hosted<'a, K: ?Sized> {
    worker: &'a Worker,
    task: &'a Arc<K>,
}

/// Runs `code` on this worker with a context for `task`, within its span. Returns with its result what the context was
/// told.
#[inline(always)]
pub(super) fn in_context<K: Task + ?Sized, R>(
    worker: &Worker,
    task: &Arc<K>,
    code: impl FnOnce(&mut Context<'_>) -> R,
) -> (R, Tally) {
    let hosted = Hosted { worker, task };
    let mut context = host::context(&hosted);
    let result = task.header().span.within(|| code(&mut context));
    (result, host::tally(&context))
}

impl<K: Task + ?Sized> Host for Hosted<'_, K> {
    fn is_wanted(&self) -> bool {
        self.task.is_wanted()
    }

    fn domain(&self) -> DomainId {
        self.worker.place.domain
    }

    fn node(&self) -> u32 {
        self.worker.place.node
    }

    fn block(&self, code: &mut dyn FnMut()) -> Duration {
        self.worker.block(code)
    }

    fn helpers(&self) -> usize {
        self.worker.team(false) - 1
    }

    fn run_parts(&self, count: usize, code: Arc<Part>) -> Tally {
        let task = Arc::clone(self.task).share();
        parts::run(self.worker, task, self, (count, code))
    }
}
