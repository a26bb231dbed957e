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
    task: &'a dyn Held,
}

/// A reference to a task, of which code that is shared out takes another one.
pub(super) trait Held {
    fn is_wanted(&self) -> bool;
    fn share(&self) -> Arc<dyn Task>;
}

impl<K: Task + 'static> Held for Arc<K> {
    fn is_wanted(&self) -> bool {
        Task::is_wanted(&**self)
    }

    fn share(&self) -> Arc<dyn Task> {
        Arc::clone(self) as _
    }
}

impl Held for Arc<dyn Task> {
    fn is_wanted(&self) -> bool {
        Task::is_wanted(&**self)
    }

    fn share(&self) -> Arc<dyn Task> {
        Arc::clone(self)
    }
}

/// Runs `code` on this worker with a context for `task`, within its span. Returns with its result what the context was
/// told.
pub(super) fn in_context<K: Task + ?Sized, R>(
    worker: &Worker,
    task: &Arc<K>,
    code: impl FnOnce(&mut Context<'_>) -> R,
) -> (R, Tally)
where
    Arc<K>: Held,
{
    let hosted = Hosted { worker, task };
    let mut context = host::context(&hosted);
    let result = task.header().span.within(|| code(&mut context));
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
