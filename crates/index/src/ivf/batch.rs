//! Many queries at once: each list is scanned for all that visit it while it is in cache.

use chiplet_table::{Context, Neighbor, Query, SearchError, TakeAnswer};

use super::scratch::{self, Scratch, Several};
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
    /// Queries that [`IvfTable::search_together`] searches together.
    pub(super) fn searched_together(&self) -> usize {
        match &self.scans {
            Scans::Own { store, .. } => together(store),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => 1,
        }
    }

    /// Answers `queries` as [`Table::search`](chiplet_table::Table::search) does one by one, on the calling thread. A
    /// list is scanned for all queries that visit it, one after the other, which pays where the lists of one query
    /// exceed a private cache.
    ///
    /// # Errors
    /// As there, for the first query that is refused.
    pub fn search_many(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        crate::batch::answers(self, queries, context)
            .into_iter()
            .collect()
    }

    /// [`Table::search_each`](chiplet_table::Table::search_each) of lists that this crate scans.
    pub(super) fn search_together(
        &self,
        store: &Store,
        queries: &[Query],
        context: &mut Context,
        answer: &mut TakeAnswer<'_>,
    ) {
        let together = together(store);
        scratch::with_many(queries.len().min(together), |several| {
            let Several {
                searches,
                numbers,
                visits,
                found,
                compared,
            } = several;
            for (queries, first) in queries.chunks(together).zip((0..).step_by(together)) {
                numbers.clear();
                for (number, query) in queries.iter().enumerate() {
                    match self.prepare(query, &mut searches[numbers.len()]) {
                        Ok(()) => numbers.push(number),
                        Err(refused) => answer(first + number, Err(refused)),
                    }
                }
                let searches = &mut searches[..numbers.len()];
                let asked = |at: usize| &queries[numbers[at]];
                if let Err(error) = self.scan_together(store, asked, searches, visits, context) {
                    let left = numbers.iter();
                    left.for_each(|number| answer(first + number, Err(error.clone())));
                    continue;
                }
                for (at, search) in searches.iter_mut().enumerate() {
                    let query = asked(at);
                    let rows = search.best.sorted();
                    let answered = match self.full() {
                        Some(full) => {
                            let candidates = rows.map(|(_, id)| id);
                            compared.nearest(&full, query, candidates, context)
                        }
                        None => {
                            found.clear();
                            found.extend(rows.map(|(distance, id)| Neighbor { id, distance }));
                            Ok(&found[..])
                        }
                    };
                    answer(first + numbers[at], answered);
                }
            }
        });
    }

    /// Leaves in each of the prepared `searches` what the lists have for its query, by their codes.
    fn scan_together<'q>(
        &self,
        store: &Store,
        query: impl Fn(usize) -> &'q Query,
        searches: &mut [Scratch],
        visits: &mut Vec<(u32, usize, f32)>,
        context: &mut Context,
    ) -> Result<(), SearchError> {
        self.coarse_all(&query, searches, context)?;
        for (at, search) in searches.iter_mut().enumerate() {
            own::begin(store, self.asked_widths(query(at)), search);
        }
        // First the list nearest to each query, which soon bounds the search of the others.
        for first in [true, false] {
            visits.clear();
            for (at, scratch) in searches.iter().enumerate() {
                let (nearest, others) = scratch.visits.split_at(scratch.visits.len().min(1));
                let chosen = if first { nearest } else { others };
                visits.extend(chosen.iter().map(|&(list, distance)| (list, at, distance)));
            }
            visits.sort_unstable_by_key(|&(list, at, _)| (list, at));
            for &(list, at, distance) in &*visits {
                let scratch = &mut searches[at];
                own::scan(store, query(at), list as usize, distance, scratch, context)?;
            }
        }
        Ok(())
    }
}
