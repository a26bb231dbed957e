//! A ticket that tells with the answer how the task was served.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{Error, SubmitError};
use crate::report::{Answer, Report};
use crate::ticket::Ticket;

/// A [`Ticket`] that resolves to the answer and its [`Report`]: [`Ticket::with_report`]. Dropping it drops the ticket.
///
/// # Panics
/// Polling it again after it was ready panics, as a ticket does.
#[must_use = "dropping a ticket cancels its task"]
#[derive(Debug)]
pub struct WithReport<T>(Ticket<T>);

impl<T> Ticket<T> {
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
}

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
