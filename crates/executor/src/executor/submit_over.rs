//! One query over several tables: the shards of a collection, the segments of an index.

use chiplet_policy::TableId;
use chiplet_table::Query;

use super::Executor;
use crate::error::{OfTable, QueryParameter, SubmitError};
use crate::multi_search::MultiSearch;

impl Executor {
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
