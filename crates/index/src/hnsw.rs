//! `HnswTable`: approximate search in a graph, over [`hnsw_rs`].
//!
//! A graph walk costs as much as the vectors it visits, so visits are counted, not guessed: the graph's
//! distance is wrapped in [`Counted`], and a search reports `visited * (vector_bytes + M * 4)`.
//!
//! hnsw_rs has sharp edges; each is blunted before a search or an insertion can reach it:
//!
//! | hnsw_rs | here |
//! |---|---|
//! | panics on a negative or NaN distance | the distances below never return one; rows and queries are checked |
//! | ends the process for M over 256, reports M = 256 as 0 | M is in `2..=255` |
//! | allocates room for `ef` candidates, however many | `ef` is cut to the number of rows |
//! | finds fewer than `k` rows where the graph has unreachable parts | the table is then scanned exactly |
//! | `parallel_search`, `parallel_insert` use the ambient rayon pool | never called |
//!
//! Dropping a graph does use rayon's global pool (hnsw_rs clears the links of all points in parallel).
//! A process that must not start that pool keeps its tables until it exits.

mod config;
mod distance;
mod graph;

use chiplet_executor::{Neighbor, Query, SearchError, Table, Work};
use chiplet_policy::hnsw_query_bytes;
use hnsw_rs::hnsw::Hnsw;

use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;
use crate::progress::{self, Progress};
use crate::rows;

pub use config::HnswConfig;
pub use distance::{Cosine, Counted, GraphDistance, InnerProduct, SquaredL2};
use graph::Graph;

/// An hnsw_rs graph as a table.
///
/// ```
/// use chiplet_executor::{Query, Table, Work};
/// use chiplet_index::{HnswConfig, HnswTable, Metric};
///
/// let rows: Vec<f32> = (0..200).map(|x| x as f32).collect(); // 100 rows of 2
/// let table = HnswTable::build(&rows, 2, &HnswConfig::new(Metric::L2))?;
/// let mut work = Work::default();
/// let hits = table.search(&Query::new([20.0, 21.0]).top(3).ef(32), &mut work)?;
/// assert_eq!(hits[0].id, 10);
/// assert!(work.bytes() > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HnswTable {
    graph: Box<dyn Graph>,
    dim: usize,
    metric: Metric,
    /// Candidates kept by a query that does not say how many.
    ef: usize,
}

impl HnswTable {
    /// Builds a graph over `rows` (`[n][dim]`, one after the other); ids are row numbers.
    ///
    /// Rows are inserted in order, on the calling thread: the same rows and settings give the same graph
    /// (hnsw_rs draws layers from a fixed seed). To use more cores, build several tables at once.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::RaggedRows`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::Setting`].
    pub fn build(rows: &[f32], dim: usize, config: &HnswConfig) -> Result<Self, BuildError> {
        Self::build_with(rows, dim, config, |_| ())
    }

    /// [`HnswTable::build`], reporting progress about every thousand rows.
    ///
    /// # Errors
    /// As [`HnswTable::build`].
    pub fn build_with(
        rows: &[f32],
        dim: usize,
        config: &HnswConfig,
        report: impl FnMut(Progress),
    ) -> Result<Self, BuildError> {
        config.check()?;
        rows::check(rows, dim, config.metric)?;
        let prepared;
        let rows = match config.metric {
            Metric::Cosine => {
                prepared = rows::prepare(rows.to_vec(), dim, config.metric);
                &prepared
            }
            Metric::L2 | Metric::InnerProduct => rows,
        };
        let graph: Box<dyn Graph> = match config.metric {
            Metric::L2 => grow(rows, dim, config, SquaredL2, report),
            Metric::Cosine => grow(rows, dim, config, Cosine, report),
            Metric::InnerProduct => grow(rows, dim, config, InnerProduct, report),
        };
        Ok(Self {
            graph,
            dim,
            metric: config.metric,
            ef: config.ef,
        })
    }

    /// A table of an existing graph. Its ids are those the rows were inserted under.
    ///
    /// The graph's distance must be one of a [`GraphDistance`], wrapped in [`Counted`], so that the table
    /// knows what a search costs. Every row is checked once.
    ///
    /// ```
    /// use chiplet_index::HnswTable;
    /// use chiplet_index::hnsw::Counted;
    /// use hnsw_rs::prelude::{DistL2, Hnsw};
    ///
    /// let hnsw = Hnsw::new(16, 100, 16, 200, Counted(DistL2));
    /// for id in 0..100 {
    ///     hnsw.insert((&[id as f32, 0.0], id));
    /// }
    /// let table = HnswTable::new(hnsw)?.with_ef(40)?;
    /// # Ok::<(), chiplet_index::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::EmptyGraph`], [`BuildError::MixedDimensions`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::NotNormalized`].
    pub fn new<D: GraphDistance>(hnsw: Hnsw<'static, f32, Counted<D>>) -> Result<Self, BuildError> {
        let dim = graph::check_rows(&hnsw, D::METRIC)?;
        Ok(Self {
            graph: Box::new(hnsw),
            dim,
            metric: D::METRIC,
            ef: HnswConfig::DEFAULT_EF,
        })
    }

    /// Sets how many candidates a query keeps that does not say (`Query::ef`).
    ///
    /// # Errors
    /// [`BuildError::Setting`] for 0.
    pub fn with_ef(mut self, ef: usize) -> Result<Self, BuildError> {
        at_least_one("ef", ef)?;
        self.ef = ef;
        Ok(self)
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    fn vector_bytes(&self) -> u64 {
        (self.dim * size_of::<f32>()) as u64
    }
}

/// Inserts `rows` into a new graph, in order.
fn grow<D: GraphDistance>(
    rows: &[f32],
    dim: usize,
    config: &HnswConfig,
    distance: D,
    report: impl FnMut(Progress),
) -> Box<dyn Graph> {
    let mut hnsw = Hnsw::<f32, Counted<D>>::new(
        config.m,
        rows.len() / dim,
        config::MAX_LAYERS,
        config.ef_construction,
        Counted(distance),
    );
    progress::add_rows(rows.chunks_exact(dim), report, |id, row| {
        hnsw.insert_slice((row, id));
    });
    hnsw.set_searching_mode(true);
    Box::new(hnsw)
}

impl Table for HnswTable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.graph.rows()
    }

    /// Vectors and links; an estimate, as hnsw_rs does not say what its own bookkeeping takes.
    fn size_bytes(&self) -> u64 {
        // The ground layer, which holds nearly all links, keeps up to 2 M of them for a point.
        hnsw_query_bytes(self.len() as u64, self.vector_bytes(), 2 * self.graph.m())
    }

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim)?;
        let vector = self.metric.prepare_query(query.vector())?;
        let rows = self.len();
        let k = query.k().min(rows);
        if k == 0 {
            return Ok(Vec::new());
        }
        let ef = query.requested_ef().unwrap_or(self.ef).clamp(k, rows);
        let (mut hits, mut visited) = self.graph.search(&vector, k, ef);
        if hits.len() < k {
            // Links lead to fewer than k rows from the entry point: no `ef` finds the others.
            hits = self.graph.scan(&vector, k);
            visited += rows as u64;
        }
        work.add_bytes(hnsw_query_bytes(
            visited,
            self.vector_bytes(),
            self.graph.m(),
        ));
        Ok(hits)
    }
}
