//! `HnswTable`: approximate search in a graph that lies in memory of its own.
//!
//! | folder or file | holds |
//! |---|---|
//! | `build` | the graph's construction, by one thread or several |
//! | `frozen` | the finished graph: one piece of memory, which is also its file |
//! | `meta` | what that file says of itself |
//! | `format` | how rows are stored, and distances to them |
//! | `fit`, `choose` | what a table must find, and which row format finds it |
//! | `walk` | the walk over a layer, which builds and searches |
//! | `search` | a query's way: down the layers, the walk, re-ranking |
//! | `batch` | many queries at once |
//! | `observe` | what a search reads |
//! | `packed` | how links are stored |
//! | `order` | which nodes lie side by side |
//! | `backlinks` | further links, for filtered searches under the inner product |
//! | `adopt` | graphs that another library built |

mod adopt;
mod backlinks;
mod batch;
mod build;
mod choose;
mod config;
mod fit;
mod format;
mod frozen;
mod meta;
mod observe;
mod order;
mod packed;
mod search;
mod walk;

use std::path::Path;

use chiplet_memory::{Granted, MemoryPolicy, Region};
use chiplet_table::{Context, Neighbor, Query, SearchError, Table, TakeAnswer};

use crate::error::{BuildError, at_least_one};
use crate::ids::RowIds;
use crate::image::{FileError, Image};
use crate::metric::Metric;
use crate::options::BuildOptions;
use crate::progress::{Stage, Watch};
use crate::rows;

pub use adopt::Graph;
#[cfg(feature = "hnsw_rs")]
pub use adopt::{Cosine, GraphDistance, InnerProduct, SquaredL2};
pub use config::HnswConfig;
pub use fit::Fit;
pub use format::RowFormat;
pub(crate) use format::{Grid, Grids, Prepared, RowDistances};
#[cfg(feature = "faiss")]
pub(crate) use format::{check_rows, check_small};
use frozen::Frozen;
pub(crate) use frozen::KIND;
#[doc(hidden)]
pub use observe::{Part, Read};
use search::with_searcher;

/// A graph (HNSW) as a table.
///
/// ```
/// use chiplet_table::{Query, Table, Context};
/// use chiplet_index::{HnswConfig, HnswTable, Metric};
///
/// let rows: Vec<f32> = (0..200).map(|x| x as f32).collect(); // 100 rows of 2
/// let table = HnswTable::build(&rows, 2, &HnswConfig::new(Metric::L2))?;
/// let mut context = Context::default();
/// let hits = table.search(&Query::new([20.0, 21.0]).top(3).ef(32), &mut context)?;
/// assert_eq!(hits[0].id, 10);
/// assert!(context.bytes() > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HnswTable {
    graph: Frozen,
}

impl HnswTable {
    /// Nodes that a walk follows in one step: it waits for memory once a step.
    #[doc(hidden)]
    pub const FOLLOWED_A_STEP: usize = walk::FOLLOWED_A_STEP;

    /// Builds a graph over `rows` (`[n][dim]`, one after the other). Ids are row numbers, unless
    /// [`HnswTable::build_with`] gets others.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::RaggedRows`], [`BuildError::NotFinite`],
    /// [`BuildError::RowTooLong`], [`BuildError::OutOfRange`], [`BuildError::TooSmall`], [`BuildError::TooManyRows`],
    /// [`BuildError::DimensionTooLarge`], [`BuildError::Setting`], [`BuildError::Threads`], [`BuildError::Fit`].
    pub fn build(rows: &[f32], dim: usize, config: &HnswConfig) -> Result<Self, BuildError> {
        Self::build_with(rows, dim, config, BuildOptions::new())
    }

    /// [`HnswTable::build`] with ids for the rows, or with a report of its progress that can stop it.
    ///
    /// # Errors
    /// As [`HnswTable::build`]; [`BuildError::IdCount`], [`BuildError::IdTwice`], [`BuildError::Stopped`].
    pub fn build_with(
        rows: &[f32],
        dim: usize,
        config: &HnswConfig,
        options: BuildOptions<'_>,
    ) -> Result<Self, BuildError> {
        config.check()?;
        let watch = &Watch::new(options.report, options.every);
        let total = rows::count(rows, dim)?;
        watch.begin(Stage::Checking, total)?;
        let ids = RowIds::new(options.ids, total, watch)?;
        rows::check(rows, dim, config.metric, watch)?;
        let rows = rows::prepared(rows, dim, config.metric, watch)?;
        watch.end()?;
        let wide = ids.wide() == Some(true);
        let config = &choose::fitted(config, &rows, dim, wide, watch)?;
        config::check(&rows, dim, config, watch)?;
        let links = build::build(&rows, dim, config, watch)?;
        let order = order::order(&links, config.reorder, watch)?;
        let id = |row| ids.of(row);
        let graph = Frozen::new(&links, &rows, dim, config, &order, id, watch)?;
        watch.end()?;
        Ok(Self { graph })
    }

    /// Writes the table to `path`, as [`FlatTable::save`](crate::FlatTable::save) does. The file can be copied to other
    /// machines.
    ///
    /// ```
    /// use chiplet_table::Table;
    /// use chiplet_index::{HnswConfig, HnswTable, Metric};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("songs.chiplet");
    /// let songs = HnswTable::build(&[0.0, 1.0, 2.0, 3.0], 2, &HnswConfig::new(Metric::L2))?;
    /// songs.save(&path)?;
    /// // It serves at once, reading what it is asked for. SAFETY: nobody writes to the file.
    /// let mapped = unsafe { HnswTable::map(&path) }?;
    /// assert_eq!(mapped.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError`]: the system refused something, or this machine is big-endian.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.graph.image().save(path.as_ref())
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

    /// Maps the file at `path`: queries can be answered at once, and the system reads what they touch. Rows and links
    /// are not checked, see [`HnswTable::verify`]; a damaged file gives wrong answers, but no other harm.
    ///
    /// # Safety
    /// Nobody writes to the file or cuts it off while the table lives. Reading what was cut off ends the process; bytes
    /// that are overwritten change although Rust takes them for constant. `save` is safe: it puts a new file in the
    /// place of the old one, which the table keeps.
    ///
    /// # Errors
    /// As [`HnswTable::load`], for what the file's header shows.
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // SAFETY: the caller's.
        let image = unsafe { Image::map(path.as_ref()) }?;
        Self::open(image)
    }

    pub(crate) fn open(image: Image) -> Result<Self, FileError> {
        let graph = Frozen::open(image)?;
        Ok(Self { graph })
    }

    /// Compares all checksums of a mapped table with its file: reads all of it.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn verify(&self) -> Result<(), FileError> {
        self.graph.image().verify()
    }

    /// What the system has given the table's memory up to now.
    pub fn granted(&self) -> Granted {
        self.region().granted()
    }

    pub(crate) fn region(&self) -> &Region {
        self.graph.image().region()
    }

    /// Sets how many candidates a query without `Query::ef` keeps. [`HnswTable::save`] keeps it.
    ///
    /// # Errors
    /// [`BuildError::Setting`] for 0.
    pub fn with_ef(mut self, ef: usize) -> Result<Self, BuildError> {
        at_least_one("ef", ef)?;
        self.graph.set_ef(ef);
        Ok(self)
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.graph.meta.metric
    }

    /// The ids of all rows, in no order.
    pub fn ids(&self) -> Vec<u64> {
        self.graph.ids().all(self.graph.nodes())
    }

    /// [`AnyTable::row`](crate::AnyTable::row).
    pub(crate) fn row(&self, node: usize) -> Option<Vec<f32>> {
        let walked = (self.graph.meta.rows, self.graph.rows());
        let (format, rows) = self.graph.full().unwrap_or(walked);
        let grids = self.graph.grids();
        grids.read(format, rows.bytes(node)?, self.graph.meta.dim)
    }

    /// How the graph's rows are kept ([`HnswConfig::rows`]).
    #[doc(hidden)]
    pub fn row_format(&self) -> RowFormat {
        self.graph.meta.rows
    }

    /// The format of the second copy that candidates are compared with again ([`HnswConfig::rerank`]), if there is one.
    #[doc(hidden)]
    pub fn rerank_format(&self) -> Option<RowFormat> {
        self.graph.meta.full
    }
}

impl Table for HnswTable {
    fn dim(&self) -> usize {
        self.graph.meta.dim
    }

    fn len(&self) -> usize {
        self.graph.nodes()
    }

    /// All of the table's memory: rows, links, ids.
    fn size_bytes(&self) -> u64 {
        self.graph.image().bytes() as u64
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        self.graph.image().residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.graph.image().copy_to(nodes, pace, Self::open)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        with_searcher(|searcher| {
            let found = searcher.search(&self.graph, query, context);
            found.map(<[_]>::to_vec)
        })
    }

    /// By [`Table::search_each`], which has the walks take turns where that pays.
    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        crate::batch::answers(self, queries, context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        if self.takes_turns() {
            return self.in_turns(queries, context, answer);
        }
        for (number, query) in queries.iter().enumerate() {
            with_searcher(|searcher| {
                answer(number, searcher.search(&self.graph, query, context));
            });
        }
    }

    /// As many as keep walks taking turns, if those pay.
    fn batch_size(&self) -> usize {
        self.searched_together()
    }
}
