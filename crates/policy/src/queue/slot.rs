//! A waiting task, and where a search of all that waits goes on.

use super::Effort;

/// A waiting task.
pub(super) struct Slot<T> {
    /// `None` once it has been taken out of turn.
    pub(super) task: Option<T>,
    /// When it was accepted, in nanoseconds since the scheduler was made.
    pub(super) at: u64,
    /// Queries that it answers.
    pub(super) queries: u32,
    pub(super) effort: Option<Effort>,
}

/// Where a search of a queue's tasks goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchAt {
    pub(super) order: usize,
    /// Place of a flow.
    pub(super) flow: usize,
    /// Which of its slots.
    pub(super) slot: usize,
}
