//! Which values the 4-bit codes of a table stand for, and whether its rows are rotated before.

use crate::kernel::{self, Own};
use crate::metric::{Metric, norm};

use super::grid::{Grid, medians};
use super::rotation::{random, rotate};

/// The largest code.
const MOST: f32 = 15.0;

/// The code of a component's median: a value that most rows share, as 0 in sparse ones, keeps a code of its own.
const MIDDLE: f32 = kernel::MIDDLE as f32;

/// Rows that the step is chosen by, if they have no more than [`SAMPLED_VALUES`] components.
const SAMPLE: usize = 1000;
const SAMPLED_VALUES: usize = 1 << 20;

/// Rows are rotated where that leaves at most this share of their squared error.
const WORTHWHILE: f64 = 0.75;

/// The share of rows that count for the step under L2 and cosine.
const COUNTED: f64 = 0.99;

/// What a component adds to the weight of changes along a row: `T^2 / (1 - T^2)` for the `T` of 0.2 that its authors use.
const ALONG: f64 = 0.04 / 0.96;

/// Steps that are tried: each smaller than the one before by the fourth root of 2, the last one 256 times.
const TRIED: i32 = 32;

/// Steps that are tried for a row's own scale: each smaller than the one before by the eighth root of 2.
const OWN_TRIED: i32 = 12;

/// The values of 4-bit codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nibbles<'a> {
    /// Component `i` of code `c` stands for `low[i] + c * step`, of the rotated row if rows are rotated. Where rows have their
    /// own scale, `low` is the middle of all rows, and the step is 1.
    pub(crate) grid: Grid<'a>,
    pub(crate) rotated: bool,
}

/// What was chosen for a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenNibbles {
    pub(crate) low: Vec<f32>,
    pub(crate) step: f32,
    pub(crate) rotated: bool,
}

impl Nibbles<'_> {
    /// Chooses by a sample of `rows`; under the inner product by one of the longest tenth, as those are the answers.
    pub(crate) fn choose(rows: &[f32], dim: usize, metric: Metric) -> ChosenNibbles {
        if rows.is_empty() {
            return ChosenNibbles {
                low: vec![0.0; dim],
                step: 1.0,
                rotated: false,
            };
        }
        let mut sample = sample(rows, dim, metric);
        if sample.chunks_exact(dim).all(|row| row == &sample[..dim]) {
            // If nearly all rows are equal, the few others are what there is to tell apart.
            let first = sample[..dim].to_vec();
            let others = rows.chunks_exact(dim).filter(|row| *row != first);
            sample = others.take(SAMPLE).flatten().copied().collect();
            sample.extend(first);
        }
        let goal = Goal::of(metric, dim);
        let plain = Trial::of(&sample, dim, goal);
        let mut turned = sample;
        turned.chunks_exact_mut(dim).for_each(rotate);
        let turned = Trial::of(&turned, dim, goal);
        let rotated = turned.error < WORTHWHILE * plain.error;
        let Trial { low, step, .. } = if rotated { turned } else { plain };
        ChosenNibbles { low, step, rotated }
    }

    /// Writes `row` to `out`.
    pub(super) fn write(&self, metric: Metric, row: &[f32], out: &mut [u8]) {
        let mut row = row.to_vec();
        if self.rotated {
            rotate(&mut row);
        }
        if kernel::nibbles_have_own(row.len()) {
            let apart: Vec<f32> = row
                .iter()
                .zip(self.grid.low)
                .map(|(x, low)| x - low)
                .collect();
            let fit = Fit::of(&apart);
            let codes: Vec<u8> = apart
                .iter()
                .map(|&x| (code(x, fit.step) + MIDDLE) as u8)
                .collect();
            let own = match metric {
                Metric::InnerProduct => Own::for_products(fit.product, fit.squares),
                Metric::L2 | Metric::Cosine => Own::for_distances(fit.product, fit.squares),
            };
            kernel::write_nibbles(&codes, Some(own), out);
        } else {
            let codes: Vec<u8> = self.grid.codes(&row).map(|code| code.min(15)).collect();
            kernel::write_nibbles(&codes, None, out);
        }
    }
}

/// The code of `x`, from [`MIDDLE`] below 0 on, at this step.
fn code(x: f32, step: f32) -> f32 {
    (x / step).round_ties_even().clamp(-MIDDLE, MOST - MIDDLE)
}

/// How codes of its own step fit a row.
struct Fit {
    step: f32,
    /// Of the row with its codes.
    product: f64,
    /// The row's squared length.
    squares: f64,
    /// The share of that which is at right angles to the codes.
    error: f64,
}

impl Fit {
    /// The best for a row of components less their median.
    fn of(apart: &[f32]) -> Self {
        let squares: f64 = apart.iter().map(|&x| f64::from(x).powi(2)).sum();
        let farthest = apart.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let steps = (0..=OWN_TRIED).map(|k| farthest / MIDDLE * (-0.125 * k as f32).exp2());
        let tried = steps.filter(|step| step.is_normal()).map(|step| {
            let (mut product, mut codes) = (0.0_f32, 0.0_f32);
            for &x in apart {
                let code = code(x, step);
                product += x / farthest * code;
                codes += code * code;
            }
            let product = f64::from(product) * f64::from(farthest);
            let error = 1.0 - product * product / (squares * f64::from(codes));
            Self {
                step,
                product,
                squares,
                error,
            }
        });
        let best = tried.min_by(|a, b| a.error.total_cmp(&b.error));
        // A row at the middle of all, or as good as there.
        best.filter(|best| best.error.is_finite()).unwrap_or(Self {
            step: 1.0,
            product: 0.0,
            squares,
            error: 0.0,
        })
    }
}

/// One row of each stretch of all, or of the longest tenth. Which one of a stretch is random: rows may come in turns, as
/// questions and answers.
fn sample(rows: &[f32], dim: usize, metric: Metric) -> Vec<f32> {
    let mut chosen: Vec<&[f32]> = rows.chunks_exact(dim).collect();
    let wanted = (SAMPLED_VALUES / dim).clamp(1, SAMPLE);
    if metric == Metric::InnerProduct {
        let longest = (chosen.len() / 10).max(wanted).min(chosen.len());
        chosen.sort_by_cached_key(|row| std::cmp::Reverse(norm(row).to_bits()));
        chosen.truncate(longest);
    }
    let stretch = chosen.len().div_ceil(wanted).max(1);
    let any_of = |(number, stretch): (usize, &[&[f32]])| {
        let at = random(number as u64) % stretch.len() as u64;
        stretch[at as usize].to_vec()
    };
    let stretches = chosen.chunks(stretch).enumerate();
    stretches.flat_map(any_of).collect()
}

/// What the best step is judged by.
#[derive(Clone, Copy)]
struct Goal {
    /// The share of rows that count, those that a step changes least.
    counted: f64,
    /// What a change along the row itself weighs, to one at right angles to it.
    along: f64,
}

impl Goal {
    fn of(metric: Metric, dim: usize) -> Self {
        match metric {
            // Far outliers would coarsen all others.
            Metric::L2 | Metric::Cosine => Self {
                counted: COUNTED,
                along: 1.0,
            },
            // Here they are the answers. And queries point where their answers do, so a row that comes out shorter
            // loses more than one that is turned: Guo et al., "Accelerating large-scale inference with anisotropic vector
            // quantization", 2020, theorem 3.3.
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
            let difference = apart - code(apart, step) * step;
            off += difference * difference;
            along += difference * x;
            length += x * x;
        }
        let along = f64::from(along).powi(2) / f64::from(length).max(f64::MIN_POSITIVE);
        f64::from(off) + (self.along - 1.0) * along
    }
}

/// The best step for some rows.
struct Trial {
    low: Vec<f32>,
    step: f32,
    /// The sum, over the rows that count, of squared differences; where each has its own step, of shares of its squared length.
    error: f64,
}

impl Trial {
    /// Of a sample of at least one row.
    fn of(rows: &[f32], dim: usize, goal: Goal) -> Self {
        let middle = medians(rows, dim);
        let apart: Vec<f32> = rows
            .chunks_exact(dim)
            .flat_map(|row| row.iter().zip(&middle).map(|(x, middle)| x - middle))
            .collect();
        if kernel::nibbles_have_own(dim) {
            let error = apart.chunks_exact(dim).map(|row| Fit::of(row).error).sum();
            let (low, step) = (middle, 1.0);
            return Self { low, step, error };
        }
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
        let farthest = farthest[last] as f32;
        let steps = (0..=TRIED).map(|k| farthest / MIDDLE * (-0.25 * k as f32).exp2());
        // Rows that are no different, or so little that a step has no inverse, have codes that are alike.
        let steps = steps.filter(|step| (1.0 / step).is_finite());
        let tried = steps.map(|step| {
            let each = both
                .clone()
                .map(|(row, apart)| goal.error(row, apart, step));
            let mut each: Vec<f64> = each.collect();
            each.select_nth_unstable_by(last, f64::total_cmp);
            (each[..=last].iter().sum(), step)
        });
        let best = tried.min_by(|a: &(f64, f32), b| a.0.total_cmp(&b.0));
        let (error, step) = best.unwrap_or((0.0, 1.0));
        let low = middle.iter().map(|middle| middle - MIDDLE * step).collect();
        Self { low, step, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 64;

    fn rows(value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..500 * DIM).map(|at| value(at / DIM, at % DIM)).collect()
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
            let rotated = |rows: &[f32]| Nibbles::choose(rows, DIM, metric).rotated;
            assert!(!rotated(&alike), "each component spans the same");
            assert!(rotated(&unlike), "few components span nearly all");
            assert!(!rotated(&sparse), "two values have exact codes");
        }
    }

    #[test]
    fn the_step_spans_what_most_components_span() {
        let mut rows = rows(any);
        let before = Nibbles::choose(&rows, DIM, Metric::L2).step;
        assert!((0.12..0.15).contains(&before), "{before}: about 2 / 15");
        rows[5] = 1e5;
        let after = Nibbles::choose(&rows, DIM, Metric::L2).step;
        assert!((0.12..0.15).contains(&after), "{after}");
    }

    #[test]
    fn rows_that_are_no_different_have_a_step() {
        for value in [0.0, 1.0, 1e-40, -4e18] {
            let chosen = Nibbles::choose(&vec![value; 10 * DIM], DIM, Metric::L2);
            assert!(chosen.step.is_normal());
        }
        assert!(Nibbles::choose(&[], DIM, Metric::L2).step.is_normal());
    }
}
