//! Where memory is to lie.

use crate::pages::Pages;

/// Where memory is to lie, and in which pages. [`Pages`] alone is enough if the nodes do not matter.
///
/// ```
/// use chiplet_memory::{Pages, MemoryPolicy, Region};
///
/// let anywhere = Region::new(1 << 20, Pages::Small)?;
/// let near = Region::new(1 << 20, MemoryPolicy::on([0]).pages(Pages::Small))?;
/// # Ok::<(), chiplet_memory::MemoryError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryPolicy {
    pub(crate) pages: Pages,
    pub(crate) nodes: Vec<u32>,
}

impl MemoryPolicy {
    /// On these NUMA nodes as long as they have room, then on others. Pages are spread over several nodes in turn, so
    /// that a socket with several nodes (NPS2, NPS4) reads from all its channels. Without nodes, memory lies where it
    /// is first written.
    ///
    /// It holds for memory of 64 KiB and more that is not mapped from a file, and where the system lets the process
    /// ask: Docker's default seccomp profile wants `CAP_SYS_NICE` for that. What is there is never moved.
    #[must_use]
    pub fn on(nodes: impl IntoIterator<Item = u32>) -> Self {
        Self {
            pages: Pages::default(),
            nodes: nodes.into_iter().collect(),
        }
    }

    /// In pages of this kind.
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }
}

impl From<Pages> for MemoryPolicy {
    fn from(pages: Pages) -> Self {
        Self::default().pages(pages)
    }
}
