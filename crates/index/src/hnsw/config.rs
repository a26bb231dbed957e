//! How a graph is built, each default with its reason.

use chiplet_memory::Pages;

use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;

use super::format::{RowFormat, check_rows};
use super::walk::MAX_NODES;

/// How an [`HnswTable`](super::HnswTable) is built and searched.
///
/// ```
/// use chiplet_index::{HnswConfig, Metric};
/// let config = HnswConfig::new(Metric::Cosine).m(24).ef_construction(300).ef(100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HnswConfig {
    pub(super) metric: Metric,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    pub(super) ef: usize,
    pub(super) threads: usize,
    pub(super) rows: RowFormat,
    pub(super) rerank: Option<RowFormat>,
    pub(super) reorder: bool,
    pub(super) pages: Pages,
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
            rows: RowFormat::F32,
            rerank: None,
            reorder: true,
            pages: Pages::default(),
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

    /// Sets the candidates kept during a search that does not say (`Query::ef`), at least 1.
    #[must_use]
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = ef;
        self
    }

    /// Sets how many threads build the graph, at least 1. One thread gives the same graph for the same rows and settings; with
    /// several, the order of insertion and so the graph differ from build to build a little. The threads end with the build.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Ties the building threads to `cpus` (the operating system's numbers), one each, in turn. Without it they run where
    /// the calling thread may run.
    #[must_use]
    pub fn cpus(mut self, cpus: impl Into<Vec<u32>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Sets how rows are stored for the walk. [`RowFormat::Sq4`] needs [`HnswConfig::rerank`].
    #[must_use]
    pub fn rows(mut self, format: RowFormat) -> Self {
        self.rows = format;
        self
    }

    /// Keeps the rows a second time, in `format` (not [`RowFormat::Sq4`]), and compares the best candidates of a walk once
    /// more with them.
    #[must_use]
    pub fn rerank(mut self, format: RowFormat) -> Self {
        self.rerank = Some(format);
        self
    }

    /// Candidates that a search for `k` rows compares once more if the table re-ranks: the `k`, and those that the coarser
    /// rows may have put behind them by mistake. A search that keeps fewer candidates compares all of them.
    /// Other tables that compare candidates once more go by the same rule.
    ///
    /// ```
    /// use chiplet_index::HnswConfig;
    /// assert_eq!(HnswConfig::reranked(10), 31);
    /// ```
    #[doc(hidden)]
    pub fn reranked(k: usize) -> usize {
        k.saturating_add(k / 2).saturating_add(16)
    }

    /// Sets the pages of the table's memory; transparent huge pages unless said otherwise.
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
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
        if let Err((value, accepted)) = self.rows.check_rerank(self.rerank) {
            let setting = "rerank";
            return Err(BuildError::Setting {
                setting,
                value,
                accepted,
            });
        }
        at_least_one("ef_construction", self.ef_construction)?;
        at_least_one("threads", self.threads)?;
        at_least_one("ef", self.ef)
    }
}

/// Checks that `rows` (`[n][dim]`, prepared for the metric) can be stored as `config` says.
pub(super) fn check(rows: &[f32], dim: usize, config: &HnswConfig) -> Result<(), BuildError> {
    let count = rows.len() / dim;
    if count > MAX_NODES {
        return Err(BuildError::TooManyRows {
            rows: count,
            limit: MAX_NODES,
        });
    }
    for format in [Some(config.rows), config.rerank].into_iter().flatten() {
        check_rows(rows, dim, format)?;
    }
    Ok(())
}
