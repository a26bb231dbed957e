//! The caller's end of a task: a future that needs no runtime, and a wait for plain threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::cell::Cell;
use crate::current;
use crate::error::{Error, SubmitError};
use crate::sync::{PAUSES, now, park_timeout, pause, thread, thread_local};

/// The part of a task that its ticket sees.
pub(crate) trait Outcome<T>: Send + Sync {
    fn cell(&self) -> &Cell<T>;
    /// The executor the task belongs to.
    fn executor(&self) -> u64;
}

enum Inner<T> {
    Live(Arc<dyn Outcome<T>>),
    Refused(SubmitError),
    /// The answer has been given, or the ticket was detached.
    Spent,
}

/// A claim on one task's answer.
///
/// A ticket is a [`Future`] that any runtime can poll, and [`Ticket::wait`] blocks a plain thread. Dropping it
/// cancels a task that has not started; one that has started runs on (a split query stops at its next scan
/// unit) and its answer is discarded. [`Ticket::detach`] drops it without cancelling.
///
/// # Panics
/// Polling a ticket again after it was ready panics, as other futures do.
#[must_use = "dropping a ticket cancels its task; use `detach` to let it run unobserved"]
pub struct Ticket<T> {
    inner: Inner<T>,
}

impl<T> Ticket<T> {
    pub(crate) fn live(task: Arc<dyn Outcome<T>>) -> Self {
        Self {
            inner: Inner::Live(task),
        }
    }

    pub(crate) fn refused(reason: SubmitError) -> Self {
        Self {
            inner: Inner::Refused(reason),
        }
    }

    /// Why the task was never accepted, if it was not. The same error is what the ticket resolves to.
    pub fn refusal(&self) -> Option<SubmitError> {
        match &self.inner {
            Inner::Refused(reason) => Some(*reason),
            Inner::Live(_) | Inner::Spent => None,
        }
    }

    /// Whether the task has ended, so that waiting would not block.
    pub fn is_finished(&self) -> bool {
        match &self.inner {
            Inner::Live(task) => task.cell().is_ended(),
            Inner::Refused(_) | Inner::Spent => true,
        }
    }

    /// Blocks this thread until the task has ended.
    ///
    /// # Errors
    /// The task's [`Error`]. [`Error::WouldDeadlock`] at once when called inside a task of the same executor
    /// and the answer is not there yet: on a small pool that could wait for ever. The task is then cancelled
    /// as by dropping the ticket.
    pub fn wait(mut self) -> Result<T, Error> {
        self.block(None).unwrap_or(Err(Error::WouldDeadlock))
    }

    /// Like [`Ticket::wait`], for at most `time`; `None` if the task has not ended by then. The ticket
    /// stays valid.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_for(&mut self, time: Duration) -> Option<Result<T, Error>> {
        // Too long for the clock means no limit.
        self.block(now().checked_add(time))
    }

    /// Lets the task run without anyone waiting for it.
    pub fn detach(mut self) {
        if let Inner::Live(task) = std::mem::replace(&mut self.inner, Inner::Spent) {
            task.cell().abandon(false);
        }
    }

    /// Cancels the task if it has not started. The same as dropping the ticket.
    pub fn cancel(self) {}

    fn block(&mut self, until: Option<Instant>) -> Option<Result<T, Error>> {
        // Inside a task of its own executor nothing is worth waiting for.
        let inside = |task: &Arc<dyn Outcome<T>>| current::executor() == Some(task.executor());
        if let Inner::Live(task) = &self.inner
            && !inside(task)
        {
            // A short task's answer is there before this thread would be asleep.
            (0..PAUSES).any(|round| {
                pause(round);
                task.cell().is_ended()
            });
        }
        thread_local! {
            static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
        }
        WAKER.with(|waker| self.park(waker, until))
    }

    fn park(&mut self, waker: &Waker, until: Option<Instant>) -> Option<Result<T, Error>> {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut *self).poll(&mut context) {
                return Some(result);
            }
            if let Inner::Live(task) = &self.inner
                && current::executor() == Some(task.executor())
            {
                return Some(Err(Error::WouldDeadlock));
            }
            match until {
                None => thread::park(),
                Some(until) => {
                    let left = until.saturating_duration_since(now());
                    if left.is_zero() {
                        return None;
                    }
                    park_timeout(left);
                }
            }
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = match &self.inner {
            Inner::Live(task) => task.cell().poll(context.waker()),
            Inner::Refused(reason) => Poll::Ready(Err(Error::Refused(*reason))),
            Inner::Spent => panic!("a ticket was polled after it had given its answer"),
        };
        if poll.is_ready() {
            self.inner = Inner::Spent;
        }
        poll
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Inner::Live(task) = &self.inner {
            task.cell().abandon(true);
        }
    }
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
