//! Threads that take tasks in place of workers whose tasks block. Each is started when it is first needed, and then
//! stands by until it is needed again.

use std::io;
use std::sync::Arc;

use chiplet_topology::pin::Thread;

use super::Engine;
use super::task::Invitation;
use super::worker::Worker;
use crate::scheduler::Local;
use crate::sync::Mutex;

#[derive(Default)]
pub(crate) struct Substitutes {
    /// Prefix of the threads' names.
    name: String,
    /// What those need that have not been started.
    locals: Mutex<Vec<Local<Invitation>>>,
    /// Those that have been, each with the worker that it stands in for.
    threads: Mutex<Vec<(usize, Thread)>>,
}

impl Substitutes {
    pub(crate) fn new(name: String, locals: Vec<Local<Invitation>>) -> Self {
        Self {
            name,
            locals: Mutex::new(locals),
            ..Self::default()
        }
    }

    /// What the names of the executor's threads begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.name
    }

    /// Starts `substitute`. The calling worker's cpus are its own: the system hands them down to a new thread.
    ///
    /// # Errors
    /// The system has refused one more thread.
    pub(super) fn start(&self, engine: &Arc<Engine>, substitute: usize) -> io::Result<()> {
        let mut locals = self.locals.lock();
        let waiting = locals.iter().position(|local| local.worker == substitute);
        let at = waiting.expect("the queue names a substitute to be started once");
        let local = locals.swap_remove(at);
        drop(locals);
        let domain = engine.hub.crew.domain_of(local.group);
        let name = format!("{}-{}-{substitute}", self.name, domain.0);
        // A closure that cannot be run is dropped with all that it owns. So the thread takes its part from here, where
        // it stays if there is no thread.
        let slot = Arc::new(Mutex::new(None));
        let (given, shared) = (Arc::clone(&slot), Arc::clone(engine));
        let body = move || {
            let local = given.lock().take();
            if let Some(local) = local {
                shared.substitutes.note(&shared, substitute);
                Worker::new(shared, local).run();
            }
        };
        engine.exits.enter();
        *slot.lock() = Some(local);
        match engine.threads.spawn(name, body) {
            Ok(()) => Ok(()),
            Err(error) => {
                drop(engine.exits.leave_on_drop());
                self.locals.lock().extend(slot.lock().take());
                Err(error)
            }
        }
    }

    /// The calling thread is `substitute`.
    fn note(&self, engine: &Engine, substitute: usize) {
        if let Some(thread) = Thread::current() {
            let worker = engine.hub.crew.stands_in_for(substitute);
            self.threads.lock().push((worker, thread));
        }
    }

    /// The threads that stand in for `worker`.
    pub(crate) fn of(&self, worker: usize) -> Vec<Thread> {
        let threads = self.threads.lock();
        let its = threads.iter().filter(|(other, _)| *other == worker);
        its.map(|(_, thread)| *thread).collect()
    }
}
