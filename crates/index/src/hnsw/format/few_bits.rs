//! Which values codes of 4 bits and fewer stand for, and whether rows are rotated before.
//!
//! Rows of 4 bits are rotated where a sample shows that this helps, and have one step where there is no room for one of
//! their own. Rows of 2 and 1 bits are always rotated, and always have one: what so few codes make of components is
//! only right on average over rotations, with the scale that `kernel::Own` names.

use std::cmp::Reverse;

use crate::error::BuildError;
use crate::kernel::{Own, Width, write_planes};
use crate::metric::{Metric, norm};
use crate::progress::Watch;

use super::grid::{Grid, medians};
use super::one_step::{Goal, best_step};
use super::own_step::{Fit, code};
use super::rotation::{random, rotate};

/// Rows that are looked at, if they have no more than [`SAMPLED_VALUES`] components.
const SAMPLE: usize = 1000;
const SAMPLED_VALUES: usize = 1 << 20;

/// Rows of 4 bits are rotated where that leaves at most this share of their squared error.
const WORTHWHILE: f64 = 0.75;

/// The values of codes of few bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewBits<'a> {
    pub(crate) width: Width,
    /// Component `i` of code `c` stands for `low[i] + c * step`, of the rotated row if rows are rotated. Where rows
    /// have their own scale, `low` is the middle of all rows, and the step is 1.
    pub(crate) grid: Grid<'a>,
    pub(crate) rotated: bool,
}

/// What was chosen for a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenFew {
    pub(crate) low: Vec<f32>,
    pub(crate) step: f32,
    pub(crate) rotated: bool,
}

impl FewBits<'_> {
    /// Whether rows of this width are rotated whatever a sample shows, and have a step of their own.
    pub(crate) fn always_rotated(width: Width) -> bool {
        width != Width::Four
    }

    /// Chooses by a sample of `rows`; under the inner product by one of the longest tenth, as those are the answers.
    ///
    /// # Errors
    /// [`BuildError::Stopped`].
    pub(crate) fn choose(
        width: Width,
        rows: &[f32],
        dim: usize,
        metric: Metric,
        watch: &Watch<'_>,
    ) -> Result<ChosenFew, BuildError> {
        if rows.is_empty() {
            return Ok(ChosenFew {
                low: vec![0.0; dim],
                step: 1.0,
                rotated: Self::always_rotated(width),
            });
        }
        let mut sample = sample(rows, dim, metric, watch)?;
        if sample.chunks_exact(dim).all(|row| row == &sample[..dim]) {
            // If nearly all rows are equal, the few others are what there is to tell apart.
            let first = sample[..dim].to_vec();
            sample.clear();
            for row in rows.chunks_exact(dim).filter(|row| *row != first) {
                if sample.len() == SAMPLE * dim {
                    break;
                }
                sample.extend(row);
                watch.look()?;
            }
            sample.extend(first);
        }
        let goal = Goal::of(metric, dim);
        let mut turned = sample.clone();
        turned.chunks_exact_mut(dim).for_each(rotate);
        let turned = Trial::of(width, &turned, dim, goal, watch)?;
        if !Self::always_rotated(width) {
            let plain = Trial::of(width, &sample, dim, goal, watch)?;
            if turned.error >= WORTHWHILE * plain.error {
                return Ok(plain.chosen(false));
            }
        }
        Ok(turned.chosen(true))
    }

    /// Writes `row` to `out`.
    pub(super) fn write(&self, metric: Metric, row: &[f32], out: &mut [u8]) {
        let width = self.width;
        let mut row = row.to_vec();
        if self.rotated {
            rotate(&mut row);
        }
        if width.has_own(row.len()) {
            let apart: Vec<f32> = row
                .iter()
                .zip(self.grid.low)
                .map(|(x, low)| x - low)
                .collect();
            let fit = Fit::of(width, &apart);
            let codes: Vec<u8> = apart[..width.kept(apart.len())]
                .iter()
                .map(|&x| (code(width, x, fit.step) + width.middle()) as u8)
                .collect();
            let own = match metric {
                Metric::InnerProduct => Own::for_products(fit.product, fit.squares),
                Metric::L2 | Metric::Cosine => Own::for_distances(fit.product, fit.squares),
            };
            write_planes(width, &codes, Some(own), out);
        } else {
            let codes = self.grid.codes(&row).map(|code| code.min(width.most()));
            write_planes(width, &codes.collect::<Vec<u8>>(), None, out);
        }
    }
}

/// One row of each stretch of all, or of the longest tenth. Which one of a stretch is random: rows may come in turns,
/// as questions and answers.
fn sample(
    rows: &[f32],
    dim: usize,
    metric: Metric,
    watch: &Watch<'_>,
) -> Result<Vec<f32>, BuildError> {
    let mut chosen: Vec<&[f32]> = rows.chunks_exact(dim).collect();
    let wanted = (SAMPLED_VALUES / dim).clamp(1, SAMPLE);
    if metric == Metric::InnerProduct {
        let longest = (chosen.len() / 10).max(wanted).min(chosen.len());
        let mut by_length = Vec::with_capacity(chosen.len());
        for row in chosen {
            by_length.push((Reverse(norm(row).to_bits()), row));
            watch.look()?;
        }
        by_length.sort_by_key(|&(length, _)| length);
        let longest = by_length.into_iter().take(longest);
        chosen = longest.map(|(_, row)| row).collect();
    }
    let stretch = chosen.len().div_ceil(wanted).max(1);
    let any_of = |(number, stretch): (usize, &[&[f32]])| {
        let at = random(number as u64) % stretch.len() as u64;
        stretch[at as usize].to_vec()
    };
    let stretches = chosen.chunks(stretch).enumerate();
    Ok(stretches.flat_map(any_of).collect())
}

/// What is chosen for some rows, and what it costs them.
struct Trial {
    low: Vec<f32>,
    step: f32,
    /// The sum, over the rows that count, of squared differences; where each has its own step, of shares of its squared
    /// length.
    error: f64,
}

impl Trial {
    /// Of a sample of at least one row.
    fn of(
        width: Width,
        rows: &[f32],
        dim: usize,
        goal: Goal,
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let middle = medians(rows, dim, watch)?;
        let apart: Vec<f32> = rows
            .chunks_exact(dim)
            .flat_map(|row| row.iter().zip(&middle).map(|(x, middle)| x - middle))
            .collect();
        if width.has_own(dim) {
            let mut error = 0.0;
            for row in apart.chunks_exact(dim) {
                error += Fit::of(width, row).error;
                watch.look()?;
            }
            let (low, step) = (middle, 1.0);
            return Ok(Self { low, step, error });
        }
        let (error, step) = best_step(rows, &apart, dim, goal, watch)?;
        let below = width.middle() * step;
        let low = middle.iter().map(|middle| middle - below).collect();
        Ok(Self { low, step, error })
    }

    fn chosen(self, rotated: bool) -> ChosenFew {
        let Self { low, step, .. } = self;
        ChosenFew { low, step, rotated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 64;

    fn rows(value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..500 * DIM).map(|at| value(at / DIM, at % DIM)).collect()
    }

    fn choose(width: Width, rows: &[f32], metric: Metric) -> ChosenFew {
        FewBits::choose(width, rows, DIM, metric, &Watch::none()).unwrap()
    }

    /// Between -1 and 1.
    fn any(row: usize, i: usize) -> f32 {
        ((row * 7919 + i * 104_729 + row * i * 31) % 2001) as f32 / 1000.0 - 1.0
    }

    #[test]
    fn rows_are_rotated_where_that_helps() {
        let alike = rows(any);
        let unlike = rows(|row, i| any(row, i) * 0.8_f32.powi(i as i32));
        let sparse = rows(|row, i| if (row + i) % 16 == 0 { 1.0 } else { 0.0 });
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            let rotated = |rows: &[f32]| choose(Width::Four, rows, metric).rotated;
            assert!(!rotated(&alike), "each component spans the same");
            assert!(rotated(&unlike), "few components span nearly all");
            assert!(!rotated(&sparse), "two values have exact codes");
        }
    }

    #[test]
    fn the_step_spans_what_most_components_span() {
        let mut rows = rows(any);
        let before = choose(Width::Four, &rows, Metric::L2).step;
        assert!((0.12..0.15).contains(&before), "{before}: about 2 / 15");
        rows[5] = 1e5;
        let after = choose(Width::Four, &rows, Metric::L2).step;
        assert!((0.12..0.15).contains(&after), "{after}");
    }

    /// What rows of few bits make of the product with a query is right on average, though some components have no code.
    #[test]
    fn products_are_right_on_average() {
        let any = |at: usize| {
            let number = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / 8e6 - 1.0
        };
        for (width, dim, spread) in [
            (Width::Four, 100, 0.03),
            (Width::Two, 256, 0.04),
            (Width::Two, 384, 0.03),
            (Width::One, 384, 0.06),
            (Width::One, 512, 0.06),
        ] {
            let (mut sum, mut squares) = (0.0, 0.0);
            for row in 0..300 {
                let row: Vec<f32> = (0..dim).map(|i| any(row * dim + i)).collect();
                let mut query: Vec<f32> = row.iter().rev().copied().collect();
                query.iter_mut().zip(&row).for_each(|(q, x)| *q += x);
                let fit = Fit::of(width, &row);
                let kept = row[..width.kept(dim)].iter().zip(&query);
                let product = kept.map(|(&x, &q)| f64::from(code(width, x, fit.step) * q));
                let found = product.sum::<f64>() * fit.squares / fit.product;
                let exact: f64 = row.iter().zip(&query).map(|(x, q)| f64::from(x * q)).sum();
                let off = (found - exact) / fit.squares;
                (sum, squares) = (sum + off, squares + off * off);
            }
            let (mean, off) = (sum / 300.0, (squares / 300.0_f64).sqrt());
            assert!(off < spread, "{width:?} {dim}: {off}");
            assert!(mean.abs() < spread / 5.0, "{width:?} {dim}: {mean}");
        }
    }

    #[test]
    fn rows_that_are_no_different_have_a_step() {
        for value in [0.0, 1.0, 1e-40, -4e18] {
            let chosen = choose(Width::Four, &vec![value; 10 * DIM], Metric::L2);
            assert!(chosen.step.is_normal());
            for width in [Width::Two, Width::One] {
                let chosen = choose(width, &vec![value; 10 * DIM], Metric::L2);
                assert!(chosen.rotated && chosen.step == 1.0);
            }
        }
        assert!(choose(Width::Four, &[], Metric::L2).step.is_normal());
    }
}
