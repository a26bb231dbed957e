//! The parts of one query over several tables, as one answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chiplet_policy::TableId;
use chiplet_table::Neighbor;

use crate::error::{Error, OfTable};
use crate::report::Answer;
use crate::ticket::{Ticket, earlier, park_until, with_waker};

/// What all tables have found, or which one has failed.
type Outcome = Result<Vec<(TableId, Neighbor)>, OfTable<Error>>;

/// A claim on one query's answer over several tables ([`Executor::submit_over`](crate::Executor::submit_over)): a
/// future that ends with the nearest of all, ascending, equal distances by id and then in the order of the tables; or
/// with the first error that is seen, and its table. Dropping it cancels what has not ended, as dropping a [`Ticket`]
/// does.
///
/// # Panics
/// Polling it again after it was ready panics, as other futures do, and so does [`MultiSearch::wait`] or
/// [`MultiSearch::into_parts`] then.
#[must_use = "dropping it cancels the query"]
pub struct MultiSearch {
    k: usize,
    /// In the order of the tables. None once it has given its answer.
    parts: Option<Vec<(TableId, MultiSearchPart)>>,
}

/// One table's part of a query over several ([`MultiSearch::into_parts`]).
#[derive(Debug)]
pub enum MultiSearchPart {
    /// What it has found, nearest first: the whole had been polled and had taken it.
    Answered(Vec<Neighbor>),
    /// The claim on what it finds, which may be there by now.
    Open(Ticket<Vec<Neighbor>>),
}

impl MultiSearch {
    pub(crate) fn new(k: usize, tickets: Vec<(TableId, Ticket<Vec<Neighbor>>)>) -> Self {
        let parts = tickets.into_iter();
        let parts = parts.map(|(table, ticket)| (table, MultiSearchPart::Open(ticket)));
        Self {
            k,
            parts: Some(parts.collect()),
        }
    }

    /// Blocks this thread until all tables have answered or one has failed.
    ///
    /// # Errors
    /// The [`Error`] of the first table that ends with one; as [`Ticket::wait`].
    pub fn wait(mut self) -> Result<Vec<(TableId, Neighbor)>, OfTable<Error>> {
        if let Some((_, ticket)) = self.open().next() {
            ticket.wait_awake();
        }
        with_waker(|waker| {
            loop {
                let mut wakes = None;
                let outcome = self.ask(|ticket| match ticket.ask(waker) {
                    Ok(answer) => Poll::Ready(answer),
                    Err(deadline) => {
                        wakes = earlier(wakes, deadline);
                        Poll::Pending
                    }
                });
                if let Poll::Ready(outcome) = outcome {
                    return outcome;
                }
                // All are of one executor.
                if let Some((table, ticket)) = self.open().next()
                    && ticket.would_deadlock()
                {
                    let error = Error::WouldDeadlock;
                    return Err(OfTable { table, error });
                }
                park_until(wakes);
            }
        })
    }

    /// Each table's part by itself, in the order of the tables: for partial results, after a timeout for example. Parts
    /// whose answer was polled before come with that answer.
    pub fn into_parts(self) -> Vec<(TableId, MultiSearchPart)> {
        let parts = self.parts;
        parts.expect("it was taken apart after it had given its answer")
    }

    fn open(&self) -> impl Iterator<Item = (TableId, &Ticket<Vec<Neighbor>>)> {
        let parts = self.parts.iter().flatten();
        parts.filter_map(|(table, part)| match part {
            MultiSearchPart::Open(ticket) => Some((*table, ticket)),
            MultiSearchPart::Answered(_) => None,
        })
    }

    /// Asks each open part, and keeps what has been found. Ready when that is all, or at the first error.
    fn ask(
        &mut self,
        mut ask: impl FnMut(&mut Ticket<Vec<Neighbor>>) -> Poll<Result<Answer<Vec<Neighbor>>, Error>>,
    ) -> Poll<Outcome> {
        let parts = self.parts.as_mut();
        let parts = parts.expect("it was polled after it had given its answer");
        let mut all = true;
        for (table, part) in parts {
            let MultiSearchPart::Open(ticket) = part else {
                continue;
            };
            match ask(ticket) {
                Poll::Pending => all = false,
                Poll::Ready(Ok((hits, _))) => *part = MultiSearchPart::Answered(hits),
                Poll::Ready(Err(error)) => {
                    let table = *table;
                    // The rest is cancelled.
                    self.parts = None;
                    return Poll::Ready(Err(OfTable { table, error }));
                }
            }
        }
        match all {
            true => Poll::Ready(Ok(self.merged())),
            false => Poll::Pending,
        }
    }

    fn merged(&mut self) -> Vec<(TableId, Neighbor)> {
        let parts = self.parts.take().into_iter().flatten().enumerate();
        let hits = parts.filter_map(|(place, (table, part))| match part {
            MultiSearchPart::Answered(hits) => {
                Some(hits.into_iter().map(move |hit| (hit, place, table)))
            }
            MultiSearchPart::Open(_) => None,
        });
        let mut found: Vec<_> = hits.flatten().collect();
        found.sort_unstable();
        found.truncate(self.k);
        let named = found.into_iter().map(|(hit, _, table)| (table, hit));
        named.collect()
    }
}

impl Future for MultiSearch {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.ask(|ticket| ticket.poll_answer(context))
    }
}

impl std::fmt::Debug for MultiSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiSearch")
            .field("pending", &self.open().count())
            .finish_non_exhaustive()
    }
}
