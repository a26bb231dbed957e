//! Exact distances in the place of coarse ones: what is asked of a table whose rows are compressed, and what becomes of its
//! answer.
//!
//! The rule stands here for [`Refined`](crate::Refined) tables and for those that keep the exact rows themselves: the table
//! is asked for more rows than are wanted ([`RowFormat::reranked`]), all that it answers are compared with exact rows, and
//! the nearest of these are the answer. A filter goes with the question, as a row that may not be returned need not be
//! compared. A radius does not: it is one of exact distances.

use chiplet_table::{Context, Neighbor, Query, SearchError, merge_nearest};

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
    /// compares it: for [`Metric::Cosine`] of length 1 (or 0). What was read goes into `context`, and many rows are read with
    /// a look at it now and then ([`Context::check`]). A store that waits for a disk or for another machine does so in
    /// [`Context::block_in_place`].
    ///
    /// # Errors
    /// [`SearchError::Backend`] that names an id which has no row; [`SearchError::Stopped`]; what the store itself reports.
    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError>;
}

/// What a coarse table of rows of `dim` is asked for `query`: for more rows, at any distance.
///
/// # Errors
/// As [`Query::check`]: what is wrong with `query` might not be with what is asked instead.
pub(crate) fn widened(query: &Query, dim: usize) -> Result<Query, SearchError> {
    query.check(dim)?;
    let wide = query.clone().top(RowFormat::Sq4.reranked(query.k()));
    Ok(match query.requested_radius() {
        Some(_) => wide.radius(f32::INFINITY),
        None => wide,
    })
}

/// The answer to `query`: the nearest of the `candidates` that a coarse table gave for the [`widened`] one.
///
/// # Errors
/// As [`ExactRows::distances`].
pub(crate) fn nearest_exactly(
    rows: &impl ExactRows,
    query: &Query,
    candidates: &[Neighbor],
    context: &mut Context,
) -> Result<Vec<Neighbor>, SearchError> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    context.check()?;
    let vector = rows.metric().prepare_query(query.vector())?;
    let ids: Vec<u64> = candidates.iter().map(|candidate| candidate.id).collect();
    let mut distances = vec![0.0; ids.len()];
    rows.distances(&vector, &ids, &mut distances, context)?;
    let rows = ids.into_iter().zip(distances);
    let rows = rows.map(|(id, distance)| Neighbor { id, distance });
    let near = rows.filter(|row| query.reaches(row.distance)).collect();
    Ok(merge_nearest(query.k(), vec![near]))
}
