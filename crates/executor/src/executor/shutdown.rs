//! Ending an executor: on the calling thread, or on one of its own while the caller awaits it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use chiplet_table::host::contain;

use super::Executor;
use crate::engine::{Engine, current};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, Step, left_out, now, thread};

/// How long dropping an executor waits for running tasks.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// What becomes of queued tasks at shutdown. Running ones always finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Run what is queued, for at most this long; then abandon the rest.
    Drain(Duration),
    /// End what is queued with [`Error::ShutDown`](crate::Error::ShutDown) and wait at most this long for what is
    /// running.
    Abandon(Duration),
}

/// What a shutdown did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Queued tasks that were ended with [`Error::ShutDown`](crate::Error::ShutDown).
    pub abandoned: u64,
    /// Workers still inside a task when the time was up. Their threads are left to finish by themselves.
    pub still_running: usize,
}

impl Executor {
    /// Accepts nothing from now on and ends the executor's threads, within a bound. Later calls only wait for the
    /// threads that an earlier one has left; if that one abandons, it may still be ending the last tickets, and
    /// counting them, when a later call returns. It blocks the calling thread: where that is a runtime's, which has
    /// answers to send meanwhile, [`Executor::shutdown_async`] does not.
    ///
    /// When the time is up, threads may still run that are inside the caller's code: workers in a task
    /// ([`ShutdownReport::still_running`]), the balancer's in [`Builder::on_remap`](crate::Builder::on_remap) or in the
    /// destructor of a table that was removed or replaced, the timer's in a waker. They end by themselves once that
    /// code returns, and do nothing else before. The one thing that may keep this longer is a destructor of the
    /// caller's own `thread_local!` values.
    ///
    /// In a drain, workers that have nothing to do stay and help other domains as usual until all queues are empty.
    ///
    /// In a fork of the process that built the executor there is nothing to end, and nothing is done.
    ///
    /// Called from inside a task, it does not wait for the worker it is called from, and an abandoning shutdown
    /// then waits for nobody. Dropping the executor abandons what is queued and waits up to five seconds, unless a
    /// shutdown has waited before.
    pub fn shutdown(&self, how: Shutdown) -> ShutdownReport {
        match self.close() {
            Some(begun) => end(&self.engine, how, begun),
            None => ShutdownReport::default(),
        }
    }

    /// As [`Executor::shutdown`], without a thread of the caller's that waits: it begins at once, and the future ends
    /// when it is done. Any runtime can await it, also one with a single thread, which goes on sending answers
    /// meanwhile.
    ///
    /// Dropping the future, or never polling it, changes nothing: the shutdown goes on to its end on a thread of its
    /// own. Keep the executor until the future has ended: dropping it before abandons what is still queued.
    ///
    /// Called from inside a task, it waits for that task as for all others. If the system refuses the one thread that
    /// this takes, the call itself waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chiplet_executor::{Executor, Shutdown, Topology};
    ///
    /// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let table = executor.add_closure_table("songs", 1 << 20);
    /// let accepted = executor.spawn(table, || 6 * 7);
    /// let report = executor.shutdown_async(Shutdown::Drain(Duration::from_secs(30))).await;
    /// assert_eq!(report.abandoned, 0);
    /// assert_eq!(accepted.await?, 42);
    /// # Ok(())
    /// # }
    /// # struct Unpark(std::thread::Thread);
    /// # impl std::task::Wake for Unpark { fn wake(self: std::sync::Arc<Self>) { self.0.unpark() } }
    /// # let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// # let mut served = std::pin::pin!(serve());
    /// # loop {
    /// #     match served.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #         std::task::Poll::Ready(result) => break result.unwrap(),
    /// #         std::task::Poll::Pending => std::thread::park(),
    /// #     }
    /// # }
    /// ```
    pub fn shutdown_async(&self, how: Shutdown) -> Stopping {
        let shared = Arc::new(Shared::default());
        let stopping = Stopping(Arc::clone(&shared));
        let Some(begun) = self.close() else {
            shared.end(ShutdownReport::default());
            return stopping;
        };
        let (engine, told) = (Arc::clone(&self.engine), Arc::clone(&shared));
        let waits = move || {
            let report = end(&engine, how, begun);
            // The last reference, if the executor has gone meanwhile: then the tables go, whose destructors are the
            // caller's.
            contain(|| drop(engine));
            told.end(report);
        };
        let name = format!("{}-stop", self.engine.threads.prefix);
        if let Err(error) = thread::Builder::new().name(name).spawn(waits) {
            contain(|| {
                tracing::warn!(%error, "no thread could be started to wait for the shutdown; the caller waits");
            });
            shared.end(end(&self.engine, how, begun));
        }
        stopping
    }

    /// Accepts nothing from now on and lets threads end that have nothing to do. When that was; `None` in a fork, where
    /// there is no thread to end, and locks that the parent's threads held at the fork are held for ever.
    fn close(&self) -> Option<Instant> {
        if !self.process.is_this() {
            return None;
        }
        let begun = now();
        self.engine.scheduler.close();
        self.balancer.stop();
        Some(begun)
    }
}

/// Ends the threads of an executor that was closed at `begun`. What it logs runs a subscriber, which is the caller's
/// code: its panic ends there, as somebody may await the report.
fn end(engine: &Engine, how: Shutdown, begun: Instant) -> ShutdownReport {
    let (Shutdown::Drain(patience) | Shutdown::Abandon(patience)) = how;
    // Too long for the clock means "as long as it takes", which a year stands for.
    let deadline = begun
        .checked_add(patience)
        .unwrap_or(begun + Duration::from_secs(31_536_000));
    let inside = current::executor() == Some(engine.id);
    let mut abandoned = 0;
    let mut left = usize::MAX;
    let own = usize::from(inside);
    if let Shutdown::Drain(_) = how {
        left = engine.threads.workers.wait_until(deadline, own);
    }
    if left > 0 {
        abandoned = engine.abandon_queued();
        let deadline = if inside { begun } else { deadline };
        left = engine.threads.workers.wait_until(deadline, own);
    }
    if left == 0 {
        let threads = engine.threads.join_until(deadline);
        if threads > 0 {
            contain(|| {
                tracing::warn!(
                    threads,
                    "threads were still inside a waker, a destructor or a callback when shutdown gave up waiting"
                );
            });
        }
    } else if !inside {
        contain(|| {
            tracing::warn!(
                workers = left,
                "workers were still inside a task when shutdown gave up waiting"
            );
        });
    }
    // From inside a task it has not waited for that.
    if !inside {
        engine.was_shut_down.store(true, Ordering::Release);
    }
    ShutdownReport {
        abandoned,
        still_running: left,
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Whoever has shut it down has said how long to wait, and nothing is queued any more.
        if !self.engine.was_shut_down.load(Ordering::Acquire) {
            self.shutdown(Shutdown::Abandon(DROP_PATIENCE));
        }
    }
}

/// A shutdown that goes on: a future that ends with its report ([`Executor::shutdown_async`]).
///
/// It ends when all threads of the executor have ended or the time is up, as [`Executor::shutdown`] returns then. If
/// the executor was dropped meanwhile, it also waits until the tables have been dropped, whose destructors have no
/// bound.
#[must_use = "the shutdown goes on without it; await it to know when it is done"]
pub struct Stopping(Arc<Shared>);

/// What the future and the thread that waits for the shutdown have in common.
#[derive(Default)]
struct Shared(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    report: Option<ShutdownReport>,
    waker: Option<Waker>,
}

impl Shared {
    /// The shutdown has ended so.
    fn end(&self, report: ShutdownReport) {
        let waker = {
            let mut progress = self.0.lock();
            progress.report = Some(report);
            progress.waker.take()
        };
        // The caller's code: without the lock, and its panic ends here.
        if let Some(waker) = waker
            && !left_out(Step::ShutdownWakes)
        {
            contain(|| waker.wake());
        }
    }
}

impl Future for Stopping {
    type Output = ShutdownReport;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ShutdownReport> {
        // Wakers are the caller's: none is cloned or dropped under the lock.
        let waker = context.waker().clone();
        let (report, unused) = {
            let mut progress = self.0.0.lock();
            match progress.report {
                Some(report) => (Some(report), Some(waker)),
                None => (None, progress.waker.replace(waker)),
            }
        };
        drop(unused);
        report.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        // Nobody waits any more. The thread would keep the waker, and what that keeps, until the shutdown ends.
        if left_out(Step::StoppingForgets) {
            return;
        }
        let unused = self.0.0.lock().waker.take();
        drop(unused);
    }
}

impl std::fmt::Debug for Stopping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let report = self.0.0.lock().report;
        f.debug_struct("Stopping").field("report", &report).finish()
    }
}
