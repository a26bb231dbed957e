//! `FlatTable`: exact search, for ground truth and for tables too small to index.
//!
//! Rows lie in one array, scanned from front to back. A query splits into blocks of rows; a block's
//! answer depends on nothing outside it, so split and unsplit answers are equal by construction.

use std::ops::Range;

use chiplet_executor::{
    Neighbor, Probe, Query, SearchError, SplitTable, Table, Work, merge_nearest,
};

use crate::error::BuildError;
use crate::metric::Metric;
use crate::nearest::Nearest;
use crate::rows;

/// Rows of one block fill about this many bytes: at the 5-10 GB/s that one core scans from memory, a scan
/// unit of 25-50 us, far above the ~1 us that handing it to another core costs (docs/performance.md).
const BLOCK_BYTES: usize = 256 * 1024;

/// Exact search over rows held in memory. Ids are row numbers.
///
/// ```
/// use chiplet_executor::{Query, Table, Work};
/// use chiplet_index::{FlatTable, Metric};
///
/// let rows = [0.0, 0.0, 3.0, 4.0, 1.0, 0.0];
/// let table = FlatTable::build(rows, 2, Metric::L2)?;
/// let hits = table.search(&Query::new([0.0, 0.0]).top(2), &mut Work::default())?;
/// assert_eq!([hits[0].id, hits[1].id], [0, 2]);
/// assert_eq!(hits[1].distance, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlatTable {
    rows: Vec<f32>,
    dim: usize,
    metric: Metric,
    /// Rows of a block, the last one excepted.
    block: usize,
}

impl FlatTable {
    /// A table of `rows` (`[n][dim]`, one after the other). Pass a `Vec` to hand it over without a copy.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::RaggedRows`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`].
    pub fn build(
        rows: impl Into<Vec<f32>>,
        dim: usize,
        metric: Metric,
    ) -> Result<Self, BuildError> {
        let rows = rows.into();
        rows::check(&rows, dim, metric)?;
        Ok(Self {
            rows: rows::prepare(rows, dim, metric),
            dim,
            metric,
            block: (BLOCK_BYTES / (dim * size_of::<f32>())).max(1),
        })
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    fn row_bytes(&self) -> u64 {
        (self.dim * size_of::<f32>()) as u64
    }

    /// The nearest of rows `range` to the prepared `query`.
    fn scan_rows(
        &self,
        query: &[f32],
        k: usize,
        range: Range<usize>,
        work: &mut Work,
    ) -> Vec<Neighbor> {
        let mut nearest = Nearest::new(k.min(range.len()));
        let rows = &self.rows[range.start * self.dim..range.end * self.dim];
        for (row, id) in rows.chunks_exact(self.dim).zip(range.start as u64..) {
            let distance = self.metric.distance(query, row);
            nearest.offer(Neighbor { id, distance });
        }
        work.add_bytes(range.len() as u64 * self.row_bytes());
        nearest.into_sorted()
    }
}

impl Table for FlatTable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.rows.len() / self.dim
    }

    fn size_bytes(&self) -> u64 {
        self.len() as u64 * self.row_bytes()
    }

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim)?;
        let prepared = self.metric.prepare_query(query.vector())?;
        Ok(self.scan_rows(&prepared, query.k(), 0..self.len(), work))
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for FlatTable {
    /// Every block, in order: exact search can leave none out.
    fn coarse(&self, query: &Query, _work: &mut Work) -> Result<Vec<Probe>, SearchError> {
        query.check(self.dim)?;
        self.metric.prepare_query(query.vector())?;
        let blocks = self.len().div_ceil(self.block);
        Ok((0..blocks)
            .map(|block| Probe {
                list: block as u64,
                // A block has no centroid; nothing is known about how near it is.
                distance: 0.0,
                cost_bytes: self.block_rows(block).len() as u64 * self.row_bytes(),
            })
            .collect())
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        work: &mut Work,
    ) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim)?;
        let prepared = self.metric.prepare_query(query.vector())?;
        let parts = probes[unit]
            .iter()
            .map(|probe| {
                let rows = self.block_rows(probe.list as usize);
                self.scan_rows(&prepared, query.k(), rows, work)
            })
            .collect();
        Ok(merge_nearest(query.k(), parts))
    }
}

impl FlatTable {
    fn block_rows(&self, block: usize) -> Range<usize> {
        let rows = self.len();
        let start = block.saturating_mul(self.block).min(rows);
        start..start.saturating_add(self.block).min(rows)
    }
}
