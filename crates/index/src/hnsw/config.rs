//! How a graph is built, each default with its reason.

use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;

/// Layers a graph may have: the most hnsw_rs knows. Layer `l` holds a share of about `M^-l` of the rows, so
/// layers that are not needed stay empty.
pub(super) const MAX_LAYERS: usize = 16;

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
}

impl HnswConfig {
    /// Links of a row on each upper layer, twice as many on the ground layer. 16 is the middle of the range
    /// (5 to 48) that Malkov and Yashunin recommend (arXiv 1603.09320, section 4.1).
    pub const DEFAULT_M: usize = 16;
    /// Candidates kept while a row is inserted. 200 is hnswlib's default.
    pub const DEFAULT_EF_CONSTRUCTION: usize = 200;
    /// Candidates kept during a search that does not say.
    pub const DEFAULT_EF: usize = 64;

    /// The defaults, for `metric`.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            m: Self::DEFAULT_M,
            ef_construction: Self::DEFAULT_EF_CONSTRUCTION,
            ef: Self::DEFAULT_EF,
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

    pub(super) fn check(&self) -> Result<(), BuildError> {
        // 1 gives hnsw_rs an infinite level scale (1 / ln M), 256 and more overflow its u8 or end the process.
        if !(2..=255).contains(&self.m) {
            return Err(BuildError::Setting {
                setting: "m",
                value: self.m,
                accepted: "2 to 255",
            });
        }
        at_least_one("ef_construction", self.ef_construction)?;
        at_least_one("ef", self.ef)
    }
}
