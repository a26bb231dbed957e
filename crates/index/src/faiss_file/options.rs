//! What a caller says of an index.

use chiplet_memory::MemoryPolicy;

/// Settings of a table that a Faiss file does not hold.
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
    /// Whether the rows of an index of inner products have length 1. Then its table has
    /// [`Metric::Cosine`](crate::Metric::Cosine) and takes queries of any length. Default: no. Rows in `f32` are
    /// checked; for rows that are coded, residuals or mapped the caller is trusted.
    #[must_use]
    pub fn cosine(mut self, cosine: bool) -> Self {
        self.cosine = cosine;
        self
    }

    /// Sets where the table's memory lies, and in which pages: [`Pages`](crate::Pages) or a [`MemoryPolicy`]; in
    /// transparent huge pages and where it is first written unless said otherwise.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<MemoryPolicy>) -> Self {
        self.memory = memory.into();
        self
    }
}
