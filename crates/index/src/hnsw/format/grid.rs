//! Which values the codes of a table stand for.

use crate::error::BuildError;
use crate::metric::Metric;
use crate::progress::Watch;

/// The steps of codes: component `i` of code `c` stands for `low[i] + c * step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid<'a> {
    pub(crate) low: &'a [f32],
    pub(crate) step: f32,
}

impl Grid<'_> {
    /// The smallest value of each component, and the step that lets 256 of them span all components; both of the rows
    /// that [`reach`] includes.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(crate) fn of(
        rows: &[f32],
        dim: usize,
        metric: Metric,
        watch: &Watch<'_>,
    ) -> Result<(Vec<f32>, f32), BuildError> {
        if rows.is_empty() {
            return Ok((vec![0.0; dim], 1.0));
        }
        let middle = medians(rows, dim, watch)?;
        let reach = match metric {
            Metric::L2 | Metric::Cosine => reach(rows, &middle, watch)?,
            // The longest rows are the answers.
            Metric::InnerProduct => f32::INFINITY,
        };
        let mut low = vec![f32::INFINITY; dim];
        let mut high = vec![f32::NEG_INFINITY; dim];
        for row in rows.chunks_exact(dim) {
            let range = low.iter_mut().zip(&mut high);
            for (((low, high), &x), middle) in range.zip(row).zip(&middle) {
                if (x - middle).abs() <= reach {
                    *low = low.min(x);
                    *high = high.max(x);
                }
            }
            watch.look()?;
        }
        let spans = low.iter().zip(&high).map(|(low, high)| high - low);
        let step = spans.fold(0.0, f32::max) / 255.0;
        // Rows that are all equal need no step, but it must not be 0.
        Ok((low, if step > 0.0 { step } else { 1.0 }))
    }

    /// The components of `vector` in steps above the lowest.
    pub(super) fn steps(&self, vector: &[f32]) -> impl ExactSizeIterator<Item = f64> + Clone {
        let steps = 1.0 / f64::from(self.step);
        let pairs = vector.iter().zip(self.low);
        pairs.map(move |(&x, &low)| (f64::from(x) - f64::from(low)) * steps)
    }

    /// Whether codes stand for all components of `vector`.
    pub(super) fn holds(&self, vector: &[f32]) -> bool {
        // All of them, without a branch for each.
        self.steps(vector).map(beyond).fold(0.0, f64::max) == 0.0
    }

    /// The codes nearest to `row`.
    pub(super) fn codes(&self, row: &[f32]) -> impl ExactSizeIterator<Item = u8> {
        let steps = 1.0 / self.step;
        let pairs = row.iter().zip(self.low);
        // `as` saturates.
        pairs.map(move |(&x, &low)| ((x - low) * steps).round_ties_even() as u8)
    }

    /// How much farther `row` is than its codes from the middle of the range, in squared steps: for each component
    /// `(127.5 + beyond)^2 - 127.5^2`. From a query elsewhere inside it is as much on average over both sides.
    pub(super) fn farther(&self, row: &[f32], metric: Metric) -> f64 {
        // A row of zeros has no direction: as far from every query of length 1 as one at right angles.
        let right_angle = match metric {
            Metric::Cosine if row.iter().all(|&x| x == 0.0) => f64::from(self.step).powi(-2),
            _ => 0.0,
        };
        let beyond = self.steps(row).map(beyond);
        right_angle + beyond.map(|beyond| beyond * (beyond + 255.0)).sum::<f64>()
    }

    /// Whether the codes of all `rows` (`[n][dim]`) say how far they are. Inner products do not ask.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(super) fn says_all(
        &self,
        rows: &[f32],
        metric: Metric,
        watch: &Watch<'_>,
    ) -> Result<bool, BuildError> {
        if metric == Metric::InnerProduct {
            return Ok(true);
        }
        for row in rows.chunks_exact(self.low.len()) {
            if self.farther(row, metric) != 0.0 {
                return Ok(false);
            }
            watch.look()?;
        }
        Ok(true)
    }
}

/// How far `code` is from the nearest code, if that is not rounding.
fn beyond(code: f64) -> f64 {
    let beyond = (-code).max(code - 255.0);
    if beyond > 0.5 { beyond } else { 0.0 }
}

/// Rows that medians are taken of.
const MEDIAN_OF: usize = 1000;

/// The median of each component, of rows at equal distances.
///
/// # Errors
/// [`BuildError::Stopped`].
pub(super) fn medians(rows: &[f32], dim: usize, watch: &Watch<'_>) -> Result<Vec<f32>, BuildError> {
    let count = rows.len() / dim;
    let step = count.div_ceil(MEDIAN_OF);
    let mut values = Vec::with_capacity(MEDIAN_OF);
    let median = |component| {
        values.clear();
        values.extend(rows.iter().skip(component).step_by(step * dim));
        watch.look()?;
        let middle = values.len() / 2;
        Ok(*values.select_nth_unstable_by(middle, f32::total_cmp).1)
    };
    (0..dim).map(median).collect()
}

/// How far a component may be from its median to count for the range of codes: twice what all rows keep to but one in a
/// thousand, or one of a hundred to a thousand. Whole rows are counted, not values: where each row has a few components
/// that nearly all others lack, these are what tells rows apart.
fn reach(rows: &[f32], middle: &[f32], watch: &Watch<'_>) -> Result<f32, BuildError> {
    let farthest = |row: &[f32]| {
        let apart = row.iter().zip(middle).map(|(x, middle)| (x - middle).abs());
        watch.look()?;
        Ok::<f32, BuildError>(apart.fold(0.0, f32::max))
    };
    let farthest = rows.chunks_exact(middle.len()).map(farthest);
    let mut farthest: Vec<f32> = farthest.collect::<Result<_, _>>()?;
    let count = farthest.len();
    let left_out = if count < 100 {
        0
    } else {
        (count / 1000).max(1)
    };
    let (_, kept, _) = farthest.select_nth_unstable_by(count - 1 - left_out, f32::total_cmp);
    // If nearly all rows are equal, the few others are what there is to tell apart.
    Ok(if *kept > 0.0 {
        2.0 * *kept
    } else {
        f32::INFINITY
    })
}
