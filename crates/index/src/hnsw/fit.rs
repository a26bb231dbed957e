//! What a build that chooses the row formats is told.

use crate::error::BuildError;
use crate::metric::Metric;
use crate::progress::Watch;
use crate::rows;

/// What a table must find, and may take: [`HnswConfig::fit`](crate::HnswConfig::fit).
///
/// ```
/// use chiplet_index::{BuildError, Fit, HnswConfig, HnswTable, Metric, RowFormat};
///
/// let rows: Vec<f32> = (0..60_000).map(|x| (x * 7919 % 1009) as f32).collect(); // 1,000 rows of 60
/// let config = HnswConfig::new(Metric::L2).fit(Fit::recall(0.95));
/// let table = HnswTable::build(&rows, 60, &config)?;
/// assert_eq!(table.row_format(), RowFormat::Sq4);
///
/// let config = config.fit(Fit::recall(0.95).memory(1_000));
/// let refused = HnswTable::build(&rows, 60, &config).err();
/// assert!(matches!(refused, Some(BuildError::Fit { .. })));
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub(super) recall: f64,
    pub(super) top: usize,
    pub(super) memory: Option<u64>,
    pub(super) queries: Vec<f32>,
}

impl Fit {
    /// The share of the nearest rows that a search must be able to find, above 0 and up to 1. `ef` decides how many of
    /// them it does find.
    pub fn recall(recall: f64) -> Self {
        Self {
            recall,
            top: 10,
            memory: None,
            queries: Vec::new(),
        }
    }

    /// Sets how many of the nearest rows count; 10 unless said otherwise.
    #[must_use]
    pub fn top(mut self, k: usize) -> Self {
        self.top = k;
        self
    }

    /// Sets the bytes that the table may take.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets queries to try, `[n][dim]`, if real queries are unlike the rows, as questions are unlike answers. Without
    /// them, rows of the table are tried, each of which is to find the others. At most 200 are tried.
    #[must_use]
    pub fn queries(mut self, queries: impl Into<Vec<f32>>) -> Self {
        self.queries = queries.into();
        self
    }

    pub(super) fn check(&self, dim: usize, metric: Metric) -> Result<(), BuildError> {
        if !(self.recall > 0.0 && self.recall <= 1.0) {
            return Err(BuildError::Setting {
                setting: "recall",
                value: self.recall.to_string(),
                accepted: "above 0 and up to 1",
            });
        }
        if !(1..=MOST_TOP).contains(&self.top) {
            return Err(BuildError::Setting {
                setting: "top",
                value: self.top.to_string(),
                accepted: "1 to 500",
            });
        }
        rows::check(&self.queries, dim, metric, &Watch::none())?;
        Ok(())
    }
}

/// Neighbours that count at most: half of those that are compared.
const MOST_TOP: usize = 500;
