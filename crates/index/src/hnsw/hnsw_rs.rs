//! What a table needs of an hnsw_rs graph, whatever its distance.

use chiplet_executor::Neighbor;
use hnsw_rs::hnsw::{Hnsw, Neighbour};

use crate::error::BuildError;
use crate::metric::{self, Metric};
use crate::nearest::Nearest;
use crate::rows;

use super::distance::{Counted, GraphDistance, evaluated};

/// How far from 1 the length of a row may be in a cosine graph: `f32` rounding over thousands of components.
const NORM_TOLERANCE: f64 = 1e-3;

/// A graph whose distance type is forgotten, so that tables of every metric have one type. Costs one
/// indirect call a query.
pub(super) trait Graph: Send + Sync {
    /// Rows inserted.
    fn rows(&self) -> usize;

    /// Links of a row on an upper layer.
    fn m(&self) -> u64;

    /// Up to `k` nearest rows found with `ef` candidates, ascending, and the distances evaluated.
    /// `1 <= k <= ef <= rows`.
    fn search(&self, query: &[f32], k: usize, ef: usize) -> (Vec<Neighbor>, u64);

    /// The `k` nearest of all rows, ascending.
    fn scan(&self, query: &[f32], k: usize) -> Vec<Neighbor>;
}

impl<D: GraphDistance> Graph for Hnsw<'static, f32, Counted<D>> {
    fn rows(&self) -> usize {
        self.get_nb_point()
    }

    fn m(&self) -> u64 {
        match self.get_max_nb_connection() {
            // hnsw_rs accepts 256 and reports it as a u8.
            0 => 256,
            m => u64::from(m),
        }
    }

    fn search(&self, query: &[f32], k: usize, ef: usize) -> (Vec<Neighbor>, u64) {
        let before = evaluated();
        let found = Hnsw::search(self, query, k, ef);
        let visited = evaluated().wrapping_sub(before);
        let mut hits: Vec<Neighbor> = found
            .iter()
            .map(|hit| Neighbor {
                id: hit.d_id as u64,
                distance: reported(self, query, hit),
            })
            .collect();
        // Ascending already, except where distances tie or two mapped products became one.
        hits.sort_unstable();
        (hits, visited)
    }

    fn scan(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        let mut nearest = Nearest::new(k);
        for point in self.get_point_indexation() {
            nearest.offer(Neighbor {
                id: point.get_origin_id() as u64,
                distance: D::METRIC.distance(query, point.get_v()),
            });
        }
        nearest.into_sorted()
    }
}

fn reported<D: GraphDistance>(
    graph: &Hnsw<'static, f32, Counted<D>>,
    query: &[f32],
    hit: &Neighbour,
) -> f32 {
    let evaluated = hit.distance;
    graph
        .get_distance()
        .0
        .reported(evaluated)
        .unwrap_or_else(|| {
            let row = graph.get_point_indexation().get_point_data(&hit.p_id);
            // A point that a search found is stored.
            row.map_or(evaluated, |row| D::METRIC.distance(query, &row))
        })
}

/// Checks every row of a graph that was built elsewhere and returns their dimension.
pub(super) fn check_rows<D: GraphDistance>(
    graph: &Hnsw<'static, f32, Counted<D>>,
    metric: Metric,
) -> Result<usize, BuildError> {
    let points = graph.get_point_indexation();
    if points.get_nb_point() == 0 {
        return Err(BuildError::EmptyGraph);
    }
    let dim = points.get_data_dimension();
    if dim == 0 {
        return Err(BuildError::ZeroDimension);
    }
    for point in points {
        let (id, row) = (point.get_origin_id(), point.get_v());
        if row.len() != dim {
            return Err(BuildError::MixedDimensions {
                row: id,
                expected: dim,
                got: row.len(),
            });
        }
        rows::check_row(id, row, metric)?;
        let norm = metric::norm(row);
        if metric == Metric::Cosine && norm > 0.0 && (norm - 1.0).abs() > NORM_TOLERANCE {
            return Err(BuildError::NotNormalized { row: id, norm });
        }
    }
    Ok(dim)
}
