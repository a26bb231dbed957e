//! Many queries at once: their walks take turns, so that one computes while the rows of the others are on their way.

use std::cell::RefCell;

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

use super::HnswTable;
use super::search::{Searcher, Size};

/// Walks that take turns. Of 1,500,000 rows of 128 floats (972 MB, twice the L3) two walks that took turns answered
/// 1.09-1.13 times as many queries as one after the other, four 1.01-1.05 times.
const TURNS: usize = 2;

/// Smaller tables are searched one query after the other: of 137 MB, less than the L3, turns gave 0.88-0.93. Measured on a
/// Xeon whose virtual machine shows an L3 of 480 MiB.
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

    /// Answers `queries` as [`Table::search`] does one by one, on the calling thread. In a table of 512 MiB and more the
    /// walks of two queries take turns.
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
        self.in_turns(queries, context)
    }

    /// Whether [`HnswTable::search_many`] does more than one query after the other.
    fn takes_turns(&self) -> bool {
        self.graph.image().bytes() >= LARGE
    }

    fn in_turns(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        SEARCHERS.with(|kept| {
            let mut searchers = kept.take();
            // A refused query leaves another one's walk unfinished, so those searchers are not used again.
            let answers = self.take_turns(&mut searchers, queries, context)?;
            kept.replace(searchers);
            Ok(answers)
        })
    }

    fn take_turns(
        &self,
        searchers: &mut [Searcher; TURNS],
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let graph = &self.graph;
        let mut answers = vec![Vec::new(); queries.len()];
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
                        answers[number] = searcher.search(graph, query, context)?;
                    } else if let Some(Size { k, ef, scans }) = searcher.prepare(graph, query)? {
                        if scans {
                            answers[number] = searcher.answer(graph, query, k, false, context)?;
                        } else {
                            searcher.begin(graph, k, ef);
                            *walking = Some((number, k));
                        }
                    }
                }
            }
            if walking.iter().all(Option::is_none) {
                return Ok(answers);
            }
            for (searcher, walking) in searchers.iter_mut().zip(&mut walking) {
                let Some((number, k)) = *walking else {
                    continue;
                };
                if searcher.advance(graph) {
                    searcher.prefetch(graph);
                } else {
                    let found = searcher.end(graph, k);
                    answers[number] =
                        searcher.answer(graph, &queries[number], k, found, context)?;
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
            let found = table.take_turns(&mut Default::default(), &queries, &mut context).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(context.bytes(), expected_context.bytes());
        }
    }

    #[test]
    fn in_a_batch_a_query_is_refused_alone() {
        let table = table(false);
        let near = |x| Query::new([x, x, x]).top(3);
        // The first bad one is seen by the check that all tables share, the second only by its search.
        for bad in [Query::new([1.0]), near(f32::MAX)] {
            let queries = [near(1.0), bad, near(900.0)];
            let answers = crate::batch::answers(
                &table,
                &queries,
                &mut Context::default(),
                |table, queries, context| table.in_turns(queries, context),
            );
            for (query, answer) in queries.iter().zip(&answers) {
                assert_eq!(&table.search(query, &mut Context::default()), answer);
            }
            assert!(answers[1].is_err());
            assert_eq!(
                table.search_batch(&queries, &mut Context::default()),
                answers
            );
        }
    }

    #[test]
    fn a_query_that_is_refused_refuses_all() {
        let table = table(false);
        let queries = [Query::new([1.0, 2.0, 3.0]), Query::new([1.0])];
        let alone = table
            .search(&queries[1], &mut Context::default())
            .unwrap_err();
        let together = table.in_turns(&queries, &mut Context::default());
        assert_eq!(together.unwrap_err(), alone);
        // The walk that was given up left no marks behind.
        let (mut context, mut expected_context) = (Context::default(), Context::default());
        let expected = table.search(&queries[0], &mut expected_context).unwrap();
        let later = table.in_turns(&queries[..1], &mut context).unwrap();
        assert_eq!(later, [expected]);
        assert_eq!(context.bytes(), expected_context.bytes());
        assert_eq!(
            table
                .search_many(&queries, &mut Context::default())
                .unwrap_err(),
            alone
        );
    }
}
