//! Where memory is to lie.

use crate::pages::Pages;

/// Where memory is to lie, and in which pages. Where nothing else is said, [`Pages`] alone will do.
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
    /// On this NUMA node as long as it has room, then on others; on several of them, page by page in turn: a socket whose
    /// memory is several nodes (NPS2, NPS4) reads from all its channels so. Anywhere without nodes: where it is first written.
    ///
    /// It holds for memory of 64 KiB and more that is not mapped from a file, and where the system lets the process ask: Docker's
    /// default seccomp profile wants `CAP_SYS_NICE` for that. What is there is never moved.
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
