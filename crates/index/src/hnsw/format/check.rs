//! Whether rows can be kept in a format.

use crate::error::BuildError;
use crate::metric::norm;
use crate::progress::Watch;

use super::row_format::RowFormat;

/// Checks that `rows` (`[n][dim]`, prepared for the metric) can be kept in `format`.
///
/// # Errors
/// [`BuildError::DimensionTooLarge`], [`BuildError::OutOfRange`], [`BuildError::TooSmall`], [`BuildError::Stopped`].
pub(crate) fn check_rows(
    rows: &[f32],
    dim: usize,
    format: RowFormat,
    watch: &Watch<'_>,
) -> Result<(), BuildError> {
    let limit = format.most_components();
    if dim > limit {
        return Err(BuildError::DimensionTooLarge { dim, limit });
    }
    match format {
        RowFormat::F16 => {
            let outside = |x: &f32| half::f16::from_f32(*x).is_infinite();
            for (number, row) in rows.chunks_exact(dim).enumerate() {
                if let Some(component) = row.iter().position(outside) {
                    return Err(BuildError::OutOfRange {
                        row: number,
                        component,
                        value: row[component],
                        format: "f16",
                        limit: half::f16::MAX.to_f32(),
                    });
                }
                watch.look()?;
            }
            check_small(rows, dim, "f16", rounded_away, watch)
        }
        // bfloat16 holds every row that its metric accepts.
        _ => Ok(()),
    }
}

/// Whether `f16` rounds `row` to little or nothing: components under 6e-5 lose digits, those under 3e-8 all of them.
/// Small components of longer rows lose nothing that counts.
fn rounded_away(row: &[f32]) -> bool {
    let pairs = row.iter().map(|&x| (x, half::f16::from_f32(x).to_f32()));
    let lost: f64 = pairs
        .map(|(x, y)| (f64::from(x) - f64::from(y)).powi(2))
        .sum();
    lost.sqrt() > norm(row) / 100.0
}

/// Refuses rows of which more than a hundredth are `lost` in `format`. Single rows are not refused: beside the others
/// they are zeros.
///
/// # Errors
/// [`BuildError::TooSmall`], [`BuildError::Stopped`].
pub(crate) fn check_small(
    rows: &[f32],
    dim: usize,
    format: &'static str,
    lost: impl Fn(&[f32]) -> bool,
    watch: &Watch<'_>,
) -> Result<(), BuildError> {
    let (mut first, mut number) = (None, 0);
    for (row, values) in rows.chunks_exact(dim).enumerate() {
        if lost(values) {
            first.get_or_insert((row, values));
            number += 1;
        }
        watch.look()?;
    }
    match first {
        Some((row, values)) if number > rows.len() / dim / 100 => Err(BuildError::TooSmall {
            row,
            norm: norm(values),
            rows: number,
            format,
        }),
        _ => Ok(()),
    }
}
