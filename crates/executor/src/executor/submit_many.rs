//! Submitting many queries of one table at once, as a batch or a block, or one query of many tables.

use std::sync::Arc;

use chiplet_policy::TableId;
use chiplet_table::Query;

use super::Executor;
use crate::block::{Block, BlockAnswers};
use crate::error::{OfTable, QueryParameter, Refused, SubmitError};
use crate::jobs::batch::{self, Answers};
use crate::jobs::block;
use crate::multi_search::MultiSearch;
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
        let header = self.header(entry, Some(class), batch::deadline(&queries), false);
        let admitted = batch::task(header, queries).admit(&self.engine, false);
        let ticket = admitted.map(|batch| Ticket::live(batch));
        ticket.map_err(|(reason, batch)| {
            // Refused parts are in no queue, so this is the only reference; the copy is for the compiler.
            let input = Arc::try_unwrap(batch)
                .map_or_else(|batch| batch.work.load.0.clone(), |batch| batch.work.load.0);
            Refused { reason, input }
        })
    }

    /// Searches `table` for each row of `block`, with answers in flat arrays. A refused block's ticket resolves to
    /// [`Error::Refused`](crate::Error::Refused) at once; [`Executor::submit_block`] has the details, shows the refusal
    /// before waiting, and hands the block back.
    ///
    /// ```
    /// use chiplet_executor::{Block, Executor, Topology};
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
    /// let rows: Vec<f32> = (0..10_000).map(|row| (row % 100) as f32).collect();
    /// let block = Block::new(rows, 1).like(Query::new([]).top(2));
    /// let answers = executor.search_block(table, block).wait()?;
    /// assert_eq!((answers.ids.len(), answers.distances.len()), (20_000, 20_000)); // [10,000][2]
    /// assert_eq!(answers.ids[2 * 7_040], 40);
    /// assert_eq!(answers.row(7_040), Ok((&[40, 39][..], &[0.0, 1.0][..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search_block(&self, table: TableId, block: Block) -> Ticket<BlockAnswers> {
        self.submit_block(table, block)
            .unwrap_or_else(|refused| Ticket::refused(refused.reason))
    }

    /// Searches `table` for each row of `block`, or says at once why not and hands the block back. It may be of any
    /// length: no bound of a queue and no [`QueryLimits::max_batch`](crate::QueryLimits::max_batch) applies to it. All
    /// of it is answered by the index that the table has now.
    ///
    /// The queue is fed as it empties. Two parts for each worker at work in the table's homes are queued or run at a
    /// time, or fewer where a queue may hold fewer tasks. A part answers up to 64 queries, or as many as take about 10
    /// ms, and goes then to the end of a queue with the next ones: other tables and single queries have their turn as
    /// usual. Where there is no place for it others go on, and the last part goes on without one. None of the queries
    /// is cut into scan units. No query takes an allocation, if its table needs none to answer it
    /// ([`Table::search_each`]). The answers take `12 * k + 4` bytes a row.
    ///
    /// The block is accepted if one part finds a place. Its queries are counted as accepted as their parts are queued,
    /// as if a caller had submitted one batch after the other; what no part has reached when the block ends early is
    /// counted nowhere, and a refused block counts as one part that was shed. A query's wait and service time are its
    /// part's.
    ///
    /// A row that the table refuses fails alone, and so does one whose search panics, with those of its call of
    /// [`Table::search_each`] that have no answer yet ([`Table::batch_size`]). At the deadline, which is one for the
    /// whole block, the ticket tells what has been found, and the rest is [`Error::Expired`]. Dropping the ticket ends
    /// the block within a part. A shutdown that drains answers all of it, as far as its time allows; what is left then,
    /// or at one that abandons, is [`Error::ShutDown`]. The class is that of the block's [`template`](Block::template),
    /// or the table's.
    ///
    /// # Errors
    /// [`Refused`] with the reason: over a bound, no such table, shutting down, a template that asks for more than
    /// [`Builder::limits`](crate::Builder::limits) allows, no memory for the answers, or a block that is not whole rows
    /// of the table's dimension with a filter for each or none.
    ///
    /// [`Error::Expired`]: crate::Error::Expired
    /// [`Error::ShutDown`]: crate::Error::ShutDown
    /// [`Table::batch_size`]: chiplet_table::Table::batch_size
    /// [`Table::search_each`]: chiplet_table::Table::search_each
    pub fn submit_block(
        &self,
        table: TableId,
        block: Block,
    ) -> Result<Ticket<BlockAnswers>, Refused<Block>> {
        self.submit_block_as(table, block, false)
    }

    /// [`Executor::submit_block`], as [`Executor::submit_as`] says.
    #[doc(hidden)]
    pub fn submit_block_as(
        &self,
        table: TableId,
        block: Block,
        patient: bool,
    ) -> Result<Ticket<BlockAnswers>, Refused<Block>> {
        self.begin_block(table, &block, patient).map_err(|reason| {
            let input = block;
            Refused { reason, input }
        })
    }

    fn begin_block(
        &self,
        table: TableId,
        block: &Block,
        patient: bool,
    ) -> Result<Ticket<BlockAnswers>, SubmitError> {
        let template = block.template();
        let entry = self.find_index(table, std::slice::from_ref(template))?;
        let index = entry.index.main().ok_or(SubmitError::NotSearchable)?;
        block.check(index.table.dim())?;
        let header = self.header(entry, template.requested_class(), template.expires(), false);
        let admitted = block::task(header, block.clone())?.admit(&self.engine, patient);
        let bulk = admitted.map_err(|(reason, _)| reason)?;
        Ok(Ticket::live(bulk))
    }

    /// Searches each of `tables` for `query` and merges what they find: the nearest [`Query::top`] of all, each with
    /// its table. Their distances must be comparable: the same metric over the same vectors' space.
    ///
    /// Each table's part is a task of its own, on its own home, with the query's one deadline. All are accepted, or the
    /// whole is refused; it is answered by all tables or ends with the first error, which names its table; the other
    /// parts are cancelled then. So an answer is never of fewer tables than were asked. Who would rather have what some
    /// tables found takes the parts ([`MultiSearch::into_parts`]). Dropping the ticket cancels all parts.
    ///
    /// A table that is named twice is searched twice; over no table there is nothing to find. How many tables one query
    /// may name is bounded by [`QueryLimits::max_tables`](crate::QueryLimits::max_tables). Over more tables than the
    /// queues have places it is accepted only if workers begin its parts as fast as they come.
    ///
    /// # Errors
    /// The table that has refused, and why: as in [`Executor::submit`]. What the tables before it had accepted is
    /// cancelled; some of it may have been answered by then. Of more tables than are allowed, the first too many is
    /// named.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    /// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
    ///
    /// /// Numbers from `0` on, so many apart.
    /// struct Numbers(u64);
    ///
    /// impl Table for Numbers {
    ///     fn dim(&self) -> usize { 1 }
    ///     fn len(&self) -> usize { 100 }
    ///     fn size_bytes(&self) -> u64 { 400 }
    ///     fn search(&self, query: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
    ///         query.check(1)?;
    ///         let distance = |id: u64| ((id * self.0) as f32 - query.vector()[0]).abs();
    ///         let mut all: Vec<_> = (0..100).map(|id| Neighbor { id, distance: distance(id) }).collect();
    ///         all.sort();
    ///         all.truncate(query.k());
    ///         Ok(all)
    ///     }
    /// }
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(2, 2, 32 << 20)).build()?;
    /// let shards = [2, 3, 5].map(|apart| executor.add_table(format!("by {apart}"), Numbers(apart)));
    /// let hits = executor.submit_over(&shards, &Query::new([9.1]).top(2))?.wait()?;
    /// let found: Vec<_> = hits.iter().map(|(table, hit)| (*table, hit.id)).collect();
    /// assert_eq!(found, [(shards[1], 3), (shards[2], 2)]); // 9 and 10; 10 of the first shard is as near
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit_over(
        &self,
        tables: &[TableId],
        query: &Query,
    ) -> Result<MultiSearch, OfTable<SubmitError>> {
        if let Some(limit) = self.limits.max_tables
            && let Some(&table) = tables.get(limit)
        {
            let (parameter, asked) = (QueryParameter::Tables, tables.len());
            let error = SubmitError::OverLimit {
                parameter,
                asked,
                limit,
            };
            return Err(OfTable { table, error });
        }
        let mut parts = Vec::with_capacity(tables.len());
        for &table in tables {
            // On an early return the tickets so far are dropped, which cancels their tasks.
            let ticket = self.submit(table, query.clone()).map_err(|refused| {
                let error = refused.reason;
                OfTable { table, error }
            })?;
            parts.push((table, ticket));
        }
        Ok(MultiSearch::new(query.k(), parts))
    }
}
