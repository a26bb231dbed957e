//! How a graph is built, each default with its reason.

use chiplet_memory::MemoryPolicy;

use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;
use crate::progress::Watch;

use super::fit::Fit;
use super::format::{RowFormat, check_rows};
use super::packed;
use super::walk::MAX_NODES;

/// Bytes of a row's id, if it is the row's number.
const ID: u64 = 4;

/// Threads of a build, at most: more than any machine has processors for.
const MAX_THREADS: usize = 4_096;

/// How an [`HnswTable`](super::HnswTable) is built and searched.
///
/// ```
/// use chiplet_index::{HnswConfig, Metric};
/// let config = HnswConfig::new(Metric::Cosine).m(24).ef_construction(300).ef(100);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HnswConfig {
    pub(super) metric: Metric,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    pub(super) ef: usize,
    pub(super) threads: usize,
    pub(super) rows: Option<RowFormat>,
    pub(super) rerank: Option<RowFormat>,
    pub(super) inside_refined: bool,
    pub(super) fit: Option<Fit>,
    pub(super) reorder: bool,
    pub(super) memory: MemoryPolicy,
    pub(super) cpus: Vec<u32>,
}

impl HnswConfig {
    /// Links of a row on each upper layer, twice as many on the ground layer. 16 is the middle of the range
    /// (5 to 48) that Malkov and Yashunin recommend (arXiv 1603.09320, section 4.1).
    pub const DEFAULT_M: usize = 16;
    /// Candidates kept while a row is inserted. 200 is hnswlib's default.
    pub const DEFAULT_EF_CONSTRUCTION: usize = 200;
    /// Candidates kept during a search that does not say.
    pub(crate) const DEFAULT_EF: usize = 64;

    /// The defaults, for `metric`.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            m: Self::DEFAULT_M,
            ef_construction: Self::DEFAULT_EF_CONSTRUCTION,
            ef: Self::DEFAULT_EF,
            threads: 1,
            rows: None,
            rerank: None,
            inside_refined: false,
            fit: None,
            reorder: true,
            memory: MemoryPolicy::default(),
            cpus: Vec::new(),
        }
    }

    /// Sets M, the links of a row, in `2..=255`. More cost memory and time and raise recall.
    #[must_use]
    pub fn m(mut self, m: usize) -> Self {
        self.m = m;
        self
    }

    /// Sets the candidates kept while a row is inserted, at least 1. More cost build time and raise recall.
    #[must_use]
    pub fn ef_construction(mut self, ef_construction: usize) -> Self {
        self.ef_construction = ef_construction;
        self
    }

    /// Sets the candidates kept during a search without `Query::ef`, at least 1.
    #[must_use]
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = ef;
        self
    }

    /// Sets how many threads build the graph, 1 to 4,096. One thread gives the same graph for the same rows and
    /// settings; with several, the order of insertion and so the graph differ from build to build a little. The threads
    /// end with the build.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Ties the building threads to `cpus` (the operating system's numbers), one each, in turn. Without it they run
    /// where the calling thread may run.
    #[must_use]
    pub fn cpus(mut self, cpus: impl Into<Vec<u32>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Sets how rows are stored for the walk, as `f32` unless said otherwise. Rows of 4 bits and fewer need
    /// [`HnswConfig::rerank`]; see also [`HnswConfig::inside_refined`].
    #[must_use]
    pub fn rows(mut self, format: RowFormat) -> Self {
        self.rows = Some(format);
        self
    }

    /// Lets the build choose [`HnswConfig::rows`] and [`HnswConfig::rerank`] where they are not set: of all formats
    /// that find enough, those of which a query reads the fewest bytes. If none finds enough, the build fails and says
    /// what each would find. It takes a scan of all rows for each query of a sample, some hundredths of the build.
    #[must_use]
    pub fn fit(mut self, fit: Fit) -> Self {
        self.fit = Some(fit);
        self
    }

    /// How rows are kept, for the walk and once more for re-ranking.
    pub(super) fn formats(&self) -> (RowFormat, Option<RowFormat>) {
        (self.rows.unwrap_or(RowFormat::F32), self.rerank)
    }

    /// Bytes of a table of that many rows, but for its few hundred of other things and rows that are equal. 8-bit rows
    /// may have 4 bytes fewer.
    ///
    /// ```
    /// use chiplet_index::{HnswConfig, Metric};
    /// // Rows of 200 bytes, an id of 4, 32 links of 3; each 15th row has 16 more.
    /// assert_eq!(HnswConfig::new(Metric::L2).table_bytes(1_500, 50), 1_500 * 300 + 1_600 * 3);
    /// ```
    #[doc(hidden)]
    pub fn table_bytes(&self, rows: usize, dim: usize) -> u64 {
        let (walked, full) = self.formats();
        let stride = |format: RowFormat| format.stride_with(dim, true);
        let stored = stride(walked) + full.map_or(0, stride);
        let links = self.all_links(rows) * packed::link_bytes(rows) as u64;
        rows as u64 * (stored as u64 + ID) + links
    }

    /// Links of all layers of a graph of that many rows, about.
    #[doc(hidden)]
    pub fn all_links(&self, rows: usize) -> u64 {
        // 2M links on the ground layer, M on each layer above. A layer has an M-th of the rows of the one below, so the
        // layers above the ground have 1 / (M - 1) of all rows.
        let (rows, m) = (rows as u64, self.m as u64);
        rows * 2 * m + rows * m / m.saturating_sub(1).max(1)
    }

    /// Keeps the rows a second time, in `format` (of 8 bits or more), and compares the best candidates of a walk once
    /// more with them.
    #[must_use]
    pub fn rerank(mut self, format: RowFormat) -> Self {
        self.rerank = Some(format);
        self
    }

    /// For a table inside [`Refined`](crate::Refined), which compares candidates with exact rows kept elsewhere: rows
    /// of 4 bits then need no [`HnswConfig::rerank`]. By itself such a table answers with the distances of its codes,
    /// and finds few of the nearest rows. Rows of 2 and 1 bits need more candidates than `Refined` asks for, and still
    /// a second copy.
    ///
    /// ```
    /// use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Refined, RowFormat};
    ///
    /// let rows: Vec<f32> = (0..2000).map(|x| (x % 89) as f32).collect(); // 1,000 rows of 2
    /// let config = HnswConfig::new(Metric::L2).rows(RowFormat::Sq4);
    /// assert!(HnswTable::build(&rows, 2, &config).is_err());
    /// let coarse = HnswTable::build(&rows, 2, &config.inside_refined())?;
    /// let table = Refined::new(coarse, FlatTable::build(&rows, 2, Metric::L2)?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inside_refined(mut self) -> Self {
        self.inside_refined = true;
        self
    }

    /// Bytes of a link in a graph of that many rows: 3 below 2^24 rows, else 4.
    ///
    /// ```
    /// use chiplet_index::HnswConfig;
    /// assert_eq!(HnswConfig::link_bytes(1_000_000), 3);
    /// ```
    #[doc(hidden)]
    pub fn link_bytes(rows: usize) -> usize {
        packed::link_bytes(rows)
    }

    /// Sets where the table's memory lies, and in which pages: [`Pages`](crate::Pages) or a [`MemoryPolicy`]; in
    /// transparent huge pages and where it is first written unless said otherwise.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<MemoryPolicy>) -> Self {
        self.memory = memory.into();
        self
    }

    /// Whether linked nodes are laid side by side (the default).
    #[must_use]
    pub fn reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Links of a node on `layer`.
    pub(super) fn links(&self, layer: usize) -> usize {
        if layer == 0 { 2 * self.m } else { self.m }
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        // 1 gives hnsw_rs an infinite level scale (1 / ln M), 256 and more overflow its u8 or end the process.
        if !(2..=255).contains(&self.m) {
            return Err(BuildError::Setting {
                setting: "m",
                value: self.m.to_string(),
                accepted: "2 to 255",
            });
        }
        let (walked, full) = self.formats();
        // What the build is to choose is not known yet.
        let chosen = self.fit.is_none() || self.rows.is_some();
        let refined = self.inside_refined && walked.can_be_alone(full);
        if chosen
            && !refined
            && let Err((value, accepted)) = walked.check_rerank(full)
        {
            let setting = "rerank";
            return Err(BuildError::Setting {
                setting,
                value,
                accepted,
            });
        }
        at_least_one("ef_construction", self.ef_construction)?;
        at_least_one("threads", self.threads)?;
        if self.threads > MAX_THREADS {
            return Err(BuildError::Setting {
                setting: "threads",
                value: self.threads.to_string(),
                accepted: "1 to 4096",
            });
        }
        at_least_one("ef", self.ef)
    }
}

/// Checks that `rows` (`[n][dim]`, prepared for the metric) can be stored as `config` says.
pub(super) fn check(
    rows: &[f32],
    dim: usize,
    config: &HnswConfig,
    watch: &Watch<'_>,
) -> Result<(), BuildError> {
    let count = rows.len() / dim;
    if count > MAX_NODES {
        return Err(BuildError::TooManyRows {
            rows: count,
            limit: MAX_NODES,
        });
    }
    let (walked, full) = config.formats();
    for format in [Some(walked), full].into_iter().flatten() {
        check_rows(rows, dim, format, watch)?;
    }
    Ok(())
}
