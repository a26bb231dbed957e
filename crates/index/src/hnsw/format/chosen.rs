//! Which values codes shall stand for: chosen by the rows, once for a table.

use crate::error::BuildError;
use crate::kernel::Width;
use crate::metric::Metric;
use crate::progress::Watch;

use super::few_bits::{ChosenFew, FewBits};
use super::grid::Grid;
use super::grids::Grids;
use super::row_format::RowFormat;

/// Which values the codes of some rows stand for.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// For 8-bit codes: the smallest value of each component, and the step. Without values if no rows have such codes.
    pub(crate) low: Vec<f32>,
    pub(crate) step: f32,
    /// Whether 8-bit rows have a constant.
    pub(crate) constants: bool,
    /// For codes of 4 bits and fewer, if any rows have them.
    pub(crate) few: Option<ChosenFew>,
    width: Width,
}

impl Chosen {
    /// Chooses for `rows` (`[n][dim]`, prepared for the metric) that are kept in these `formats`, for the walk and for
    /// re-ranking.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(crate) fn of(
        rows: &[f32],
        dim: usize,
        metric: Metric,
        formats: (RowFormat, Option<RowFormat>),
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let has = |format| [Some(formats.0), formats.1].contains(&Some(format));
        let (low, step) = if has(RowFormat::Sq8) {
            Grid::of(rows, dim, metric, watch)?
        } else {
            (Vec::new(), 1.0)
        };
        let grid = Grid { low: &low, step };
        let constants = !(has(RowFormat::Sq8)
            && RowFormat::constant_costs_a_line(dim)
            && grid.says_all(rows, metric, watch)?);
        let width = formats.0.few_bits();
        let few = width.map(|width| FewBits::choose(width, rows, dim, metric, watch));
        Ok(Self {
            low,
            step,
            constants,
            few: few.transpose()?,
            width: width.unwrap_or_default(),
        })
    }

    pub(crate) fn grids(&self) -> Grids<'_> {
        let (low, step, rotated) = match &self.few {
            Some(chosen) => (&chosen.low[..], chosen.step, chosen.rotated),
            None => (&[][..], 1.0, false),
        };
        Grids {
            bytes: Grid {
                low: &self.low,
                step: self.step,
            },
            constants: self.constants,
            few: FewBits {
                width: self.width,
                grid: Grid { low, step },
                rotated,
            },
        }
    }
}
