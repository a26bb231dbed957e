//! Which values the codes of a table stand for, and a row as it is written.

use crate::kernel::{self, Width};
use crate::metric::Metric;

use super::few_bits::FewBits;
use super::grid::Grid;
use super::row_format::RowFormat;

/// Which values the codes of a table stand for; each without values where the table has no such codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grids<'a> {
    pub(crate) bytes: Grid<'a>,
    /// Whether 8-bit rows have a constant, which says how much farther they are than their codes.
    pub(crate) constants: bool,
    pub(crate) few: FewBits<'a>,
}

impl<'a> Grids<'a> {
    /// Those of a table that has 8-bit codes at most, with constants.
    pub(crate) fn of_bytes(bytes: Grid<'a>) -> Self {
        let grid = Grid {
            low: &[],
            step: 1.0,
        };
        Self {
            bytes,
            constants: true,
            few: FewBits {
                width: Width::default(),
                grid,
                rotated: false,
            },
        }
    }
}

impl Grids<'_> {
    /// Bytes from one row of `dim` components to the next.
    pub(crate) fn stride(&self, format: RowFormat, dim: usize) -> usize {
        format.stride_with(dim, self.constants)
    }

    /// Writes `row` in `format` to `out`, of [`Grids::stride`] bytes.
    pub(crate) fn write(&self, format: RowFormat, metric: Metric, row: &[f32], out: &mut [u8]) {
        match format {
            RowFormat::F32 => {
                for (out, x) in out.as_chunks_mut().0.iter_mut().zip(row) {
                    *out = x.to_le_bytes();
                }
            }
            RowFormat::F16 => {
                for (out, &x) in out.as_chunks_mut().0.iter_mut().zip(row) {
                    *out = half::f16::from_f32(x).to_le_bytes();
                }
            }
            RowFormat::Bf16 => {
                for (out, &x) in out.as_chunks_mut().0.iter_mut().zip(row) {
                    *out = half::bf16::from_f32(x).to_le_bytes();
                }
            }
            RowFormat::Sq8 => {
                let grid = self.bytes;
                let codes: Vec<u8> = grid.codes(row).collect();
                // `as` saturates.
                let farther = self.constants.then(|| grid.farther(row, metric) as i32);
                kernel::write_row(&codes, farther, out);
            }
            RowFormat::Sq4 | RowFormat::Sq2 | RowFormat::Sq1 => self.few.write(metric, row, out),
        }
    }
}
