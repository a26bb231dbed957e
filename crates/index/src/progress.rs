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

/// Rows between two reports of [`add_rows`]: often enough for a smooth bar, too seldom to cost anything.
#[cfg(feature = "hnsw")]
const REPORT_EVERY: usize = 1024;

/// Runs `step` over every row, reporting every [`REPORT_EVERY`] rows.
#[cfg(feature = "hnsw")]
pub(crate) fn add_rows<'a>(
    rows: impl ExactSizeIterator<Item = &'a [f32]>,
    mut report: impl FnMut(Progress),
    mut step: impl FnMut(usize, &'a [f32]),
) {
    let total = rows.len();
    let stage = Stage::Adding;
    report(Progress {
        stage,
        done: 0,
        total,
    });
    for (number, row) in rows.enumerate() {
        step(number, row);
        let done = number + 1;
        if done % REPORT_EVERY == 0 || done == total {
            report(Progress { stage, done, total });
        }
    }
}
