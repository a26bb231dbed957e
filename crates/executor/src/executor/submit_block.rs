//! Submitting any number of queries of one table as one block.

use std::sync::Arc;

use chiplet_policy::TableId;

use super::Executor;
use crate::block::{Block, BlockAnswers};
use crate::error::{Refused, SubmitError};
use crate::jobs::block;
use crate::ticket::Ticket;

impl Executor {
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
        let header = self.header(entry, template.requested_class(), template.expires(), None);
        let bulk = Arc::new(block::task(header, block.clone())?);
        if block.is_empty() {
            // No part will come to it.
            bulk.tell_nothing();
            return Ok(Ticket::live(bulk));
        }
        let admitted = Arc::clone(&bulk).admit(&self.engine, patient);
        admitted.map_err(|(reason, _)| reason)?;
        Ok(Ticket::live(bulk))
    }
}
