//! A query as rows of each format are compared with it, and the distances.

use crate::kernel::{CodeQuery, Element, PlaneQuery, Positions, Rows};
use crate::metric::Metric;

use super::super::walk::Distances;
use super::few_bits::FewBits;
use super::grid::Grid;
use super::grids::Grids;
use super::rotation::rotate;
use super::row_format::RowFormat;

/// A query, as rows of one format are compared with it. Kept from one query to the next, so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The query itself, or rotated as the rows are.
    floats: Vec<f32>,
    codes: CodeQuery,
    few: PlaneQuery,
    /// A distance is `offset + factor * sum`, for codes.
    offset: f32,
    factor: f32,
}

impl Prepared {
    /// Takes `query`, prepared for the metric, to be compared with rows of `format`.
    pub(crate) fn set(
        &mut self,
        query: &[f32],
        format: RowFormat,
        metric: Metric,
        grids: Grids<'_>,
    ) {
        match format {
            RowFormat::F32 | RowFormat::F16 | RowFormat::Bf16 => {
                self.floats.clear();
                self.floats.extend_from_slice(query);
            }
            RowFormat::Sq8 => self.set_bytes(query, metric, grids),
            RowFormat::Sq4 | RowFormat::Sq2 | RowFormat::Sq1 => {
                self.set_few(query, metric, grids.few);
            }
        }
    }

    fn set_bytes(&mut self, query: &[f32], metric: Metric, grids: Grids<'_>) {
        let grid = grids.bytes;
        self.codes.rows_with(grids.constants);
        let square = grid.step * grid.step;
        let outside = metric != Metric::InnerProduct && !grid.holds(query);
        match metric {
            Metric::Cosine if is_zero(query) => {
                self.codes.squared_l2(grid.codes(query));
                (self.offset, self.factor) = RIGHT_ANGLE;
            }
            Metric::L2 | Metric::Cosine if outside => {
                let unit = f64::from(part(metric)) * f64::from(grid.step).powi(2);
                self.codes.squared_l2_outside(grid.steps(query), unit);
                (self.offset, self.factor) = (0.0, 1.0);
            }
            Metric::L2 | Metric::Cosine => {
                self.codes.squared_l2(grid.codes(query));
                (self.offset, self.factor) = (0.0, part(metric) * square);
            }
            Metric::InnerProduct => {
                let step = weight_step(query);
                self.codes.weighted(weights(query, step));
                (self.offset, self.factor) = weighted(query, step, grid);
            }
        }
    }

    fn set_few(&mut self, query: &[f32], metric: Metric, few: FewBits<'_>) {
        self.floats.clear();
        self.floats.extend_from_slice(query);
        if few.rotated {
            rotate(&mut self.floats);
        }
        let (query, grid) = (&self.floats[..], few.grid);
        match metric {
            Metric::L2 | Metric::Cosine => self.few.squared_l2(few.width, grid.steps(query)),
            Metric::InnerProduct => {
                let query = query.iter().map(|&x| f64::from(x));
                self.few.products(few.width, query);
            }
        }
        (self.offset, self.factor) = match metric {
            Metric::Cosine if is_zero(query) => RIGHT_ANGLE,
            Metric::L2 | Metric::Cosine => (0.0, part(metric) * grid.step * grid.step),
            Metric::InnerProduct => weighted(query, 1.0, grid),
        };
    }

    fn scale(&self, sums: &mut [f32]) {
        let (offset, factor) = (self.offset, self.factor);
        sums.iter_mut().for_each(|x| *x = offset + factor * *x);
    }

    /// Distances to `rows`, which are of the format and metric that the query was prepared for.
    pub(crate) fn to<'a>(
        &'a self,
        format: RowFormat,
        metric: Metric,
        rows: Rows<'a>,
    ) -> RowDistances<'a> {
        RowDistances {
            query: match format.element() {
                Some(element) => Comparison::Floats(element, &self.floats),
                None if format == RowFormat::Sq8 => Comparison::Codes(self),
                None => Comparison::Few(self),
            },
            metric,
            rows,
        }
    }
}

/// Offset and factor of a query of zeros under the cosine. It has no direction: it is as far from every row as one at
/// right angles.
const RIGHT_ANGLE: (f32, f32) = (1.0, 0.0);

fn is_zero(vector: &[f32]) -> bool {
    vector.iter().all(|&x| x == 0.0)
}

/// What of a squared distance the metric reports. Of vectors of length 1: |a - b|^2 = 2 (1 - cos).
fn part(metric: Metric) -> f32 {
    match metric {
        Metric::Cosine => 0.5,
        Metric::L2 | Metric::InnerProduct => 1.0,
    }
}

/// The step that lets signed bytes span the components of `query`.
fn weight_step(query: &[f32]) -> f32 {
    let largest = query.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    if largest > 0.0 { largest / 127.0 } else { 1.0 }
}

fn weights(query: &[f32], step: f32) -> impl ExactSizeIterator<Item = i8> {
    query
        .iter()
        .map(move |x| (x / step).round_ties_even() as i8)
}

/// Offset and factor that make inner products of sums of codes by those weights.
fn weighted(query: &[f32], step: f32, grid: Grid<'_>) -> (f32, f32) {
    let low: f32 = query.iter().zip(grid.low).map(|(q, low)| q * low).sum();
    // Not -low: a product of 0 shall be 0.0, as -0.0 would sort before it.
    (0.0 - low, -step * grid.step)
}

/// Distances from one query to rows.
#[derive(Clone, Copy)]
pub(crate) struct RowDistances<'a> {
    query: Comparison<'a>,
    metric: Metric,
    rows: Rows<'a>,
}

#[derive(Clone, Copy)]
enum Comparison<'a> {
    Floats(Element, &'a [f32]),
    Codes(&'a Prepared),
    Few(&'a Prepared),
}

impl<'a> RowDistances<'a> {
    /// Distances from `query` to rows of floats.
    pub(crate) fn floats(
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
    pub(crate) fn compute<P: Positions>(&self, positions: P, out: &mut [f32]) {
        match self.query {
            Comparison::Floats(element, query) => {
                self.metric
                    .distances(element, query, self.rows, positions, out);
            }
            Comparison::Codes(prepared) => {
                prepared.codes.run(self.rows, positions, out);
                prepared.scale(out);
            }
            Comparison::Few(prepared) => {
                prepared.few.run(self.rows, positions, out);
                prepared.scale(out);
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
