//! Several figures of the same thing.

use serde::Serialize;

/// Median, least and most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of at least one value.
    ///
    /// # Panics
    /// Without one.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self {
            median: values[values.len() / 2],
            least: values[0],
            most: values[values.len() - 1],
        }
    }

    /// As text, with so many digits after the point.
    #[must_use]
    pub fn text(self, digits: usize) -> String {
        let Self {
            median,
            least,
            most,
        } = self;
        format!("{median:.digits$} ({least:.digits$}-{most:.digits$})")
    }
}
