//! A graph of hnsw_rs in memory.

use ::hnsw_rs::hnsw::Hnsw;

use super::distance::GraphDistance;
use super::points::{Point, Points};
use super::{Descent, HnswTable};
use crate::error::{BuildError, bad_graph, same_metric};
use crate::hnsw::config::HnswConfig;
use crate::rows;

impl HnswTable {
    /// A table of a graph that was built with hnsw_rs. Its ids are those the rows were inserted under.
    ///
    /// Rows and links are copied and hnsw_rs' own memory, several times as much, is given back. At the same `ef` the
    /// table finds what the graph's own `search` finds, where no two distances tie or differ by rounding alone. The
    /// search begins at the first point of the highest layer, as hnsw_rs' does, unless several threads inserted the
    /// first points of that layer at once. hnsw_rs drops its graph on rayon's global pool, which this starts if it was
    /// not.
    ///
    /// ```
    /// use chiplet_index::HnswTable;
    /// use hnsw_rs::prelude::{DistL2, Hnsw};
    ///
    /// let hnsw = Hnsw::new(16, 100, 16, 200, DistL2);
    /// for id in 0..100 {
    ///     hnsw.insert((&[id as f32, 0.0], id));
    /// }
    /// let table = HnswTable::new(hnsw)?.with_ef(40)?;
    /// # Ok::<(), chiplet_index::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Graph`] without rows, or with rows of several dimensions; [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::NotNormalized`].
    pub fn new<D: GraphDistance>(hnsw: Hnsw<'static, f32, D>) -> Result<Self, BuildError> {
        Self::new_with(hnsw, &HnswConfig::new(D::METRIC))
    }

    /// [`HnswTable::new`], with rows stored and queries answered as `config` says. Its metric must be the graph's; the
    /// settings of a build do not count.
    ///
    /// # Errors
    /// As [`HnswTable::new`], and [`BuildError::Setting`], [`BuildError::OutOfRange`],
    /// [`BuildError::DimensionTooLarge`].
    pub fn new_with<D: GraphDistance>(
        hnsw: Hnsw<'static, f32, D>,
        config: &HnswConfig,
    ) -> Result<Self, BuildError> {
        same_metric(D::METRIC, config.metric)?;
        let index = hnsw.get_point_indexation();
        if index.get_nb_point() == 0 {
            return Err(bad_graph(
                "the graph is empty, so its dimension is unknown; insert rows first, or use HnswTable::build, which is told \
                 the dimension"
                    .to_owned(),
            ));
        }
        let dim = index.get_data_dimension();
        if dim == 0 {
            return Err(BuildError::ZeroDimension);
        }
        let mut rows = Vec::with_capacity(index.get_nb_point() * dim);
        let mut ids = Vec::with_capacity(index.get_nb_point());
        let mut points = Points::default();
        for point in index {
            let (id, row) = (point.get_origin_id(), point.get_v());
            if row.len() != dim {
                return Err(bad_graph(format!(
                    "row {id} has {} components, the others have {dim}",
                    row.len()
                )));
            }
            rows::check_row(id, row, config.metric)?;
            rows::check_unit(id, row, config.metric)?;
            rows.extend_from_slice(row);
            ids.push(id as u64);
            let layer = usize::from(point.get_point_id().0);
            points.counts.resize(layer + 1, 0);
            points.counts[layer] += 1;
            let lists = point.get_neighborhood_id().into_iter().map(|list| {
                let links = list.iter().map(|link| Point {
                    layer: link.p_id.0,
                    rank: link.p_id.1,
                });
                links.collect()
            });
            points.links.push(lists.collect());
        }
        let entry = Point {
            layer: index.get_max_level_observed(),
            rank: 0,
        };
        // Before more memory is taken.
        drop(hnsw);
        let graph = points.into_graph(entry)?;
        Self::adopt(&rows, dim, &graph, Descent::OneLook, config, |row| ids[row])
    }
}
