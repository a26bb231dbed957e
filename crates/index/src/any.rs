//! `AnyTable`: a table out of a file that says itself which kind it is.

use std::fmt;
use std::path::Path;

use chiplet_memory::{Granted, MemoryPolicy};
use chiplet_table::{Context, Neighbor, Query, SearchError, SplitTable, Table, TakeAnswer};

use crate::flat::{self, FlatTable};
use crate::hnsw::{self, HnswTable};
use crate::image::{FileError, Image};
use crate::ivf::{self, IvfTable};
use crate::metric::Metric;

/// A table of any kind that has a file, as [`open`] finds it.
///
/// ```
/// use chiplet_index::{AnyTable, HnswConfig, HnswTable, Metric, Pages};
/// use chiplet_table::Table;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("songs.chiplet");
/// HnswTable::build(&[0.0, 1.0, 2.0, 3.0], 2, &HnswConfig::new(Metric::L2))?.save(&path)?;
/// let table = chiplet_index::open(&path, Pages::default())?;
/// assert_eq!((table.len(), table.metric()), (2, Metric::L2));
/// assert!(matches!(table, AnyTable::Hnsw(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub enum AnyTable {
    /// Exact search.
    Flat(FlatTable),
    /// A graph.
    Hnsw(HnswTable),
    /// Inverted lists.
    Ivf(IvfTable),
}

/// Reads the table at `path`, whichever kind it is of, into memory of its own, placed by `memory`, with all checksums
/// compared.
///
/// # Errors
/// [`FileError`]: no table to search ([`FileError::OtherKind`] for [`KeyedRows`](crate::KeyedRows)), damaged, of a
/// newer version, or too large for the memory.
pub fn open(
    path: impl AsRef<Path>,
    memory: impl Into<MemoryPolicy>,
) -> Result<AnyTable, FileError> {
    AnyTable::of(Image::load(path.as_ref(), memory)?)
}

/// Maps the table at `path`, whichever kind it is of: queries can be answered at once, and the system reads what they
/// touch. Only the header is checked, see [`AnyTable::verify`].
///
/// # Safety
/// As [`FlatTable::map`], whichever kind it is of: nobody writes to the file or cuts it off while the table lives.
///
/// # Errors
/// As [`open`], for what the file's header shows.
#[expect(
    unsafe_code,
    reason = "the caller answers for the file, as with any mapping"
)]
pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<AnyTable, FileError> {
    // SAFETY: the caller's.
    AnyTable::of(unsafe { Image::map(path.as_ref()) }?)
}

/// `$body` with `$table` as whichever table `$any` is.
macro_rules! each {
    ($any:expr, $table:ident => $body:expr) => {
        match $any {
            AnyTable::Flat($table) => $body,
            AnyTable::Hnsw($table) => $body,
            AnyTable::Ivf($table) => $body,
        }
    };
}

impl AnyTable {
    fn of(image: Image) -> Result<Self, FileError> {
        match image.kind() {
            flat::KIND => FlatTable::open(image).map(Self::Flat),
            hnsw::KIND => HnswTable::open(image).map(Self::Hnsw),
            ivf::KIND => IvfTable::open(image).map(Self::Ivf),
            _ => Err(image.other_kind("flat, hnsw or ivf")),
        }
    }

    /// Writes the table to `path`, as its kind does it.
    ///
    /// # Errors
    /// As [`IvfTable::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        each!(self, table => table.save(path))
    }

    /// Compares all checksums of a mapped table with its file: reads all of it.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn verify(&self) -> Result<(), FileError> {
        each!(self, table => table.verify())
    }

    /// What the system has given the table's memory up to now; `None` if Faiss owns the memory.
    pub fn granted(&self) -> Option<Granted> {
        match self {
            Self::Flat(table) => Some(table.granted()),
            Self::Hnsw(table) => Some(table.granted()),
            Self::Ivf(table) => table.granted(),
        }
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        each!(self, table => table.metric())
    }

    /// The ids of all rows, by their places: the order in which the table keeps them. `None` where Faiss keeps them.
    pub fn ids(&self) -> Option<Vec<u64>> {
        match self {
            Self::Flat(table) => Some(table.ids().all(table.len())),
            Self::Hnsw(table) => Some(table.ids()),
            Self::Ivf(table) => table.ids(),
        }
    }

    /// The row at `place` as the table keeps it: rounded to its format, and of length 1 (or 0) for [`Metric::Cosine`].
    /// If the table keeps two copies, it is the finer one. `None` beyond the last, and where the table keeps only codes
    /// that do not give a row back: codes of parts, of fewer than 8 bits, or of rows that were mapped first.
    ///
    /// ```
    /// use chiplet_index::{AnyTable, FlatTable, Metric};
    ///
    /// let table = AnyTable::from(FlatTable::build([0.5, 1.0, 2.0, 3.0], 2, Metric::L2)?);
    /// assert_eq!(table.ids(), Some(vec![0, 1]));
    /// assert_eq!(table.row(1), Some(vec![2.0, 3.0]));
    /// # Ok::<(), chiplet_index::BuildError>(())
    /// ```
    pub fn row(&self, place: usize) -> Option<Vec<f32>> {
        match self {
            Self::Flat(table) => table.stored_rows().row(place),
            Self::Hnsw(table) => table.row(place),
            Self::Ivf(table) => table.row(place),
        }
    }

    fn table(&self) -> &dyn Table {
        each!(self, table => table)
    }
}

impl From<FlatTable> for AnyTable {
    fn from(table: FlatTable) -> Self {
        Self::Flat(table)
    }
}

impl From<HnswTable> for AnyTable {
    fn from(table: HnswTable) -> Self {
        Self::Hnsw(table)
    }
}

impl From<IvfTable> for AnyTable {
    fn from(table: IvfTable) -> Self {
        Self::Ivf(table)
    }
}

impl fmt::Debug for AnyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Flat(_) => flat::KIND,
            Self::Hnsw(_) => hnsw::KIND,
            Self::Ivf(_) => ivf::KIND,
        };
        f.debug_struct("AnyTable")
            .field("kind", &kind)
            .field("rows", &self.len())
            .finish_non_exhaustive()
    }
}

impl Table for AnyTable {
    fn dim(&self) -> usize {
        self.table().dim()
    }

    fn len(&self) -> usize {
        self.table().len()
    }

    fn size_bytes(&self) -> u64 {
        self.table().size_bytes()
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        self.table().residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.table().copy_to(nodes, pace)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.table().search(query, context)
    }

    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        self.table().search_batch(queries, context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        self.table().search_each(queries, context, answer);
    }

    fn batch_size(&self) -> usize {
        self.table().batch_size()
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        self.table().as_split()
    }
}
