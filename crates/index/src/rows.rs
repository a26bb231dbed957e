//! Rows on their way in: checked once, so that no search has to.

use std::borrow::Cow;

use crate::error::BuildError;
use crate::metric::{self, MAX_NORM, Metric};
use crate::progress::Watch;
use crate::reserve;

/// Components that a row may have: their bytes can be counted, and a query of as many can be made.
pub(crate) const MAX_DIM: usize = 1 << 24;

/// How far from 1 the length of a row may be that is taken as one of length 1: `f32` rounding over thousands of
/// components.
const NORM_TOLERANCE: f64 = 1e-3;

/// How many rows `rows` (`[n][dim]`) are.
pub(crate) fn count(rows: &[f32], dim: usize) -> Result<usize, BuildError> {
    if dim == 0 {
        return Err(BuildError::ZeroDimension);
    }
    if !rows.len().is_multiple_of(dim) {
        return Err(BuildError::RaggedRows {
            values: rows.len(),
            dim,
        });
    }
    Ok(rows.len() / dim)
}

/// Checks `rows` (`[n][dim]`) and returns `n`.
pub(crate) fn check(
    rows: &[f32],
    dim: usize,
    metric: Metric,
    watch: &Watch<'_>,
) -> Result<usize, BuildError> {
    let count = count(rows, dim)?;
    for (number, row) in rows.chunks_exact(dim).enumerate() {
        check_row(number, row, metric)?;
        watch.done(number + 1)?;
    }
    Ok(count)
}

/// Checks that `row` is finite and short enough for `metric`.
pub(crate) fn check_row(number: usize, row: &[f32], metric: Metric) -> Result<(), BuildError> {
    let norm = metric::norm(row);
    if !norm.is_finite() {
        // A finite row cannot overflow an f64 norm, so there is a culprit.
        let component = row.iter().position(|x| !x.is_finite()).unwrap_or(0);
        return Err(BuildError::NotFinite {
            row: number,
            component,
            value: row[component],
        });
    }
    if metric != Metric::Cosine && norm > MAX_NORM {
        return Err(BuildError::RowTooLong {
            row: number,
            norm,
            limit: MAX_NORM,
        });
    }
    Ok(())
}

/// Checks that `row`, which is taken as it is, has length 1 (or 0) where `metric` asks for it.
pub(crate) fn check_unit(id: usize, row: &[f32], metric: Metric) -> Result<(), BuildError> {
    let norm = metric::norm(row);
    if metric == Metric::Cosine && norm > 0.0 && (norm - 1.0).abs() > NORM_TOLERANCE {
        return Err(BuildError::NotNormalized { row: id, norm });
    }
    Ok(())
}

/// `rows` as `metric` compares them, copied only if that changes them.
pub(crate) fn prepared<'a>(
    rows: &'a [f32],
    dim: usize,
    metric: Metric,
    watch: &Watch<'_>,
) -> Result<Cow<'a, [f32]>, BuildError> {
    Ok(match metric {
        Metric::Cosine => {
            let mut own = reserve::room(rows.len())?;
            for row in rows.chunks_exact(dim) {
                let start = own.len();
                own.extend_from_slice(row);
                metric::normalize(&mut own[start..]);
                watch.look()?;
            }
            Cow::Owned(own)
        }
        Metric::L2 | Metric::InnerProduct => Cow::Borrowed(rows),
    })
}

impl Metric {
    /// `rows` (`[n][dim]`) prepared as the tables of this metric do it, for use with another library: checked, and
    /// scaled to length 1 for cosine.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::RaggedRows`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::Memory`].
    pub fn prepare_rows(self, rows: &[f32], dim: usize) -> Result<Cow<'_, [f32]>, BuildError> {
        let watch = Watch::none();
        check(rows, dim, self, &watch)?;
        prepared(rows, dim, self, &watch)
    }
}

/// `rows` as `metric` compares them: scaled to length 1 for cosine.
pub(crate) fn prepare(mut rows: Vec<f32>, dim: usize, metric: Metric) -> Vec<f32> {
    if metric == Metric::Cosine {
        rows.chunks_exact_mut(dim).for_each(metric::normalize);
    }
    rows
}
