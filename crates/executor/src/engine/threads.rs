//! Which workers and which threads have not ended yet; shutdown waits for them here.

use std::sync::Arc;
use std::time::Instant;

use chiplet_topology::DomainId;

use super::deadline::Timer;
use crate::error::BuildError;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Step, left_out, now};

/// How many threads have not ended; shutdown waits for them here.
#[derive(Default)]
pub(crate) struct Left {
    count: Mutex<usize>,
    changed: Condvar,
    /// Stopped by the last.
    timer: Option<Arc<Timer>>,
}

impl Left {
    /// Waits until all but `but` have left, at most until `deadline`. Returns how many have not.
    pub(crate) fn wait_until(&self, deadline: Instant, but: usize) -> usize {
        let mut count = self.count.lock();
        while *count > but && now() < deadline {
            count = self.changed.wait_until(count, deadline);
        }
        *count
    }

    /// Counts one more.
    fn enter(self: &Arc<Self>) -> Counted {
        *self.count.lock() += 1;
        Counted(Arc::clone(self))
    }
}

/// A thread is counted while this is there.
struct Counted(Arc<Left>);

impl Drop for Counted {
    fn drop(&mut self) {
        let left = {
            let mut count = self.0.count.lock();
            *count -= 1;
            *count
        };
        self.0.changed.notify_all();
        if let Some(timer) = &self.0.timer
            && left == 0
            && !left_out(Step::LastStopsTimer)
        {
            timer.stop();
        }
    }
}

/// All threads of an executor: workers, their substitutes, the timer's, the balancer's, the one of the timed look. Each
/// is counted out when it has done the last that may take the caller's time, so joining those that are left does not
/// wait for long.
pub(crate) struct Threads {
    /// What their names begin with.
    pub(crate) prefix: String,
    /// Bytes of each one's stack, if not the usual.
    stack_size: Option<usize>,
    timer: Arc<Timer>,
    all: Arc<Left>,
    /// Workers and substitutes. The last one stops the timer: not before, as a task that outlives the shutdown still
    /// has its deadline.
    pub(crate) workers: Arc<Left>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(super) fn new(prefix: String, stack_size: Option<usize>, timer: Arc<Timer>) -> Self {
        Self {
            prefix,
            stack_size,
            all: Arc::default(),
            workers: Arc::new(Left {
                timer: Some(Arc::clone(&timer)),
                ..Left::default()
            }),
            timer,
            handles: Mutex::default(),
        }
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// The system has refused one more.
    pub(crate) fn spawn(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), BuildError> {
        // Counts out too if there is no thread, and after the body with all that it owns if there is one.
        let counted = self.all.enter();
        let body = move || {
            let _counted = counted;
            body();
        };
        let name = format!("{}-{name}", self.prefix);
        let mut builder = thread::Builder::new().name(name.clone());
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        // A thread finds its own handle there.
        let mut handles = self.handles.lock();
        let started = builder.spawn(body);
        handles.push(started.map_err(|source| BuildError::Spawn { name, source })?);
        Ok(())
    }

    /// Starts a worker or a substitute of `domain`. It is counted out even if a panic escapes, so that shutdown does
    /// not wait for a thread that is gone.
    ///
    /// # Errors
    /// As [`Threads::spawn`].
    pub(crate) fn spawn_worker(
        &self,
        domain: DomainId,
        worker: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), BuildError> {
        let counted = self.workers.enter();
        self.spawn(&format!("{}-{worker}", domain.0), move || {
            let _counted = counted;
            body();
        })
    }

    /// Starts a thread of the timer, which starts others when it has to.
    ///
    /// # Errors
    /// As [`Threads::spawn`].
    pub(crate) fn start_timer(self: &Arc<Self>) -> Result<(), BuildError> {
        let threads = Arc::clone(self);
        self.spawn("timer", move || {
            if threads.timer.run(|| threads.start_timer().is_ok()) {
                let this = thread::current().id();
                let mut handles = threads.handles.lock();
                handles.retain(|handle| handle.thread().id() != this);
            }
        })
    }

    /// Waits until all threads but the calling one have ended, at most until `deadline`. Returns how many have not;
    /// they end by themselves.
    pub(crate) fn join_until(&self, deadline: Instant) -> usize {
        // From the remap callback this is the balancer's own thread, from a waker one of the timer's: it ends after
        // that.
        let this = thread::current().id();
        let is_other = |handle: &JoinHandle<()>| handle.thread().id() != this;
        let own = usize::from(!self.handles.lock().iter().all(is_other));
        let left = self.all.wait_until(deadline, own) - own;
        if left == 0 {
            let is_other = |handle: &mut JoinHandle<()>| is_other(handle);
            let others: Vec<_> = self.handles.lock().extract_if(.., is_other).collect();
            for thread in others {
                // Threads contain panics; one that escapes anyway has been printed.
                let _ = thread.join();
            }
        }
        left
    }
}
