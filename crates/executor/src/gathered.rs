//! The parts of one query over several tables, as one answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chiplet_policy::TableId;
use chiplet_table::Neighbor;

use crate::error::{Error, OfTable};
use crate::ticket::Ticket;

type Part = (TableId, Ticket<Vec<Neighbor>>);

/// A claim on one query's answer over several tables ([`Executor::submit_over`](crate::Executor::submit_over)): a future
/// that ends with the nearest of all, ascending, equal distances by id and then in the order of the tables; or with the
/// first error that is seen, and whose it is. Dropping it cancels what has not ended, as dropping a [`Ticket`] does.
///
/// # Panics
/// Polling it again after it was ready panics, as other futures do.
#[must_use = "dropping it cancels the query"]
pub struct Gathered {
    k: usize,
    /// With their places in the order of the tables. Empty again once it has given its answer.
    pending: Vec<(usize, Part)>,
    found: Vec<(Neighbor, usize, TableId)>,
    given: bool,
}

impl Gathered {
    pub(crate) fn new(k: usize, parts: Vec<Part>) -> Self {
        Self {
            k,
            pending: parts.into_iter().enumerate().collect(),
            found: Vec::new(),
            given: false,
        }
    }

    /// Blocks this thread until all tables have answered or one has failed.
    ///
    /// # Errors
    /// The [`Error`] of the first table, in their order, that has ended with one; as [`Ticket::wait`].
    pub fn wait(mut self) -> Result<Vec<(TableId, Neighbor)>, OfTable<Error>> {
        for (place, (table, ticket)) in std::mem::take(&mut self.pending) {
            // On an early return the others are dropped.
            let hits = ticket.wait().map_err(|error| OfTable { table, error })?;
            self.keep(place, table, hits);
        }
        Ok(self.merged())
    }

    /// Each table's part by itself, in the order of the tables: for who decides otherwise what an answer of some tables is
    /// worth. Parts whose answer has been merged already, by polling, are left out.
    pub fn into_parts(self) -> Vec<(TableId, Ticket<Vec<Neighbor>>)> {
        self.pending.into_iter().map(|(_, part)| part).collect()
    }

    fn keep(&mut self, place: usize, table: TableId, hits: Vec<Neighbor>) {
        let hits = hits.into_iter().map(|hit| (hit, place, table));
        self.found.extend(hits);
    }

    fn merged(&mut self) -> Vec<(TableId, Neighbor)> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable();
        found.truncate(self.k);
        let named = found.into_iter().map(|(hit, _, table)| (table, hit));
        named.collect()
    }
}

impl Future for Gathered {
    type Output = Result<Vec<(TableId, Neighbor)>, OfTable<Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.given, "it was polled after it had given its answer");
        let mut at = 0;
        while let Some((place, (table, ticket))) = this.pending.get_mut(at) {
            let (place, table) = (*place, *table);
            match Pin::new(ticket).poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(hits)) => {
                    drop(this.pending.remove(at));
                    this.keep(place, table, hits);
                }
                Poll::Ready(Err(error)) => {
                    this.given = true;
                    // Without the one that has failed the rest is cancelled.
                    this.pending.clear();
                    return Poll::Ready(Err(OfTable { table, error }));
                }
            }
        }
        if !this.pending.is_empty() {
            return Poll::Pending;
        }
        this.given = true;
        Poll::Ready(Ok(this.merged()))
    }
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathered")
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
