//! Threads that take tasks in place of workers whose tasks block. Each is started when it is first needed, and then
//! stands by until it is needed again.

use std::sync::Arc;

use chiplet_topology::pin::Thread;

use super::Engine;
use super::worker::Worker;
use crate::error::BuildError;
use crate::sync::Mutex;

/// Those that have been started, each with the worker that it stands in for.
#[derive(Default)]
pub(crate) struct Substitutes(Mutex<Vec<(usize, Thread)>>);

impl Substitutes {
    /// Starts `substitute`. The calling worker's cpus are its own: the system hands them down to a new thread.
    ///
    /// # Errors
    /// The system has refused one more thread.
    pub(super) fn start(engine: &Arc<Engine>, substitute: usize) -> Result<(), BuildError> {
        let local = engine.scheduler.local(substitute);
        let domain = engine.scheduler.layout.domain_of(local.group);
        let shared = Arc::clone(engine);
        engine.threads.spawn_worker(domain, substitute, move || {
            if let Some(thread) = Thread::current() {
                let worker = shared.scheduler.layout.stands_in_for(substitute);
                shared.substitutes.0.lock().push((worker, thread));
            }
            Worker::new(shared, local).run();
        })
    }

    /// The threads that stand in for `worker`.
    pub(crate) fn of(&self, worker: usize) -> Vec<Thread> {
        let threads = self.0.lock();
        let its = threads.iter().filter(|(other, _)| *other == worker);
        its.map(|(_, thread)| *thread).collect()
    }
}
