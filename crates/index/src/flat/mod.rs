//! `FlatTable`: exact search, for ground truth and for tables too small to index.
//!
//! | section | holds |
//! |---|---|
//! | `rows` | `f32`, `[n][dim]`, in the order of their ids |
//! | `ids` | the ids, ascending, `u32` or, if one needs it, `u64`; absent if they are row numbers |
//!
//! Rows are scanned from front to back. A query splits into blocks of rows; a block's answer depends on nothing outside
//! it, so split and unsplit answers are equal by construction.

mod config;

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use chiplet_table::{
    Context, Neighbor, Probe, Query, SearchError, SplitTable, Table, TakeAnswer, merge_nearest,
};

use chiplet_memory::{Granted, MemoryPolicy};
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::exact::ExactRows;
use crate::hnsw::{Grid, RowFormat};
use crate::ids::{IdSection, Ids, RowIds};
use crate::image::{Draft, FileError, Image, Section};
use crate::kernel::{Element, Rows, Span};
use crate::metric::{self, Metric};
use crate::nearest::Nearest;
use crate::options::BuildOptions;
use crate::poll;
use crate::progress::{Stage, Watch};
use crate::rows::{self, MAX_DIM};
use crate::stored_rows::StoredRows;
pub use config::FlatConfig;

/// Rows of one block fill about this many bytes: at the 5-10 GB/s that one core scans from memory, a scan
/// unit of 25-50 us, far above the ~1 us that handing it to another core costs (results/lab/2026-11/performance.md).
const BLOCK_BYTES: usize = 256 * 1024;

/// Exact search over rows held in memory.
///
/// ```
/// use chiplet_table::{Query, Table, Context};
/// use chiplet_index::{FlatTable, Metric};
///
/// let rows = [0.0, 0.0, 3.0, 4.0, 1.0, 0.0];
/// let table = FlatTable::build(rows, 2, Metric::L2)?;
/// let hits = table.search(&Query::new([0.0, 0.0]).top(2), &mut Context::default())?;
/// assert_eq!([hits[0].id, hits[1].id], [0, 2]);
/// assert_eq!(hits[1].distance, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A table can be kept in a file, which is read back or mapped:
///
/// ```
/// # use chiplet_table::{Query, Table, Context};
/// # use chiplet_index::{FlatTable, Metric};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("points.table");
/// FlatTable::build([0.0, 0.0, 3.0, 4.0], 2, Metric::L2)?.save(&path)?;
/// // SAFETY: nobody writes to the file.
/// let table = unsafe { FlatTable::map(&path) }?;
/// let hits = table.search(&Query::new([3.0, 3.0]).top(1), &mut Context::default())?;
/// assert_eq!((hits[0].id, hits[0].distance), (1, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlatTable {
    image: Image,
    /// `[n][dim]`, `f32`.
    rows: Section,
    /// Of each row, ascending; row numbers if there are none.
    ids: Option<IdSection>,
    meta: Meta,
    /// Rows of a block, the last one excepted.
    block: usize,
}

/// What a file says of the rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    metric: Metric,
    dim: usize,
    rows: usize,
    /// Whether ids take eight bytes; `None` if they are row numbers, which are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wide_ids: Option<bool>,
}

/// What a file of this kind of table is called inside.
pub(crate) const KIND: &str = "flat";

/// Rows whose distances are computed at once.
const AT_ONCE: usize = 64;

/// What a thread keeps from one call of [`Table::search_each`] to the next.
#[derive(Default)]
struct Scratch {
    vector: Vec<f32>,
    hits: Vec<Neighbor>,
}

/// Rows found that there is room for between calls: 1 MiB.
const KEPT: usize = 1 << 16;

thread_local! {
    static KEPT_BY_THREAD: Cell<Scratch> = Cell::default();
}

impl FlatTable {
    /// A table of `rows` (`[n][dim]`, one after the other), which are copied into memory of its own. Ids are row
    /// numbers, unless [`FlatTable::build_with`] gets others.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::DimensionTooLarge`] over 16,777,216, [`BuildError::RaggedRows`],
    /// [`BuildError::NotFinite`], [`BuildError::RowTooLong`], [`BuildError::Memory`].
    pub fn build(
        rows: impl AsRef<[f32]>,
        dim: usize,
        config: impl Into<FlatConfig>,
    ) -> Result<Self, BuildError> {
        Self::build_with(rows, dim, config, BuildOptions::new())
    }

    /// [`FlatTable::build`] with ids for the rows, or with a report of its progress that can stop it.
    ///
    /// # Errors
    /// As [`FlatTable::build`]; [`BuildError::IdCount`], [`BuildError::IdTwice`], [`BuildError::Stopped`].
    pub fn build_with(
        rows: impl AsRef<[f32]>,
        dim: usize,
        config: impl Into<FlatConfig>,
        options: BuildOptions<'_>,
    ) -> Result<Self, BuildError> {
        let rows = rows.as_ref();
        let FlatConfig { metric, memory } = config.into();
        let limit = MAX_DIM;
        if dim > limit {
            return Err(BuildError::DimensionTooLarge { dim, limit });
        }
        let watch = &Watch::new(options.report, options.every);
        let total = rows::count(rows, dim)?;
        watch.begin(Stage::Checking, total)?;
        let ids = RowIds::new(options.ids, total, watch)?;
        let meta = Meta {
            metric,
            dim,
            rows: rows::check(rows, dim, metric, watch)?,
            wide_ids: ids.wide(),
        };
        watch.end()?;
        watch.begin(Stage::Finishing, total)?;
        let mut draft = Draft::new();
        let section = draft.add("rows", size_of_val(rows));
        let kept = meta.wide_ids;
        let kept = kept.map(|wide| IdSection::add(&mut draft, "ids", total, wide));
        let mut image = draft.allocate(memory)?;
        if let Some(kept) = kept {
            let ascending = (0..total).map(|at| ids.of(ids.ranked(at)));
            kept.write(&mut image, 0, ascending, watch)?;
        }
        let own = image.section_mut::<f32>(section);
        for (at, own) in own.chunks_exact_mut(dim).enumerate() {
            own.copy_from_slice(&rows[ids.ranked(at) * dim..][..dim]);
            if metric == Metric::Cosine {
                metric::normalize(own);
            }
            watch.done(at + 1)?;
        }
        let frozen = image.freeze(KIND, &meta);
        let image = frozen.expect("numbers and names can be written as JSON");
        watch.end()?;
        Ok(Self::of(image, section, kept, meta))
    }

    fn of(image: Image, rows: Section, ids: Option<IdSection>, meta: Meta) -> Self {
        Self {
            image,
            rows,
            ids,
            meta,
            block: (BLOCK_BYTES / (meta.dim * size_of::<f32>())).max(1),
        }
    }

    pub(crate) fn open(image: Image) -> Result<Self, FileError> {
        image.expect_kind(KIND)?;
        let meta: Meta = image.meta()?;
        let values = meta.rows.checked_mul(meta.dim);
        // A file without rows may claim any dimension.
        let Some(values) = values.filter(|_| (1..=MAX_DIM).contains(&meta.dim)) else {
            let (rows, dim) = (meta.rows, meta.dim);
            return Err(image.damaged(format!("it claims {rows} rows of {dim} components")));
        };
        let rows = image.find_values::<f32>("rows", values)?;
        let ids = meta
            .wide_ids
            .map(|wide| IdSection::find(&image, "ids", meta.rows, wide));
        let ids = ids.transpose()?;
        Ok(Self::of(image, rows, ids, meta))
    }

    /// Writes the table to `path`, replacing a file that is there only when all is written. A save that fails or is
    /// interrupted leaves the old file, and an interrupted one a temporary file beside it (`.<name>.<letters>.part`). A
    /// symbolic link to a file stays, and that file is replaced.
    ///
    /// # Errors
    /// [`FileError`]: the system refused something, or this machine is big-endian.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.image.save(path.as_ref())
    }

    /// Reads a table from `path` into memory of its own, with all checksums compared.
    ///
    /// # Errors
    /// [`FileError`]: no file of this kind, damaged, of a newer version, or too large for the memory.
    pub fn load(
        path: impl AsRef<Path>,
        memory: impl Into<MemoryPolicy>,
    ) -> Result<Self, FileError> {
        Self::open(Image::load(path.as_ref(), memory)?)
    }

    /// Maps the file at `path`: queries can be answered at once, and the system reads what they touch. Rows are not
    /// checked, see [`FlatTable::verify`].
    ///
    /// # Safety
    /// Nobody writes to the file or cuts it off while the table lives. Reading what was cut off ends the process; bytes
    /// that are overwritten change although Rust takes them for constant. `save` is safe: it puts a new file in the
    /// place of the old one, which the table keeps.
    ///
    /// # Errors
    /// As [`FlatTable::load`], for what the file's header shows.
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // SAFETY: the caller's.
        let image = unsafe { Image::map(path.as_ref()) }?;
        Self::open(image)
    }

    /// Compares all checksums of a mapped table with its file: reads all of it.
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

    fn row_bytes(&self) -> u64 {
        (self.meta.dim * size_of::<f32>()) as u64
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(self.image.section(self.rows), self.row_bytes() as usize)
    }

    pub(crate) fn ids(&self) -> Ids<'_> {
        self.ids.map_or(Ids::From(0), |ids| ids.of(&self.image))
    }

    pub(crate) fn stored_rows(&self) -> StoredRows<'_> {
        StoredRows {
            dim: self.meta.dim,
            format: RowFormat::F32,
            metric: self.meta.metric,
            rows: self.rows(),
            ids: self.ids(),
            grid: Grid {
                low: &[],
                step: 1.0,
            },
        }
    }

    /// The nearest of rows `range` that `query` allows and reaches, in the memory of `kept`. `vector` is prepared for
    /// the metric.
    fn scan_rows(
        &self,
        query: &Query,
        vector: &[f32],
        range: Range<usize>,
        kept: Vec<Neighbor>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let mut nearest = Nearest::within(query.k().min(range.len()), kept);
        let (rows, ids) = (self.rows(), self.ids());
        let mut distances = [0.0; AT_ONCE];
        for start in range.clone().step_by(AT_ONCE) {
            let span = Span {
                start,
                end: (start + AT_ONCE).min(range.end),
            };
            poll::read(context, (span.end - start) as u64 * self.row_bytes())?;
            let distances = &mut distances[..span.end - start];
            let metric = self.meta.metric;
            metric.distances(Element::F32, vector, rows, span, distances);
            for (&distance, row) in distances.iter().zip(start..) {
                if query.reaches(distance) {
                    let id = ids.at(row);
                    if query.allows(id) {
                        nearest.offer(Neighbor { id, distance });
                    }
                }
            }
        }
        Ok(nearest.into_sorted())
    }
}

impl fmt::Debug for FlatTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatTable")
            .field("meta", &self.meta)
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

    /// Rows, and ids that are not row numbers.
    fn size_bytes(&self) -> u64 {
        self.image.bytes() as u64
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        self.image.residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.image.copy_to(nodes, pace, Self::open)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.meta.dim)?;
        let prepared = self.meta.metric.prepare_query(query.vector())?;
        self.scan_rows(query, &prepared, 0..self.len(), Vec::new(), context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        let mut scratch = KEPT_BY_THREAD.take();
        for (number, query) in queries.iter().enumerate() {
            let mut search = || {
                query.check(self.meta.dim)?;
                let metric = self.meta.metric;
                metric.prepare_query_into(query.vector(), &mut scratch.vector)?;
                let kept = std::mem::take(&mut scratch.hits);
                let rows = 0..self.len();
                scratch.hits = self.scan_rows(query, &scratch.vector, rows, kept, context)?;
                Ok(())
            };
            let searched = search();
            answer(number, searched.map(|()| &*scratch.hits));
        }
        scratch.hits.clear();
        scratch.hits.shrink_to(KEPT);
        KEPT_BY_THREAD.set(scratch);
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl ExactRows for FlatTable {
    fn dim(&self) -> usize {
        self.meta.dim
    }

    fn metric(&self) -> Metric {
        self.meta.metric
    }

    fn size_bytes(&self) -> u64 {
        Table::size_bytes(self)
    }

    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        self.stored_rows().distances(query, ids, distances, context)
    }
}

impl SplitTable for FlatTable {
    /// Every block, in order: exact search can leave none out.
    fn coarse(&self, query: &Query, _context: &mut Context) -> Result<Vec<Probe>, SearchError> {
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
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.meta.dim)?;
        let prepared = self.meta.metric.prepare_query(query.vector())?;
        let parts = probes[unit]
            .iter()
            .map(|probe| {
                let rows = self.block_rows(probe.list as usize);
                self.scan_rows(query, &prepared, rows, Vec::new(), context)
            })
            .collect::<Result<_, _>>()?;
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
