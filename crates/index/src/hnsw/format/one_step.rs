//! One step for all rows of a table.

use crate::error::BuildError;
use crate::kernel::Width;
use crate::metric::Metric;
use crate::progress::Watch;

use super::own_step::code;

/// The share of rows that count for the step under L2 and cosine.
const COUNTED: f64 = 0.99;

/// What a component adds to the weight of changes along a row: `T^2 / (1 - T^2)` for the `T` of 0.2 that its authors
/// use.
const ALONG: f64 = 0.04 / 0.96;

/// Steps that are tried: each smaller than the one before by the fourth root of 2, the last one 256 times.
const TRIED: i32 = 32;

/// What the best step is judged by.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    /// The share of rows that count, those that a step changes least.
    counted: f64,
    /// What a change along the row itself weighs, to one at right angles to it.
    along: f64,
}

impl Goal {
    pub(super) fn of(metric: Metric, dim: usize) -> Self {
        match metric {
            // Far outliers would coarsen all others.
            Metric::L2 | Metric::Cosine => Self {
                counted: COUNTED,
                along: 1.0,
            },
            // Here they are the answers. And queries point where their answers do, so a row that comes out shorter
            // loses more than one that is turned: Guo et al., "Accelerating large-scale inference with anisotropic
            // vector quantization", 2020, theorem 3.3.
            Metric::InnerProduct => Self {
                counted: 1.0,
                along: (dim as f64 * ALONG).max(1.0),
            },
        }
    }

    /// How far off what codes of `step` make of `row` is, whose components less their median are `apart`.
    fn error(self, row: &[f32], apart: &[f32], step: f32) -> f64 {
        let (mut off, mut along, mut length) = (0.0_f32, 0.0_f32, 0.0_f32);
        for (&x, &apart) in row.iter().zip(apart) {
            let difference = apart - code(Width::Four, apart, step) * step;
            off += difference * difference;
            along += difference * x;
            length += x * x;
        }
        let along = f64::from(along).powi(2) / f64::from(length).max(f64::MIN_POSITIVE);
        f64::from(off) + (self.along - 1.0) * along
    }
}

/// The step that changes some rows least, and the sum of squared differences over the rows that count. `apart` are the
/// `rows` less `middle`; there is at least one.
///
/// # Errors
/// [`BuildError::Stopped`].
pub(super) fn best_step(
    rows: &[f32],
    apart: &[f32],
    dim: usize,
    goal: Goal,
    watch: &Watch<'_>,
) -> Result<(f64, f32), BuildError> {
    let both = rows.chunks_exact(dim).zip(apart.chunks_exact(dim));
    let largest = |row: &[f32]| row.iter().fold(0.0, |most, x| f64::from(x.abs()).max(most));
    let mut farthest: Vec<f64> = both.clone().map(|(_, apart)| largest(apart)).collect();
    farthest.sort_unstable_by(f64::total_cmp);
    // If those that count are all equal, the few others are what there is to tell apart.
    let last = ((farthest.len() as f64 * goal.counted).ceil() as usize).max(1) - 1;
    let last = if farthest[last] > 0.0 {
        last
    } else {
        farthest.len() - 1
    };
    let widest = farthest[last] as f32 / Width::Four.middle();
    let steps = (0..=TRIED).map(|k| widest * (-0.25 * k as f32).exp2());
    // Rows that are no different, or so little that a step has no inverse, have codes that are alike.
    let steps = steps.filter(|step| (1.0 / step).is_finite());
    let mut tried = Vec::new();
    for step in steps {
        let each = both
            .clone()
            .map(|(row, apart)| goal.error(row, apart, step));
        let mut each: Vec<f64> = each.collect();
        each.select_nth_unstable_by(last, f64::total_cmp);
        tried.push((each[..=last].iter().sum(), step));
        watch.look()?;
    }
    let best = tried.into_iter();
    let best = best.min_by(|a: &(f64, f32), b| a.0.total_cmp(&b.0));
    Ok(best.unwrap_or((0.0, 1.0)))
}
