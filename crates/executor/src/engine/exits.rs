//! Which workers and which threads have not ended yet; shutdown waits for them here.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::timer::Timer;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Step, left_out, now};

/// Counts workers out; shutdown waits for them here. The last one stops the timer: not before, as a task that outlives
/// the shutdown still has its deadline.
pub(crate) struct Exits {
    left: Mutex<usize>,
    changed: Condvar,
    timer: Arc<Timer>,
}

impl Exits {
    pub(super) fn new(workers: usize, timer: Arc<Timer>) -> Self {
        Self {
            left: Mutex::new(workers),
            changed: Condvar::new(),
            timer,
        }
    }

    /// Counts one more in. The caller is a worker, so not all have left.
    pub(super) fn enter(&self) {
        *self.left.lock() += 1;
    }

    /// Counts one worker out when the guard goes.
    pub(crate) fn leave_on_drop(&self) -> impl Drop + '_ {
        struct Leaves<'a>(&'a Exits);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                let left = {
                    let mut left = self.0.left.lock();
                    *left -= 1;
                    *left
                };
                self.0.changed.notify_all();
                if left == 0 && !left_out(Step::LastStopsTimer) {
                    self.0.timer.stop();
                }
            }
        }
        Leaves(self)
    }

    /// Waits until all workers but `but` have left, at most until `deadline`. Returns how many have not.
    pub(crate) fn wait_until(&self, deadline: Instant, but: usize) -> usize {
        let mut left = self.left.lock();
        while *left > but && now() < deadline {
            left = self.changed.wait_until(left, deadline);
        }
        *left
    }
}

/// All threads of an executor: workers, their substitutes, the timer's, the balancer's, the one of the timed look. Each
/// is counted out when it has done the last that may take the caller's time, so joining those that are left does not
/// wait for long.
pub(crate) struct Threads {
    /// Bytes of each one's stack, if not the usual.
    stack_size: Option<usize>,
    running: Mutex<usize>,
    ended: Condvar,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(super) fn new(stack_size: Option<usize>) -> Self {
        Self {
            stack_size,
            running: Mutex::default(),
            ended: Condvar::new(),
            handles: Mutex::default(),
        }
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// The system has refused one more.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        struct Leaves(Arc<Threads>);
        impl Drop for Leaves {
            fn drop(&mut self) {
                *self.0.running.lock() -= 1;
                self.0.ended.notify_all();
            }
        }
        *self.running.lock() += 1;
        // Counts out too if there is no thread, and after the body with all that it owns if there is one.
        let leaves = Leaves(Arc::clone(self));
        let counted = move || {
            let _leaves = leaves;
            body();
        };
        let mut builder = thread::Builder::new().name(name);
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        // A thread finds its own handle there.
        let mut handles = self.handles.lock();
        handles.push(builder.spawn(counted)?);
        Ok(())
    }

    /// Starts a thread of the timer, which starts others when it has to.
    ///
    /// # Errors
    /// As [`Threads::spawn`].
    pub(crate) fn start_timer(self: &Arc<Self>, name: String, timer: Arc<Timer>) -> io::Result<()> {
        let (threads, its_name) = (Arc::clone(self), name.clone());
        let body = move || {
            let another = || {
                let started = threads.start_timer(name.clone(), Arc::clone(&timer));
                started.is_ok()
            };
            if timer.run(another) {
                let this = thread::current().id();
                threads
                    .handles
                    .lock()
                    .retain(|handle| handle.thread().id() != this);
            }
        };
        self.spawn(its_name, body)
    }

    /// Waits until all threads but the calling one have ended, at most until `deadline`. Returns how many have not;
    /// they end by themselves.
    pub(crate) fn join_until(&self, deadline: Instant) -> usize {
        // From the remap callback this is the balancer's own thread, from a waker one of the timer's: it ends after
        // that.
        let this = thread::current().id();
        let is_other = |handle: &JoinHandle<()>| handle.thread().id() != this;
        let own = self
            .handles
            .lock()
            .iter()
            .filter(|handle| !is_other(handle))
            .count();
        {
            let mut running = self.running.lock();
            while *running > own && now() < deadline {
                running = self.ended.wait_until(running, deadline);
            }
            if *running > own {
                return *running - own;
            }
        }
        let others: Vec<_> = self
            .handles
            .lock()
            .extract_if(.., |handle| is_other(handle))
            .collect();
        for thread in others {
            // Threads contain panics; one that escapes anyway has been printed.
            let _ = thread.join();
        }
        0
    }
}
