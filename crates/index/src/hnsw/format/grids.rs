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

    /// The `dim` components of a row that [`Grids::write`] wrote, as it is kept; `None` of codes of 4 bits and fewer.
    pub(crate) fn read(&self, format: RowFormat, row: &[u8], dim: usize) -> Option<Vec<f32>> {
        let halves = || row.as_chunks().0.iter().take(dim).copied();
        Some(match format {
            RowFormat::F32 => {
                let floats = row.as_chunks().0.iter().take(dim).copied();
                floats.map(f32::from_le_bytes).collect()
            }
            RowFormat::F16 => halves()
                .map(|x| half::f16::from_le_bytes(x).to_f32())
                .collect(),
            RowFormat::Bf16 => halves()
                .map(|x| half::bf16::from_le_bytes(x).to_f32())
                .collect(),
            RowFormat::Sq8 => {
                let Grid { low, step } = self.bytes;
                let codes = low.iter().zip(row).take(dim);
                codes
                    .map(|(low, &code)| low + step * f32::from(code))
                    .collect()
            }
            RowFormat::Sq4 | RowFormat::Sq2 | RowFormat::Sq1 => return None,
        })
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
