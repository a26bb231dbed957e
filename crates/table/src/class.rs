//! How urgent a task is.

/// How urgent a task is.
///
/// A bulk task gives way to interactive tasks of all tables. While some of those wait, all bulk tasks together get the
/// time of a table of the executor's `Builder::bulk_weight`, so bulk work waits longer, but goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Class {
    /// Somebody waits for the answer.
    #[default]
    Interactive,
    /// Nobody waits for this very answer: a backfill, an evaluation, a rebuild.
    Bulk,
}

impl Class {
    /// Both, in the order of their numbers.
    #[doc(hidden)]
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Bulk];
}
