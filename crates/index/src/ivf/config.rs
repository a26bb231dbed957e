//! How an IVF table is searched, each default with its reason.

use chiplet_memory::MemoryPolicy;

#[cfg(feature = "faiss")]
use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;

/// How any [`IvfTable`](super::IvfTable) is searched, split and kept, whatever it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) metric: Metric,
    /// Lists visited by a query that does not say, at least 1.
    pub(crate) nprobe: usize,
    /// Lists that are scanned in one call, if that was set, at least 1.
    pub(crate) grain: Option<usize>,
    pub(crate) memory: MemoryPolicy,
}

/// How an [`IvfTable`](super::IvfTable) is searched and split.
///
/// ```
/// use chiplet_index::{IvfConfig, Metric};
/// let config = IvfConfig::new(Metric::InnerProduct).nprobe(32).grain(4);
/// ```
#[cfg(feature = "faiss")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IvfConfig {
    pub(super) settings: Settings,
    pub(super) faiss_scans: bool,
}

#[cfg(feature = "faiss")]
impl IvfConfig {
    /// Lists visited by a query without `Query::nprobe`.
    pub const DEFAULT_NPROBE: usize = 16;

    /// The defaults, for `metric`.
    pub fn new(metric: Metric) -> Self {
        Self {
            settings: Settings {
                metric,
                nprobe: Self::DEFAULT_NPROBE,
                grain: None,
                memory: MemoryPolicy::default(),
            },
            faiss_scans: false,
        }
    }

    /// Sets the lists visited by a query without `Query::nprobe`, at least 1. More than the table has visits all.
    #[must_use]
    pub fn nprobe(mut self, nprobe: usize) -> Self {
        self.settings.nprobe = nprobe;
        self
    }

    /// Whether Faiss scans the lists even where this crate can: to compare the two. Default: no.
    #[must_use]
    pub fn faiss_scans(mut self, faiss: bool) -> Self {
        self.faiss_scans = faiss;
        self
    }

    /// Sets where the table's memory lies, and in which pages: [`Pages`](crate::Pages) or a [`MemoryPolicy`]; in
    /// transparent huge pages and where it is first written unless said otherwise. Faiss allocates what it scans
    /// itself.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<MemoryPolicy>) -> Self {
        self.settings.memory = memory.into();
        self
    }

    /// Sets the lists that are always scanned in one call, at least 1, instead of the default for the kind
    /// of index. More than the table has counts as all: the table's queries are then never split.
    #[must_use]
    pub fn grain(mut self, grain: usize) -> Self {
        self.settings.grain = Some(grain);
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        at_least_one("nprobe", self.settings.nprobe)?;
        self.settings
            .grain
            .map_or(Ok(()), |grain| at_least_one("grain", grain))
    }
}
