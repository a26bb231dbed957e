//! How a flat table is built.

use chiplet_memory::MemoryPolicy;

use crate::metric::Metric;

/// Settings of a [`FlatTable`](crate::FlatTable). A [`Metric`] alone is enough for a table in memory of the default
/// [`MemoryPolicy`].
#[derive(Clone, Debug)]
pub struct FlatConfig {
    pub(super) metric: Metric,
    pub(super) memory: MemoryPolicy,
}

impl FlatConfig {
    /// Distances of `metric`, in memory of the default policy.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            memory: MemoryPolicy::default(),
        }
    }

    /// Sets where the table's memory is to lie, or in which pages.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<MemoryPolicy>) -> Self {
        self.memory = memory.into();
        self
    }
}

impl From<Metric> for FlatConfig {
    fn from(metric: Metric) -> Self {
        Self::new(metric)
    }
}
