//! Many queries at once: their walks take turns, so that one computes while the rows of the others are on their way.

use std::cell::RefCell;

use chiplet_table::{Context, Neighbor, Query, SearchError, Table, TakeAnswer};

use super::HnswTable;
use super::search::{Searcher, Size};

/// Walks that take turns. Of 1,500,000 rows of 128 floats (972 MB, twice the L3) two walks that took turns answered
/// 1.09-1.13 times as many queries as one after the other, four 1.01-1.05 times.
const TURNS: usize = 2;

/// Smaller tables are searched one query after the other: of 137 MB, less than the L3, turns gave 0.88-0.93. Measured
/// on a Xeon whose virtual machine shows an L3 of 480 MiB.
const LARGE: usize = 512 << 20;

/// Queries that a worker answers in one go. With this many, walks alternate for all but a small part of the time; a
/// ticket that is dropped meanwhile is noticed after them.
const BATCH: usize = 16;

thread_local! {
    /// As the searcher of single queries: kept, so that none allocates.
    static SEARCHERS: RefCell<[Searcher; TURNS]> = RefCell::default();
}

impl HnswTable {
    /// Queries that [`HnswTable::search_many`] searches together, as far as that pays.
    pub(super) fn searched_together(&self) -> usize {
        match self.takes_turns() {
            true => BATCH,
            false => 1,
        }
    }

    /// Answers `queries` as [`Table::search`] does one by one, on the calling thread. In a table of 512 MiB and more
    /// the walks of two queries take turns.
    ///
    /// # Errors
    /// As there, for the first query that is refused.
    pub fn search_many(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        if !self.takes_turns() {
            return queries
                .iter()
                .map(|query| self.search(query, context))
                .collect();
        }
        crate::batch::answers(self, queries, context)
            .into_iter()
            .collect()
    }

    /// Whether [`HnswTable::search_many`] does more than one query after the other.
    pub(super) fn takes_turns(&self) -> bool {
        self.graph.image().bytes() >= LARGE
    }

    /// [`Table::search_each`], with walks that take turns.
    pub(super) fn in_turns(
        &self,
        queries: &[Query],
        context: &mut Context,
        answer: &mut TakeAnswer<'_>,
    ) {
        SEARCHERS.with(|kept| {
            // If this panics, the next batch begins with new searchers.
            let mut searchers = kept.take();
            self.take_turns(&mut searchers, queries, context, answer);
            kept.replace(searchers);
        });
    }

    fn take_turns(
        &self,
        searchers: &mut [Searcher; TURNS],
        queries: &[Query],
        context: &mut Context,
        answer: &mut TakeAnswer<'_>,
    ) {
        let graph = &self.graph;
        let mut waiting = 0..queries.len();
        // The query that each searcher walks for, and how many rows it wants.
        let mut walking: [Option<(usize, usize)>; TURNS] = Default::default();
        loop {
            for (searcher, walking) in searchers.iter_mut().zip(&mut walking) {
                // A query that needs no walk, or a walk through a filter, is answered at once.
                while walking.is_none()
                    && let Some(number) = waiting.next()
                {
                    let query = &queries[number];
                    if query.requested_filter().is_some() {
                        answer(number, searcher.search(graph, query, context));
                        continue;
                    }
                    match searcher.prepare(graph, query) {
                        Ok(Some(Size { k, scans: true, .. })) => {
                            answer(number, searcher.answer(graph, query, k, false, context));
                        }
                        Ok(Some(Size { k, ef, .. })) => {
                            searcher.begin(graph, k, ef);
                            *walking = Some((number, k));
                        }
                        Ok(None) => answer(number, Ok(&[])),
                        Err(refused) => answer(number, Err(refused)),
                    }
                }
            }
            if walking.iter().all(Option::is_none) {
                return;
            }
            for (searcher, walking) in searchers.iter_mut().zip(&mut walking) {
                let Some((number, k)) = *walking else {
                    continue;
                };
                if searcher.advance(graph) {
                    searcher.prefetch(graph);
                } else {
                    let found = searcher.end(graph, k);
                    let query = &queries[number];
                    answer(number, searcher.answer(graph, query, k, found, context));
                    *walking = None;
                }
            }
            for (searcher, walking) in searchers.iter_mut().zip(&walking) {
                if walking.is_some() {
                    searcher.compare(graph);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chiplet_table::Filter;
    use proptest::prelude::*;

    use super::*;
    use crate::{HnswConfig, Metric, RowFormat};

    fn table(rerank: bool) -> HnswTable {
        let mut config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
        if rerank {
            config = config.rows(RowFormat::Sq8).rerank(RowFormat::F32);
        }
        let rows: Vec<f32> = (0..1200).map(|i| (i * 7919 % 1201) as f32).collect();
        HnswTable::build(&rows, 3, &config).unwrap()
    }

    proptest! {
        #[test]
        fn turns_change_no_answer(
            asked in proptest::collection::vec((0.0f32..1200.0, 1usize..20, 1usize..60, any::<bool>()), 0..12),
            rerank in any::<bool>(),
        ) {
            let table = table(rerank);
            let queries: Vec<Query> = asked
                .into_iter()
                .map(|(x, k, ef, filtered)| {
                    let query = Query::new([x, 1200.0 - x, x / 2.0]).top(k).ef(ef);
                    if filtered { query.filter(Filter::matching(|id| id % 3 == 0)) } else { query }
                })
                .collect();
            let (mut context, mut expected_context) = (Context::default(), Context::default());
            let expected: Vec<_> = queries
                .iter()
                .map(|query| table.search(query, &mut expected_context).unwrap())
                .collect();
            let found = in_turns(&table, &queries, &mut context);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(context.bytes(), expected_context.bytes());
        }
    }

    /// What walks that take turns find for `queries`, each of which is found.
    fn in_turns(table: &HnswTable, queries: &[Query], context: &mut Context) -> Vec<Vec<Neighbor>> {
        let mut found = vec![None; queries.len()];
        table.in_turns(queries, context, &mut |number, answer| {
            let first = found[number].replace(answer.unwrap().to_vec());
            assert!(first.is_none(), "query {number} is answered once");
        });
        found.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn in_a_batch_a_query_is_refused_alone() {
        let table = table(false);
        let near = |x| Query::new([x, x, x]).top(3);
        for bad in [Query::new([1.0]), near(f32::MAX)] {
            let queries = [near(1.0), bad, near(900.0)];
            let mut answered = 0;
            table.in_turns(&queries, &mut Context::default(), &mut |number, answer| {
                let alone = table.search(&queries[number], &mut Context::default());
                assert_eq!(answer.map(<[_]>::to_vec), alone);
                assert_eq!(alone.is_err(), number == 1);
                answered += 1;
            });
            assert_eq!(answered, 3);
            let answers = table.search_batch(&queries, &mut Context::default());
            let alone = |query| table.search(query, &mut Context::default());
            assert_eq!(answers, queries.each_ref().map(alone));
            // A query that is refused refuses all.
            let together = table.search_many(&queries, &mut Context::default());
            assert_eq!(together.unwrap_err(), alone(&queries[1]).unwrap_err());
        }
    }
}
