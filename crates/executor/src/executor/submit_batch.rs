//! Submitting many queries of one table at once.

use std::sync::Arc;

use chiplet_policy::TableId;
use chiplet_table::Query;

use super::Executor;
use crate::error::Refused;
use crate::jobs::batch::{self, Answers};
use crate::ticket::Ticket;

impl Executor {
    /// Searches `table` for all of `queries`, with one lock and one round of wake-ups. The ticket resolves to the
    /// answers in the order of the queries, each equal to what [`Executor::search`] would have answered. A refused
    /// batch's ticket resolves to [`Error::Refused`](crate::Error::Refused) at once; [`Executor::submit_batch`] has
    /// the details, shows the refusal before waiting, and keeps the queries.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    /// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
    ///
    /// /// The numbers 0 to 99.
    /// struct Numbers;
    ///
    /// impl Table for Numbers {
    ///     fn dim(&self) -> usize { 1 }
    ///     fn len(&self) -> usize { 100 }
    ///     fn size_bytes(&self) -> u64 { 400 }
    ///     fn search(&self, query: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
    ///         query.check(1)?;
    ///         let distance = |id: u64| (id as f32 - query.vector()[0]).abs();
    ///         let mut all: Vec<_> = (0..100).map(|id| Neighbor { id, distance: distance(id) }).collect();
    ///         all.sort();
    ///         all.truncate(query.k());
    ///         Ok(all)
    ///     }
    /// }
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let table = executor.add_table("numbers", Numbers);
    /// let queries = [3.2, 70.1, f32::NAN].map(|x| Query::new([x]).top(1)).to_vec();
    /// let answers = executor.search_batch(table, queries).wait()?;
    /// assert_eq!(answers[0].as_ref().unwrap()[0].id, 3);
    /// assert_eq!(answers[1].as_ref().unwrap()[0].id, 70);
    /// assert!(answers[2].is_err(), "a query that the table refuses has its own error");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search_batch(&self, table: TableId, queries: Vec<Query>) -> Ticket<Answers> {
        self.submit_batch(table, queries)
            .unwrap_or_else(|refused| Ticket::refused(refused.reason))
    }

    /// Searches `table` for all of `queries`, or says at once why not and hands them back.
    ///
    /// The batch is cut into parts, one for each worker at work in the table's home or as many as a queue's bound
    /// allows if that is fewer, of at most 64 queries each; to the queue each part is one task. All parts are accepted
    /// or none; but of a batch that the bound can never hold, with more than 64 queries for each of its places, parts
    /// are queued as those of a block are ([`Executor::submit_block`]). Within a part queries are answered one after
    /// the other, or as many at once as [`Table::batch_size`] says, and none is cut into scan units. A batch is bulk
    /// work if all of its queries are ([`Class`](crate::Class)). Counters count queries, not parts; a query's wait and
    /// service time are its part's. An empty batch is answered at once.
    ///
    /// A query whose deadline passes before its turn comes is [`Error::Expired`], and the others go on. If all have a
    /// deadline, the ticket resolves at the last of them: to the answers of parts that have ended, and `Expired` for
    /// the rest. Dropping the ticket cancels the queries whose turn has not come. A panic fails the queries of its
    /// call of [`Table::search_batch`]: one query alone, unless the table asks for more at once.
    ///
    /// # Errors
    /// [`Refused`] with the reason: over a bound, no such table, shutting down, or more than
    /// [`Builder::limits`](crate::Builder::limits) allows. A batch that is too long is refused as a whole, and so is
    /// one with a query that asks for too much: the reason is that of the first such query.
    ///
    /// [`Error::Expired`]: crate::Error::Expired
    /// [`Table::batch_size`]: chiplet_table::Table::batch_size
    /// [`Table::search_batch`]: chiplet_table::Table::search_batch
    pub fn submit_batch(
        &self,
        table: TableId,
        queries: Vec<Query>,
    ) -> Result<Ticket<Answers>, Refused<Vec<Query>>> {
        let entry = match self.find_index(table, &queries) {
            Ok(entry) => entry,
            Err(reason) => {
                let input = queries;
                return Err(Refused { reason, input });
            }
        };
        let class = batch::class(&queries, entry.state.options.get().class);
        let header = self.header(entry, Some(class), batch::deadline(&queries), None);
        let batch = Arc::new(batch::task(header, queries));
        if batch.len() == 0 {
            // No part will come to it.
            batch.tell_nothing();
            return Ok(Ticket::live(batch));
        }
        match Arc::clone(&batch).admit(&self.engine, false) {
            Ok(()) => Ok(Ticket::live(batch)),
            Err((reason, other)) => {
                drop(other);
                // Refused parts are in no queue, so this is the only reference; the copy is for the compiler.
                let input = Arc::try_unwrap(batch)
                    .map_or_else(|batch| batch.work.load.0.clone(), |batch| batch.work.load.0);
                Err(Refused { reason, input })
            }
        }
    }
}
