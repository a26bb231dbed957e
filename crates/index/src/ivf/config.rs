//! How an IVF table is searched, each default with its reason.

use chiplet_memory::Place;

use crate::error::{BuildError, at_least_one};
use crate::metric::Metric;

/// How an [`IvfTable`](super::IvfTable) is searched and split.
///
/// ```
/// use chiplet_index::{IvfConfig, Metric};
/// let config = IvfConfig::new(Metric::InnerProduct).nprobe(32).grain(4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IvfConfig {
    pub(super) metric: Metric,
    pub(super) nprobe: usize,
    pub(super) grain: Option<usize>,
    pub(super) faiss_scans: bool,
    pub(super) place: Place,
}

impl IvfConfig {
    /// Lists visited by a query that does not say.
    pub const DEFAULT_NPROBE: usize = 16;

    /// The defaults, for `metric`.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            nprobe: Self::DEFAULT_NPROBE,
            grain: None,
            faiss_scans: false,
            place: Place::default(),
        }
    }

    /// Sets the lists visited by a query that does not say (`Query::nprobe`), at least 1. More than the table
    /// has visits all.
    #[must_use]
    pub fn nprobe(mut self, nprobe: usize) -> Self {
        self.nprobe = nprobe;
        self
    }

    /// Whether Faiss scans the lists even where this crate can: to compare the two. Default: no.
    #[must_use]
    pub fn faiss_scans(mut self, faiss: bool) -> Self {
        self.faiss_scans = faiss;
        self
    }

    /// Sets where the table's memory lies, and in which pages: [`Pages`](crate::Pages) or a [`Place`]; in transparent huge
    /// pages and where it is first written unless said otherwise. Faiss allocates what it scans itself.
    #[must_use]
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.place = place.into();
        self
    }

    /// Sets the lists that are always scanned in one call, at least 1, instead of the default for the kind
    /// of index. More than the table has counts as all: the table's queries are then never split.
    #[must_use]
    pub fn grain(mut self, grain: usize) -> Self {
        self.grain = Some(grain);
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        at_least_one("nprobe", self.nprobe)?;
        self.grain
            .map_or(Ok(()), |grain| at_least_one("grain", grain))
    }
}
