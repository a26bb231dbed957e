//! How far a build has come, for progress bars.

/// One report of a build's progress. `done` of `total` rows are through `stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What the build is doing.
    pub stage: Stage,
    /// Rows finished in this stage.
    pub done: usize,
    /// Rows of this stage.
    pub total: usize,
}

/// A stage of a build. Each reports `done == 0` when it begins and `done == total` when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Finding centroids and code books (IVF). One step: it reports nothing between begin and end.
    Training,
    /// Adding rows.
    Adding,
}

/// Rows between two reports of a stage: often enough for a smooth bar, too seldom to cost anything.
pub(crate) const REPORT_EVERY: usize = 1024;
