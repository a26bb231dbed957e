//! What a caller says of an index.

use chiplet_memory::MemoryPolicy;

/// What a table has that an index does not say.
///
/// ```
/// use chiplet_index::{Pages, faiss_file::Options};
/// let options = Options::default().cosine(true).memory(Pages::Small);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub(super) cosine: bool,
    pub(super) memory: MemoryPolicy,
}

impl Options {
    /// Whether an index of inner products is one of rows of length 1, whose table has [`Metric::Cosine`](crate::Metric::Cosine)
    /// and takes queries of any length. Default: no. Rows are checked where they are there as `f32`; rows that are coded
    /// otherwise, are residuals or were mapped are taken at the caller's word.
    #[must_use]
    pub fn cosine(mut self, cosine: bool) -> Self {
        self.cosine = cosine;
        self
    }

    /// Sets where the table's memory lies, and in which pages: [`Pages`](crate::Pages) or a [`MemoryPolicy`]; in transparent huge
    /// pages and where it is first written unless said otherwise.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<MemoryPolicy>) -> Self {
        self.memory = memory.into();
        self
    }
}
