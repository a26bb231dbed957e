//! How rows are stored in a graph, and the distances to them in each metric.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::flat;
use crate::kernel::{self, CodeQuery, Element, Positions, Rows};
use crate::metric::Metric;

use super::walk::Distances;

/// How a table stores the rows that a search reads. Fewer bytes let a cache hold more rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowFormat {
    /// 4 bytes a component, as they came.
    #[default]
    F32,
    /// 2 bytes: IEEE 754 half precision, 11 bits of a number, up to 65,504 in size and down to 6e-5; below it bits are
    /// lost, and rows that would lose too many are refused.
    F16,
    /// 2 bytes: bfloat16, 8 bits of a number, the range of `f32`.
    Bf16,
    /// 1 byte: 256 equal steps between the smallest and the largest value, the same step for all components. Under L2 and
    /// cosine, at most one row in a thousand that has a component at more than twice the distance from its component's
    /// median that the other rows keep is left out of this range, so that it does not coarsen all others. Such a row is
    /// kept at the range's edge, with its distance from there added to all its distances: it is found as a far row, but
    /// not as the nearest of a query beside it. Queries may lie outside the range; they take two to three times the
    /// arithmetic. Under inner product the range is that of all rows, as the longest are the answers.
    Sq8,
}

impl RowFormat {
    /// Components that a row may have.
    pub(super) fn most_components(self) -> usize {
        match self {
            Self::Sq8 => kernel::MAX_DIM,
            Self::F32 | Self::F16 | Self::Bf16 => flat::MAX_DIM,
        }
    }

    pub(super) fn element(self) -> Option<Element> {
        match self {
            Self::F32 => Some(Element::F32),
            Self::F16 => Some(Element::F16),
            Self::Bf16 => Some(Element::Bf16),
            Self::Sq8 => None,
        }
    }

    /// Bytes of a component. A row of an inverted list has nothing else, a row of a graph see [`RowFormat::stride`].
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Sq8.component_bytes(), 1);
    /// ```
    #[doc(hidden)]
    pub fn component_bytes(self) -> usize {
        self.element().map_or(1, Element::bytes)
    }

    /// Bytes that a row of `dim` components needs.
    fn row_bytes(self, dim: usize) -> usize {
        match self {
            Self::Sq8 => kernel::row_bytes(dim),
            Self::F32 | Self::F16 | Self::Bf16 => dim * self.component_bytes(),
        }
    }

    /// Bytes from one row of `dim` components to the next in a table: whole cache lines of 64 bytes where that adds at
    /// most a fifth and at most 24 bytes, else whole 4 bytes. A padded short row touches one line where it would often
    /// touch two; a long row gains nothing (`docs/performance.md`).
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Sq8.stride(50), 64);
    /// assert_eq!(RowFormat::F32.stride(50), 200);
    /// ```
    pub fn stride(self, dim: usize) -> usize {
        let bytes = self.row_bytes(dim).next_multiple_of(4);
        let padding = bytes.next_multiple_of(64) - bytes;
        if padding <= bytes / 5 && padding <= 24 {
            bytes + padding
        } else {
            bytes
        }
    }
}

impl fmt::Display for RowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Sq8 => "sq8",
        })
    }
}

impl FromStr for RowFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            "sq8" => Ok(Self::Sq8),
            other => Err(format!(
                "{other:?} is no row format; give f32, f16, bf16 or sq8"
            )),
        }
    }
}

/// The steps of 8-bit codes: component `i` of code `c` stands for `low[i] + c * step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid<'a> {
    pub(super) low: &'a [f32],
    pub(super) step: f32,
}

impl Grid<'_> {
    /// The smallest value of each component, and the step that lets 256 of them span all components; both of the rows that
    /// [`reach`] includes.
    pub(super) fn of(rows: &[f32], dim: usize, metric: Metric) -> (Vec<f32>, f32) {
        if rows.is_empty() {
            return (vec![0.0; dim], 1.0);
        }
        let middle = medians(rows, dim);
        let reach = match metric {
            Metric::L2 | Metric::Cosine => reach(rows, &middle),
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
        }
        let spans = low.iter().zip(&high).map(|(low, high)| high - low);
        let step = spans.fold(0.0, f32::max) / 255.0;
        // Rows that are all equal need no step, but it must not be 0.
        (low, if step > 0.0 { step } else { 1.0 })
    }

    /// The components of `vector` in steps above the lowest.
    fn steps(&self, vector: &[f32]) -> impl ExactSizeIterator<Item = f64> + Clone {
        let steps = 1.0 / f64::from(self.step);
        let pairs = vector.iter().zip(self.low);
        pairs.map(move |(&x, &low)| (f64::from(x) - f64::from(low)) * steps)
    }

    /// Whether codes stand for all components of `vector`.
    fn holds(&self, vector: &[f32]) -> bool {
        // All of them, without a branch for each.
        self.steps(vector).map(beyond).fold(0.0, f64::max) == 0.0
    }

    fn codes(&self, row: &[f32]) -> impl ExactSizeIterator<Item = u8> {
        let steps = 1.0 / self.step;
        let pairs = row.iter().zip(self.low);
        // `as` saturates.
        pairs.map(move |(&x, &low)| ((x - low) * steps).round_ties_even() as u8)
    }

    /// How much farther `row` is than its codes from the middle of the range, in squared steps: for each component
    /// `(127.5 + beyond)^2 - 127.5^2`. From a query elsewhere inside it is as much on average over both sides.
    fn farther(&self, row: &[f32]) -> f64 {
        let beyond = self.steps(row).map(beyond);
        beyond.map(|beyond| beyond * (beyond + 255.0)).sum()
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
fn medians(rows: &[f32], dim: usize) -> Vec<f32> {
    let count = rows.len() / dim;
    let step = count.div_ceil(MEDIAN_OF);
    let mut values = Vec::with_capacity(MEDIAN_OF);
    let median = |component| {
        values.clear();
        values.extend(rows.iter().skip(component).step_by(step * dim));
        let middle = values.len() / 2;
        *values.select_nth_unstable_by(middle, f32::total_cmp).1
    };
    (0..dim).map(median).collect()
}

/// How far a component may be from its median to count for the range of codes: twice what all rows keep to but one in a
/// thousand, or one of a hundred to a thousand. Whole rows are counted, not values: where each row has a few components
/// that nearly all others lack, these are what tells rows apart.
fn reach(rows: &[f32], middle: &[f32]) -> f32 {
    let farthest = |row: &[f32]| {
        let apart = row.iter().zip(middle).map(|(x, middle)| (x - middle).abs());
        apart.fold(0.0, f32::max)
    };
    let mut farthest: Vec<f32> = rows.chunks_exact(middle.len()).map(farthest).collect();
    let count = farthest.len();
    let left_out = if count < 100 {
        0
    } else {
        (count / 1000).max(1)
    };
    let (_, kept, _) = farthest.select_nth_unstable_by(count - 1 - left_out, f32::total_cmp);
    // If nearly all rows are equal, the few others are what there is to tell apart.
    if *kept > 0.0 {
        2.0 * *kept
    } else {
        f32::INFINITY
    }
}

/// Writes `row` in `format` to `out`, of [`RowFormat::stride`] bytes.
pub(super) fn write_row(
    format: RowFormat,
    grid: Grid<'_>,
    metric: Metric,
    row: &[f32],
    out: &mut [u8],
) {
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
            let codes: Vec<u8> = grid.codes(row).collect();
            // A row of zeros has no direction: as far from every query of length 1 as one at right angles.
            let right_angle = match metric {
                Metric::Cosine if row.iter().all(|&x| x == 0.0) => f64::from(grid.step).powi(-2),
                _ => 0.0,
            };
            // `as` saturates.
            kernel::write_row(&codes, (right_angle + grid.farther(row)) as i32, out);
        }
    }
}

/// A query, as rows of one format are compared with it. Kept from one query to the next, so that none allocates.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    floats: Vec<f32>,
    codes: CodeQuery,
    /// A distance is `offset + factor * sum`, for codes.
    offset: f32,
    factor: f32,
}

impl Prepared {
    /// Takes `query`, prepared for the metric, to be compared with rows of `format`.
    pub(super) fn set(&mut self, query: &[f32], format: RowFormat, metric: Metric, grid: Grid<'_>) {
        if format != RowFormat::Sq8 {
            self.floats.clear();
            self.floats.extend_from_slice(query);
            return;
        }
        let square = grid.step * grid.step;
        let outside = metric != Metric::InnerProduct && !grid.holds(query);
        match metric {
            // A query of zeros has no direction: as far from every row as one at right angles.
            Metric::Cosine if query.iter().all(|&x| x == 0.0) => {
                self.codes.squared_l2(grid.codes(query));
                (self.offset, self.factor) = (1.0, 0.0);
            }
            Metric::L2 | Metric::Cosine if outside => {
                let part = if metric == Metric::Cosine { 0.5 } else { 1.0 };
                let unit = part * f64::from(grid.step).powi(2);
                self.codes.squared_l2_outside(grid.steps(query), unit);
                (self.offset, self.factor) = (0.0, 1.0);
            }
            Metric::L2 => {
                self.codes.squared_l2(grid.codes(query));
                (self.offset, self.factor) = (0.0, square);
            }
            // Of vectors of length 1: |a - b|^2 = 2 (1 - cos).
            Metric::Cosine => {
                self.codes.squared_l2(grid.codes(query));
                (self.offset, self.factor) = (0.0, 0.5 * square);
            }
            Metric::InnerProduct => {
                let largest = query.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                let step = if largest > 0.0 { largest / 127.0 } else { 1.0 };
                let weights = query.iter().map(|x| (x / step).round_ties_even() as i8);
                self.codes.weighted(weights);
                let low: f32 = query.iter().zip(grid.low).map(|(q, low)| q * low).sum();
                // Not -low: a product of 0 shall be 0.0, as -0.0 would sort before it.
                (self.offset, self.factor) = (0.0 - low, -step * grid.step);
            }
        }
    }

    /// Distances to `rows`, which are of the format and metric that the query was prepared for.
    pub(super) fn to<'a>(
        &'a self,
        format: RowFormat,
        metric: Metric,
        rows: Rows<'a>,
    ) -> RowDistances<'a> {
        RowDistances {
            query: match format.element() {
                Some(element) => Comparison::Floats(element, &self.floats),
                None => Comparison::Codes(self),
            },
            metric,
            rows,
        }
    }
}

/// Distances from one query to rows.
#[derive(Clone, Copy)]
pub(super) struct RowDistances<'a> {
    query: Comparison<'a>,
    metric: Metric,
    rows: Rows<'a>,
}

#[derive(Clone, Copy)]
enum Comparison<'a> {
    Floats(Element, &'a [f32]),
    Codes(&'a Prepared),
}

impl<'a> RowDistances<'a> {
    /// Distances from `query` to rows of floats.
    pub(super) fn floats(
        query: &'a [f32],
        element: Element,
        metric: Metric,
        rows: Rows<'a>,
    ) -> Self {
        Self {
            query: Comparison::Floats(element, query),
            metric,
            rows,
        }
    }

    /// Distances to the rows at `positions`, which exist, into `out`, which has their length.
    #[inline]
    pub(super) fn compute<P: Positions>(&self, positions: P, out: &mut [f32]) {
        match self.query {
            Comparison::Floats(element, query) => {
                self.metric
                    .distances(element, query, self.rows, positions, out);
            }
            Comparison::Codes(prepared) => {
                prepared.codes.run(self.rows, positions, out);
                let Prepared { offset, factor, .. } = *prepared;
                out.iter_mut().for_each(|x| *x = offset + factor * *x);
            }
        }
    }
}

impl Distances for RowDistances<'_> {
    #[inline]
    fn to(&self, nodes: &[u32], out: &mut [f32]) {
        self.compute(nodes, out);
    }

    #[inline]
    fn prefetch(&self, nodes: &[u32]) {
        for &node in nodes {
            self.rows.prefetch(node as usize, self.rows.stride());
        }
    }
}
