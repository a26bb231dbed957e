//! Many queries at once: each list is scanned for all that visit it while it is in cache.

use std::borrow::Cow;

use chiplet_table::{Context, Neighbor, Query, SearchError};

use super::scratch::Scratch;
use super::store::Store;
use super::{IvfTable, Scans, own};

/// Queries that are searched together. Their buffers, some kilobytes each, shall stay in a private cache.
const TOGETHER: usize = 64;

/// What the queries' tables of entries may take of a private cache, in bytes.
const TABLES: usize = 128 << 10;

fn together(store: &Store) -> usize {
    (TABLES / store.shape().coding.table_bytes().max(1)).clamp(1, TOGETHER)
}

impl IvfTable {
    /// Queries that [`IvfTable::search_many`] searches together.
    pub(super) fn searched_together(&self) -> usize {
        match &self.scans {
            Scans::Own { store, .. } => together(store),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => 1,
        }
    }

    /// Answers `queries` as [`Table::search`](chiplet_table::Table::search) does one by one, on the calling thread. A list is scanned for all queries that visit
    /// it, one after the other, which pays where the lists of one query exceed a private cache.
    ///
    /// # Errors
    /// As there, for the first query that is refused.
    pub fn search_many(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let asked = queries.iter().map(|query| self.asked(query));
        let asked: Vec<Cow<'_, Query>> = asked.collect::<Result<_, _>>()?;
        let found = self.found_many(&asked, context)?;
        let answers = queries.iter().zip(found);
        answers
            .map(|(query, found)| self.answer(query, found, context))
            .collect()
    }

    /// What the lists have for each of `queries`, by their codes.
    fn found_many(
        &self,
        queries: &[Cow<'_, Query>],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let store = match &self.scans {
            Scans::Own { store, .. } => store,
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => {
                return queries
                    .iter()
                    .map(|query| self.found(query, context))
                    .collect();
            }
        };
        let mut answers = Vec::with_capacity(queries.len());
        let mut searches: Vec<Scratch> = Vec::new();
        let together = together(store);
        searches.resize_with(queries.len().min(together), Scratch::default);
        let mut visits = Vec::new();
        for queries in queries.chunks(together) {
            let searches = &mut searches[..queries.len()];
            for (query, search) in queries.iter().zip(&mut *searches) {
                self.prepare(query, search)?;
            }
            self.coarse_all(searches, context)?;
            for (query, search) in queries.iter().zip(&mut *searches) {
                own::begin(store, query, search);
            }
            // First the list nearest to each query, which soon bounds the search of the others.
            for first in [true, false] {
                visits.clear();
                for (number, scratch) in searches.iter().enumerate() {
                    let (nearest, others) = scratch.visits.split_at(scratch.visits.len().min(1));
                    let chosen = if first { nearest } else { others };
                    visits.extend(
                        chosen
                            .iter()
                            .map(|&(list, distance)| (list, number, distance)),
                    );
                }
                visits.sort_unstable_by_key(|&(list, number, _)| (list, number));
                for &(list, number, distance) in &visits {
                    let scratch = &mut searches[number];
                    own::scan(
                        store,
                        &queries[number],
                        list as usize,
                        distance,
                        scratch,
                        context,
                    )?;
                }
            }
            answers.extend(searches.iter_mut().map(|search| search.best.answer()));
        }
        Ok(answers)
    }
}
