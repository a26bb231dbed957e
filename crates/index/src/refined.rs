//! `Refined`: a table of compressed rows that answers with exact distances.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use chiplet_table::{Context, Neighbor, Probe, Query, SearchError, SplitTable, Table, TakeAnswer};

use crate::error::BuildError;
use crate::exact::{Compared, ExactRows, nearest_exactly, widen_into, widened};
use crate::flat::FlatTable;

/// A table that compares the answers of another one, `inner`, with exact rows: it asks `inner` for 1.5 times the wanted
/// rows and 16 more, and answers with the nearest of them by exact distance.
///
/// Ids are those of `inner`, and the exact rows must have all of them. A filter, `ef` and `nprobe` are applied by
/// `inner`, a radius to exact distances. A query that is cut is refined once, where its parts are merged, and has the
/// same answer however it was cut.
///
/// ```
/// use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Refined, RowFormat};
/// use chiplet_table::{Context, Query, Table};
///
/// let rows: Vec<f32> = (0..2000).map(|x| (x % 89) as f32).collect(); // 1,000 rows of 2
/// let config = HnswConfig::new(Metric::L2).rows(RowFormat::Sq8);
/// let coarse = HnswTable::build(&rows, 2, &config)?;
/// let exact = FlatTable::build(&rows, 2, Metric::L2)?;
/// let table = Refined::new(coarse, exact)?;
/// let hits = table.search(&Query::new([10.25, 11.0]).top(3), &mut Context::default())?;
/// assert_eq!(hits[0].distance, 0.0625);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Refined<T, R = FlatTable> {
    inner: T,
    rows: Arc<R>,
}

/// Where the candidates lie that the inner table has found.
type Coarse = Result<Range<usize>, SearchError>;

/// What a thread keeps from one call of [`Table::search_each`] to the next.
#[derive(Default)]
struct Scratch {
    /// What the inner table is asked.
    asked: Vec<Query>,
    /// Which query each is, and where its candidates lie once it is answered.
    found: Vec<(usize, Option<Coarse>)>,
    candidates: Vec<u64>,
    compared: Compared,
}

/// Candidates that there is room for between calls: 1.5 MiB.
const KEPT: usize = 1 << 16;

thread_local! {
    static KEPT_BY_THREAD: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl<T: Table, R: ExactRows> Refined<T, R> {
    /// A table over `inner` whose answers are compared with `rows`.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if they differ in dimension.
    pub fn new(inner: T, rows: R) -> Result<Self, BuildError> {
        if inner.dim() != rows.dim() {
            return Err(BuildError::Setting {
                setting: "the dimension of the exact rows",
                value: rows.dim().to_string(),
                accepted: "that of the table which they refine",
            });
        }
        Ok(Self {
            inner,
            rows: Arc::new(rows),
        })
    }

    fn widened(&self, query: &Query) -> Result<Query, SearchError> {
        widened(query, self.inner.dim())
    }

    fn split(&self) -> Result<&dyn SplitTable, SearchError> {
        let whole = || SearchError::Backend("the refined table's queries cannot be cut".to_owned());
        self.inner.as_split().ok_or_else(whole)
    }
}

impl<T: fmt::Debug, R: fmt::Debug> fmt::Debug for Refined<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refined")
            .field("inner", &self.inner)
            .field("rows", &self.rows)
            .finish()
    }
}

impl<T: Table, R: ExactRows + 'static> Table for Refined<T, R> {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    /// The inner table and the exact rows.
    fn size_bytes(&self) -> u64 {
        self.inner
            .size_bytes()
            .saturating_add(self.rows.size_bytes())
    }

    /// The inner table's: a query reads few exact rows beside it.
    fn residence(&self) -> Vec<(u32, u64)> {
        self.inner.residence()
    }

    /// Of the inner table. The exact rows stay where they are.
    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        let copy = self.inner.copy_to(nodes, pace)?;
        Ok(copy.map(|inner| {
            let rows = Arc::clone(&self.rows);
            Box::new(Refined { inner, rows }) as Box<dyn Table>
        }))
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let found = self.inner.search(&self.widened(query)?, context)?;
        nearest_exactly(&*self.rows, query, &found, context)
    }

    /// By [`Table::search_each`].
    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        crate::batch::answers(self, queries, context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        let mut scratch = KEPT_BY_THREAD.take().unwrap_or_default();
        let Scratch {
            asked,
            found,
            candidates,
            compared,
        } = &mut *scratch;
        found.clear();
        candidates.clear();
        for (number, query) in queries.iter().enumerate() {
            if asked.len() == found.len() {
                asked.push(Query::new([]));
            }
            match widen_into(query, self.inner.dim(), &mut asked[found.len()]) {
                Ok(()) => found.push((number, None)),
                Err(refused) => answer(number, Err(refused)),
            }
        }
        let asked = &mut asked[..found.len()];
        self.inner.search_each(asked, context, &mut |at, coarse| {
            let coarse = coarse.map(|coarse| {
                let start = candidates.len();
                candidates.extend(coarse.iter().map(|candidate| candidate.id));
                start..candidates.len()
            });
            if let Some((_, place)) = found.get_mut(at) {
                *place = Some(coarse);
            }
        });
        for (number, coarse) in found.drain(..) {
            let lost = || SearchError::Backend("the refined table left a query out".to_owned());
            match coarse.unwrap_or_else(|| Err(lost())) {
                Ok(coarse) => {
                    let candidates = candidates[coarse].iter().copied();
                    let query = &queries[number];
                    answer(
                        number,
                        compared.nearest(&*self.rows, query, candidates, context),
                    );
                }
                Err(error) => answer(number, Err(error)),
            }
        }
        // Filters and attachments are the callers', who may want to see them go. The vectors' memory stays.
        let nothing = Query::new([]);
        asked
            .iter_mut()
            .for_each(|query| query.clone_from(&nothing));
        candidates.clear();
        candidates.shrink_to(KEPT);
        compared.shrink(KEPT);
        KEPT_BY_THREAD.set(Some(scratch));
    }

    fn batch_size(&self) -> usize {
        self.inner.batch_size()
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        self.inner.as_split().map(|_| self as &dyn SplitTable)
    }
}

impl<T: Table, R: ExactRows + 'static> SplitTable for Refined<T, R> {
    fn coarse(&self, query: &Query, context: &mut Context) -> Result<Vec<Probe>, SearchError> {
        self.split()?.coarse(&self.widened(query)?, context)
    }

    fn grain(&self) -> usize {
        self.inner.as_split().map_or(1, SplitTable::grain)
    }

    /// The candidates within `probes[unit]`, with the inner table's distances and more of them than `query.k()`:
    /// [`SplitTable::merge`] compares them.
    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let query = self.widened(query)?;
        self.split()?.scan(&query, probes, unit, context)
    }

    fn merge(
        &self,
        query: &Query,
        parts: Vec<Vec<Neighbor>>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let found = self.split()?.merge(&self.widened(query)?, parts, context)?;
        nearest_exactly(&*self.rows, query, &found, context)
    }
}
