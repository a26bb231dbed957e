//! `FlatTable`: exact search, for ground truth and for tables too small to index.
//!
//! Rows lie in one array, scanned from front to back. A query splits into blocks of rows; a block's
//! answer depends on nothing outside it, so split and unsplit answers are equal by construction.
//!
//! The array is a section of an [`Image`]. Its size is checked against the dimension and the number of rows when a file is
//! opened; the rows themselves are not, and any values are safe to search.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use chiplet_executor::{
    Neighbor, Probe, Query, SearchError, SplitTable, Table, Work, merge_nearest,
};
use chiplet_memory::{Granted, Pages};
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::image::{Draft, FileError, Image, MetricName, Section};
use crate::metric::{self, Metric};
use crate::nearest::Nearest;
use crate::rows;

/// Rows of one block fill about this many bytes: at the 5-10 GB/s that one core scans from memory, a scan
/// unit of 25-50 us, far above the ~1 us that handing it to another core costs (docs/performance.md).
const BLOCK_BYTES: usize = 256 * 1024;

/// What files call this kind of table, and its rows.
const KIND: &str = "flat";
const ROWS: &str = "rows";

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
///
/// A table can be kept in a file, which is read back or mapped:
///
/// ```
/// # use chiplet_executor::{Query, Table, Work};
/// # use chiplet_index::{FlatTable, Metric};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("points.table");
/// FlatTable::build([0.0, 0.0, 3.0, 4.0], 2, Metric::L2)?.save(&path)?;
/// let table = FlatTable::map(&path)?;
/// let hits = table.search(&Query::new([3.0, 3.0]).top(1), &mut Work::default())?;
/// assert_eq!((hits[0].id, hits[0].distance), (1, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlatTable {
    image: Image,
    rows: Section,
    meta: Meta,
    /// Rows of a block, the last one excepted.
    block: usize,
}

/// What a file says of the table.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    dim: usize,
    rows: usize,
    #[serde(with = "MetricName")]
    metric: Metric,
}

impl FlatTable {
    /// A table of `rows` (`[n][dim]`, one after the other), which are copied into memory of its own.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::RaggedRows`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::Memory`].
    pub fn build(rows: impl AsRef<[f32]>, dim: usize, metric: Metric) -> Result<Self, BuildError> {
        Self::build_in(rows, dim, metric, Pages::default())
    }

    /// [`FlatTable::build`], in pages of this kind.
    ///
    /// # Errors
    /// As [`FlatTable::build`].
    pub fn build_in(
        rows: impl AsRef<[f32]>,
        dim: usize,
        metric: Metric,
        pages: Pages,
    ) -> Result<Self, BuildError> {
        let rows = rows.as_ref();
        let meta = Meta {
            dim,
            rows: rows::check(rows, dim, metric)?,
            metric,
        };
        let mut draft = Draft::new();
        let section = draft.add(ROWS, size_of_val(rows));
        let mut image = draft.allocate(pages)?;
        let own = image.section_mut::<f32>(section);
        own.copy_from_slice(rows);
        if metric == Metric::Cosine {
            own.chunks_exact_mut(dim).for_each(metric::normalize);
        }
        let image = image.freeze(KIND, &meta);
        let image = image.expect("two numbers and a name can be said in JSON");
        Ok(Self::of(image, section, meta))
    }

    /// Writes the table to `path`, in place of what may be there. A save that fails or is interrupted leaves the file that was
    /// there, and at worst a temporary file beside it (`.<name>.<letters>.part`). A symbolic link is replaced, not followed.
    ///
    /// The file can be read on any little-endian machine.
    ///
    /// # Errors
    /// [`FileError::Io`]; [`FileError::Damaged`] if the table was mapped from a file that is damaged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.image.save(path.as_ref())
    }

    /// Reads a table that [`FlatTable::save`] wrote into memory of its own, and checks every byte of the file.
    ///
    /// # Errors
    /// All but [`FileError::Description`]. What is no table, damaged, cut off, of another kind or of a newer version is refused.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::load_in(path, Pages::default())
    }

    /// [`FlatTable::load`], in pages of this kind.
    ///
    /// # Errors
    /// As [`FlatTable::load`].
    pub fn load_in(path: impl AsRef<Path>, pages: Pages) -> Result<Self, FileError> {
        Self::open(Image::load(path.as_ref(), pages)?)
    }

    /// Maps a table that [`FlatTable::save`] wrote. It can be searched at once: only the header is read and checked, and rows
    /// come from the file when a search first reads them. Processes that map one file share its memory.
    ///
    /// Damage to the rows is not noticed, and gives wrong answers; [`FlatTable::verify`] finds it. Nobody may write to the file
    /// or cut it off while it is mapped, see [`chiplet_memory::Region::map`]; saving another table over it is allowed.
    ///
    /// # Errors
    /// As [`FlatTable::load`].
    pub fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::open(Image::map(path.as_ref())?)
    }

    /// Checks the rows against the checksum of the file that they come from: for a mapped table, all of which it reads. A table
    /// that was built has none, and one that was loaded has been checked.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn verify(&self) -> Result<(), FileError> {
        self.image.verify()
    }

    /// What the system has given the table's memory up to now.
    pub fn granted(&self) -> Granted {
        self.image.region().granted()
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.meta.metric
    }

    fn open(image: Image) -> Result<Self, FileError> {
        image.expect_kind(KIND)?;
        let meta: Meta = image.meta()?;
        let values = meta.rows.checked_mul(meta.dim);
        // A file without rows may claim any dimension.
        let row_bytes = meta.dim.checked_mul(size_of::<f32>());
        let Some(values) = values.filter(|_| row_bytes.is_some_and(|bytes| bytes > 0)) else {
            let Meta { rows, dim, .. } = meta;
            return Err(image.damaged(format!("it would have {rows} rows of dimension {dim}")));
        };
        let rows = image.find_values::<f32>(ROWS, values)?;
        Ok(Self::of(image, rows, meta))
    }

    fn of(image: Image, rows: Section, meta: Meta) -> Self {
        Self {
            image,
            rows,
            meta,
            block: (BLOCK_BYTES / (meta.dim * size_of::<f32>())).max(1),
        }
    }

    fn row_bytes(&self) -> u64 {
        (self.meta.dim * size_of::<f32>()) as u64
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
        let dim = self.meta.dim;
        let rows = &self.image.section::<f32>(self.rows)[range.start * dim..range.end * dim];
        for (row, id) in rows.chunks_exact(dim).zip(range.start as u64..) {
            let distance = self.meta.metric.distance(query, row);
            nearest.offer(Neighbor { id, distance });
        }
        work.add_bytes(range.len() as u64 * self.row_bytes());
        nearest.into_sorted()
    }
}

impl fmt::Debug for FlatTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatTable")
            .field("rows", &self.meta.rows)
            .field("dim", &self.meta.dim)
            .field("metric", &self.meta.metric)
            .finish_non_exhaustive()
    }
}

impl Table for FlatTable {
    fn dim(&self) -> usize {
        self.meta.dim
    }

    fn len(&self) -> usize {
        self.meta.rows
    }

    fn size_bytes(&self) -> u64 {
        self.rows.bytes() as u64
    }

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.meta.dim)?;
        let prepared = self.meta.metric.prepare_query(query.vector())?;
        Ok(self.scan_rows(&prepared, query.k(), 0..self.len(), work))
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for FlatTable {
    /// Every block, in order: exact search can leave none out.
    fn coarse(&self, query: &Query, _work: &mut Work) -> Result<Vec<Probe>, SearchError> {
        query.check(self.meta.dim)?;
        self.meta.metric.prepare_query(query.vector())?;
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
        query.check(self.meta.dim)?;
        let prepared = self.meta.metric.prepare_query(query.vector())?;
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
