//! Exact distances in the place of coarse ones: what is asked of a table whose rows are compressed, and what becomes of
//! its answer.
//!
//! The rule stands here for [`Refined`](crate::Refined) tables and for those that keep the exact rows themselves: the
//! table is asked for more rows than are wanted ([`RowFormat::reranked`]), all that it answers are compared with exact
//! rows, and the nearest of these are the answer. A filter goes with the question, as a row that may not be returned
//! need not be compared. A radius does not: it is one of exact distances.

use chiplet_table::{Context, Neighbor, Query, SearchError};

use crate::hnsw::RowFormat;
use crate::metric::Metric;

/// What a store answers that has no row for a candidate: `problem` says it of the candidate.
pub(crate) fn no_row(problem: std::fmt::Arguments<'_>) -> SearchError {
    SearchError::Backend(format!(
        "candidate {problem}: the table and the rows that it is compared with do not belong together"
    ))
}

/// Rows, by id, that candidates are compared with: a [`FlatTable`](crate::FlatTable), or a store of your own.
///
/// ```
/// use chiplet_index::{ExactRows, FlatTable, Metric};
/// use chiplet_table::Context;
///
/// let rows = FlatTable::build([0.0, 0.0, 3.0, 4.0, 1.0, 0.0], 2, Metric::L2)?;
/// let mut distances = [0.0; 2];
/// let mut context = Context::default();
/// ExactRows::distances(&rows, &[0.0, 0.0], &[1, 2], &mut distances, &mut context)?;
/// assert_eq!(distances, [25.0, 1.0]);
/// assert_eq!(context.bytes(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ExactRows: Send + Sync {
    /// Components of each row.
    fn dim(&self) -> usize;

    /// The metric of the distances.
    fn metric(&self) -> Metric;

    /// Memory that the rows occupy, in bytes.
    fn size_bytes(&self) -> u64;

    /// The distances of `query` to the rows `ids`, into `distances`, which has their length. `query` is as the metric
    /// compares it: for [`Metric::Cosine`] of length 1 (or 0). What was read goes into `context`, and many rows are
    /// read with a look at it now and then ([`Context::check`]). A store that waits for a disk or for another machine
    /// does so in [`Context::block_in_place`].
    ///
    /// # Errors
    /// [`SearchError::Backend`] that names an id which has no row; [`SearchError::Stopped`]; what the store itself
    /// reports.
    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError>;
}

/// How many rows a coarse table is asked for in the place of `query`'s, and within which radius.
pub(crate) fn widths(query: &Query) -> (usize, Option<f32>) {
    let radius = query.requested_radius().map(|_| f32::INFINITY);
    (RowFormat::Sq4.reranked(query.k()), radius)
}

/// What a coarse table of rows of `dim` is asked for `query`: for more rows, at any distance.
///
/// # Errors
/// As [`Query::check`]: what is wrong with `query` might not be with what is asked instead.
pub(crate) fn widened(query: &Query, dim: usize) -> Result<Query, SearchError> {
    let mut wide = Query::new([]);
    widen_into(query, dim, &mut wide)?;
    Ok(wide)
}

/// [`widened`], into a query's place.
///
/// # Errors
/// As there; `wide` is as it was then.
pub(crate) fn widen_into(query: &Query, dim: usize, wide: &mut Query) -> Result<(), SearchError> {
    query.check(dim)?;
    wide.clone_from(query);
    let (k, radius) = widths(query);
    let asked = std::mem::replace(wide, Query::new([])).top(k);
    *wide = match radius {
        Some(radius) => asked.radius(radius),
        None => asked,
    };
    Ok(())
}

/// What comparing candidates once more takes, kept for the next query.
#[derive(Default)]
pub(crate) struct Compared {
    vector: Vec<f32>,
    ids: Vec<u64>,
    distances: Vec<f32>,
    hits: Vec<Neighbor>,
}

impl Compared {
    /// The answer to `query`: the nearest of the candidates that a coarse table gave for the [`widened`] one.
    ///
    /// # Errors
    /// As [`ExactRows::distances`].
    pub(crate) fn nearest(
        &mut self,
        rows: &impl ExactRows,
        query: &Query,
        candidates: impl Iterator<Item = u64>,
        context: &mut Context,
    ) -> Result<&[Neighbor], SearchError> {
        self.hits.clear();
        self.ids.clear();
        self.ids.extend(candidates);
        if self.ids.is_empty() {
            return Ok(&self.hits);
        }
        context.check()?;
        let metric = rows.metric();
        metric.prepare_query_into(query.vector(), &mut self.vector)?;
        self.distances.clear();
        self.distances.resize(self.ids.len(), 0.0);
        rows.distances(&self.vector, &self.ids, &mut self.distances, context)?;
        let rows = self.ids.iter().zip(&self.distances);
        let rows = rows.map(|(&id, &distance)| Neighbor { id, distance });
        self.hits
            .extend(rows.filter(|row| query.reaches(row.distance)));
        self.hits.sort_unstable();
        self.hits.truncate(query.k());
        Ok(&self.hits)
    }
}

impl Compared {
    /// Gives back memory beyond room for so many candidates.
    pub(crate) fn shrink(&mut self, kept: usize) {
        self.ids.clear();
        self.ids.shrink_to(kept);
        self.distances.clear();
        self.distances.shrink_to(kept);
        self.hits.clear();
        self.hits.shrink_to(kept);
    }
}

/// [`Compared::nearest`], of one query.
///
/// # Errors
/// As there.
pub(crate) fn nearest_exactly(
    rows: &impl ExactRows,
    query: &Query,
    candidates: &[Neighbor],
    context: &mut Context,
) -> Result<Vec<Neighbor>, SearchError> {
    let mut compared = Compared::default();
    let candidates = candidates.iter().map(|candidate| candidate.id);
    compared.nearest(rows, query, candidates, context)?;
    Ok(compared.hits)
}
