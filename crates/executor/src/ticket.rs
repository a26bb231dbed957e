//! The caller's end of a task: a future that needs no runtime, and a wait for plain threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::engine::current;
use crate::engine::deadline::{Alarm, Expire, Timer};
use crate::engine::live::Outcome;
use crate::error::{Error, SubmitError};
use crate::report::{Answer, Report};
use crate::sync::{now, park_timeout, thread, thread_local};

/// What a ticket has besides a task.
enum Besides {
    Nothing,
    /// It never had a task.
    Refused(SubmitError),
    /// Set by the first poll that finds no answer, if the task has a deadline.
    Alarm(Alarm),
}

/// A claim on one task's answer.
///
/// A ticket is a [`Future`] that any runtime can poll, and [`Ticket::wait`] blocks a plain thread. Dropping it
/// cancels a task that has not started. One that has started ends when its table next asks whether it is still wanted
/// ([`Context::check`](chiplet_table::Context::check)) or before its next scan unit, else it runs on; its answer is
/// discarded. [`Ticket::detach`] drops it without cancelling.
///
/// If the task has a deadline and no answer by then, its ticket resolves to [`Error::Expired`] at the deadline, by
/// waiting and by polling alike, even while the worker is busy. A task that has not started by then never starts; one
/// that has started ends as if its ticket had been dropped. The executor counts it as expired when a worker comes to it
/// or is done with it. A ready answer is returned even after the deadline.
///
/// # Panics
/// Polling a ticket again after it was ready panics, as other futures do.
#[must_use = "dropping a ticket cancels its task; use `detach` to let it run unobserved"]
pub struct Ticket<T> {
    /// Until the answer has been given, or the ticket was detached.
    task: Option<Arc<dyn Outcome<T>>>,
    besides: Besides,
}

impl<T> Ticket<T> {
    pub(crate) fn live(task: Arc<dyn Outcome<T>>) -> Self {
        Self {
            task: Some(task),
            besides: Besides::Nothing,
        }
    }

    pub(crate) fn refused(reason: SubmitError) -> Self {
        Self {
            task: None,
            besides: Besides::Refused(reason),
        }
    }

    /// Why the task was never accepted, if it was not. The same error is what the ticket resolves to.
    pub fn refusal(&self) -> Option<SubmitError> {
        match self.besides {
            Besides::Refused(reason) => Some(reason),
            Besides::Nothing | Besides::Alarm(_) => None,
        }
    }

    /// Whether the task has ended or its deadline has passed, so that waiting would not block.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(|task| {
            if task.header().is_due() {
                task.expire();
            }
            task.header().is_ended()
        })
    }

    /// Blocks this thread until the task has ended or its deadline has passed.
    ///
    /// # Errors
    /// The task's [`Error`]. [`Error::WouldDeadlock`] at once when called inside a task of the same executor
    /// and the answer is not there yet: on a small pool that could wait for ever. The task is then cancelled
    /// as by dropping the ticket. [`Context::block_in_place`](chiplet_table::Context::block_in_place) allows such a
    /// wait.
    pub fn wait(mut self) -> Result<T, Error> {
        match self.task.as_ref().and_then(|task| task.answer()) {
            Some(answer) => {
                self.leave();
                // Nothing is left in it to drop.
                std::mem::forget(self);
                answer
            }
            None => self.block_on().map(|(answer, _)| answer),
        }
    }

    /// Like [`Ticket::wait`], for at most `time`; `None` if there is no result by then. The ticket stays valid.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_for(&mut self, time: Duration) -> Option<Result<T, Error>> {
        let answer = self.block_for(time)?;
        Some(answer.map(|(answer, _)| answer))
    }

    /// Makes the ticket resolve to the answer and how it was served. Call it at any time before the answer is taken. It
    /// costs nothing extra, because the counters measure the same.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let table = executor.add_closure_table("songs", 1 << 20);
    /// let (answer, report) = executor.spawn(table, || 6 * 7).with_report().wait()?;
    /// assert_eq!((answer, report.units, report.left_home), (42, 1, None));
    /// println!("waited {:?}, took {:?}", report.wait, report.service);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A task without an answer has no report: one that was refused, expired, was cancelled, panicked, or that its
    /// table answered with an error. A batch resolves to answers even if its queries expired; see [`Report::units`].
    pub fn with_report(self) -> WithReport<T> {
        WithReport(self)
    }

    /// Lets the task run without anyone waiting for it.
    pub fn detach(mut self) {
        if let Some(task) = self.leave() {
            task.abandon(false);
        }
    }

    fn block_for(&mut self, time: Duration) -> Option<Result<Answer<T>, Error>> {
        // Too long for the clock means no limit.
        self.block(now().checked_add(time))
    }

    /// Waits for the answer, the deadline or `until`. The deadline needs no alarm: this thread wakes up for it.
    fn block(&mut self, until: Option<Instant>) -> Option<Result<Answer<T>, Error>> {
        self.wait_awake();
        with_waker(|waker| {
            loop {
                let wakes = match self.ask(waker) {
                    Ok(result) => return Some(result),
                    Err(deadline) => earlier(deadline, until),
                };
                if self.would_deadlock() {
                    return Some(Err(Error::WouldDeadlock));
                }
                if until.is_some_and(|until| until <= now()) {
                    return None;
                }
                park_until(wakes);
            }
        })
    }

    /// As [`Ticket::block`], however long it takes.
    #[inline(never)]
    fn block_on(&mut self) -> Result<Answer<T>, Error> {
        self.block(None).unwrap_or(Err(Error::WouldDeadlock))
    }

    /// Waits for a moment, before this thread goes to sleep. Inside a task of its own executor nothing is worth waiting
    /// for.
    pub(crate) fn wait_awake(&self) {
        let Some(task) = &self.task else {
            return;
        };
        let header = task.header();
        if !header.is_ended() && !is_own(&**task) {
            let cores = &header.entry.common.cores;
            cores.wait_awake(|| header.is_ended());
        }
    }

    /// Whether this thread must not wait for it ([`Error::WouldDeadlock`]).
    pub(crate) fn would_deadlock(&self) -> bool {
        self.task.as_ref().is_some_and(|task| is_own(&**task))
    }

    /// The result if there is one, else the deadline if it is still to come. A deadline that has passed is a result,
    /// unless the answer is just being counted: then it is about to come.
    pub(crate) fn ask(
        &mut self,
        waker: &Waker,
    ) -> Result<Result<Answer<T>, Error>, Option<Instant>> {
        let Some(task) = &self.task else {
            return match std::mem::replace(&mut self.besides, Besides::Nothing) {
                Besides::Refused(reason) => Ok(Err(Error::Refused(reason))),
                _ => panic!("a ticket was polled after it had given its answer"),
            };
        };
        let header = task.header();
        let due = header.is_due();
        if due {
            task.expire();
        }
        match task.poll(waker) {
            Poll::Ready(result) => {
                self.leave();
                Ok(result)
            }
            Poll::Pending => Err(header.deadline().filter(|_| !due)),
        }
    }

    /// As polling the ticket, with the report.
    pub(crate) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Answer<T>, Error>> {
        match self.ask(context.waker()) {
            Ok(result) => Poll::Ready(result),
            Err(deadline) => {
                if let Some(deadline) = deadline {
                    self.set_alarm(deadline);
                }
                Poll::Pending
            }
        }
    }

    /// Has the timer end the task at its deadline, which wakes whoever has polled.
    fn set_alarm(&mut self, deadline: Instant) {
        if let (Some(task), Besides::Nothing) = (&self.task, &self.besides) {
            let expires: Arc<dyn Expire> = Arc::clone(task) as _;
            let alarm = timer(&**task).set(deadline, Arc::downgrade(&expires));
            self.besides = alarm.map_or(Besides::Nothing, Besides::Alarm);
        }
    }

    /// Lets go of the task and takes the alarm back. Says which task it was.
    #[inline]
    fn leave(&mut self) -> Option<Arc<dyn Outcome<T>>> {
        let task = self.task.take()?;
        if let Besides::Alarm(alarm) = self.besides {
            timer(&*task).take_back(alarm);
        }
        Some(task)
    }
}

/// Whether this thread is a worker of the task's executor, and nobody takes tasks in its place.
fn is_own<T>(task: &dyn Outcome<T>) -> bool {
    current::executor() == Some(task.header().entry.common.executor) && !current::is_covered()
}

fn timer<T>(task: &dyn Outcome<T>) -> &Timer {
    &task.header().entry.common.timer
}

/// The earlier of two instants, of which none may ever come.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// Runs `wait` with a waker that unparks this thread.
pub(crate) fn with_waker<R>(wait: impl FnOnce(&Waker) -> R) -> R {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    WAKER.with(wait)
}

/// Parks this thread until it is unparked, at most until `time`.
pub(crate) fn park_until(time: Option<Instant>) {
    let Some(time) = time else {
        return thread::park();
    };
    let left = time.saturating_duration_since(now());
    if !left.is_zero() {
        park_timeout(left);
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
        let answer = self.poll_answer(context);
        answer.map(|answer| answer.map(|(answer, _)| answer))
    }
}

impl<T> Drop for Ticket<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(task) = self.leave() {
            task.abandon(true);
        }
    }
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Unlike `is_finished` it does not expire a task that is due: that calls its waker, and whoever formats a
        // ticket may hold the locks that the waker takes.
        let ended = |task: &Arc<dyn Outcome<T>>| {
            let header = task.header();
            header.is_due() || header.is_ended()
        };
        let finished = self.task.as_ref().is_none_or(ended);
        f.debug_struct("Ticket")
            .field("finished", &finished)
            .finish_non_exhaustive()
    }
}

/// A [`Ticket`] that resolves to the answer and its [`Report`]: [`Ticket::with_report`]. Dropping it drops the ticket.
///
/// # Panics
/// Polling it again after it was ready panics, as a ticket does.
#[must_use = "dropping a ticket cancels its task"]
#[derive(Debug)]
pub struct WithReport<T>(Ticket<T>);

impl<T> WithReport<T> {
    /// As [`Ticket::wait`].
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait(mut self) -> Result<(T, Report), Error> {
        self.0.block_on().map(with_report)
    }

    /// As [`Ticket::wait_for`].
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_for(&mut self, time: Duration) -> Option<Result<(T, Report), Error>> {
        Some(self.0.block_for(time)?.map(with_report))
    }

    /// As [`Ticket::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// As [`Ticket::refusal`].
    pub fn refusal(&self) -> Option<SubmitError> {
        self.0.refusal()
    }
}

fn with_report<T>((answer, record): Answer<T>) -> (T, Report) {
    (answer, record.into())
}

impl<T> Future for WithReport<T> {
    type Output = Result<(T, Report), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.0.poll_answer(context);
        answer.map(|answer| answer.map(with_report))
    }
}
