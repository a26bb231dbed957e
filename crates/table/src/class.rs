//! How urgent a task is.

/// How urgent a task is.
///
/// A bulk task gives way to interactive tasks of all tables for the executor's `Builder::bulk_wait`. It is ordered as
/// if it had come that much later, so bulk work waits longer, but never without end.
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
