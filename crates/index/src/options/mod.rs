//! What a build may be told besides its rows and settings.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::progress::{EVERY, Progress, Report};

/// Ids for the rows of a build, and a report of its progress: the last argument of `build_with`, which all kinds of
/// tables have.
///
/// ```
/// use std::ops::ControlFlow;
/// use chiplet_index::{BuildError, BuildOptions, HnswConfig, HnswTable, Metric};
/// use chiplet_table::{Context, Query, Table};
///
/// let rows = [0.0, 0.0, 3.0, 4.0, 1.0, 0.0]; // 3 rows of 2
/// let config = HnswConfig::new(Metric::L2);
/// let options = BuildOptions::new().ids(&[70, 7, 1 << 60]);
/// let table = HnswTable::build_with(&rows, 2, &config, options)?;
/// let hits = table.search(&Query::new([3.0, 3.0]).top(1), &mut Context::default())?;
/// assert_eq!(hits[0].id, 7);
///
/// let mut asked = 0;
/// let options = BuildOptions::new().report(|progress| {
///     asked += 1;
///     println!("{:?}: {} of {}", progress.stage, progress.done, progress.total);
///     ControlFlow::Break(()) // Whoever waits has gone.
/// });
/// let stopped = HnswTable::build_with(&rows, 2, &config, options);
/// assert_eq!(stopped.err(), Some(BuildError::Stopped));
/// assert_eq!(asked, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BuildOptions<'a> {
    pub(crate) ids: Option<&'a [u64]>,
    pub(crate) report: Option<Report<'a>>,
    /// The time between two reports.
    pub(crate) every: Duration,
}

impl<'a> BuildOptions<'a> {
    /// Row numbers as ids, and no report.
    pub fn new() -> Self {
        Self {
            ids: None,
            report: None,
            every: EVERY,
        }
    }

    /// Sets the ids of the rows, one for each, in their order. Any `u64` will do; all must differ.
    #[must_use]
    pub fn ids(mut self, ids: &'a [u64]) -> Self {
        self.ids = Some(ids);
        self
    }

    /// Sets a function that is told how far the build is, and says whether it goes on: [`ControlFlow::Break`] ends it
    /// with [`BuildError::Stopped`](crate::BuildError::Stopped), when its threads have ended and its memory is free.
    ///
    /// It is called on the thread that builds, when a stage begins and ends and about every 20 ms in between, but not
    /// while Faiss trains ([`Stage::Training`](crate::Stage)).
    #[must_use]
    pub fn report(mut self, report: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.report = Some(Box::new(report));
        self
    }
}

impl Default for BuildOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildOptions")
            .field("ids", &self.ids.map(<[u64]>::len))
            .field("report", &self.report.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests;
