//! Whether rows can be kept in a format.

use crate::error::BuildError;
use crate::metric::norm;

use super::row_format::RowFormat;

/// Checks that `rows` (`[n][dim]`, prepared for the metric) can be kept in `format`.
///
/// # Errors
/// [`BuildError::DimensionTooLarge`], [`BuildError::OutOfRange`], [`BuildError::TooSmall`].
pub(crate) fn check_rows(rows: &[f32], dim: usize, format: RowFormat) -> Result<(), BuildError> {
    let limit = format.most_components();
    if dim > limit {
        return Err(BuildError::DimensionTooLarge { dim, limit });
    }
    match format {
        RowFormat::F16 => {
            let outside = |x: &f32| half::f16::from_f32(*x).is_infinite();
            if let Some(at) = rows.iter().position(outside) {
                return Err(BuildError::OutOfRange {
                    row: at / dim,
                    component: at % dim,
                    value: rows[at],
                    format: "f16",
                    limit: half::f16::MAX.to_f32(),
                });
            }
            check_small(rows, dim)
        }
        // bfloat16 holds every row that its metric accepts.
        _ => Ok(()),
    }
}

/// Refuses rows that `f16` rounds to little or nothing: components under 6e-5 lose digits, those under 3e-8 all of them.
/// Small components of longer rows lose nothing that counts, nor do single rows: beside the others they are zeros.
fn check_small(rows: &[f32], dim: usize) -> Result<(), BuildError> {
    let lost = |row: &&[f32]| {
        let pairs = row.iter().map(|&x| (x, half::f16::from_f32(x).to_f32()));
        let lost: f64 = pairs
            .map(|(x, y)| (f64::from(x) - f64::from(y)).powi(2))
            .sum();
        lost.sqrt() > norm(row) / 100.0
    };
    let small = rows.chunks_exact(dim).enumerate();
    let mut small = small.filter(|(_, row)| lost(row)).peekable();
    let Some(&(row, first)) = small.peek() else {
        return Ok(());
    };
    let number = small.count();
    if number <= rows.len() / dim / 100 {
        return Ok(());
    }
    Err(BuildError::TooSmall {
        row,
        norm: norm(first),
        rows: number,
        format: "f16",
    })
}
