//! How many times as long queries take away from home.

use crate::steal::UNIT_FACTOR;

/// A service time counts as at most so many times the mean. If queries really take that long now, the mean gets there
/// in some ten of them.
pub(super) const OUTLIER: u64 = 4;

/// The mean is that of about so many queries.
const LAST: u32 = 32;

/// So many queries have to have run away from home before their mean is believed: some lose their core for a moment, so
/// that few say little.
const ENOUGH: u32 = 8;

/// Queries away from home, of one table or of several, as multiples of what their tables' queries take at home.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cold {
    /// The mean, in parts of [`UNIT_FACTOR`] and [`LAST`]: coarser, it would stand still near to what is seen.
    mean: u32,
    seen: u32,
}

impl Cold {
    /// Takes note of a query that has cost `spent`, where one of its table costs `usual`, or 0 if that is unknown.
    pub(super) fn note(&mut self, spent: u64, usual: u64) {
        if usual == 0 {
            return;
        }
        let once = u64::from(UNIT_FACTOR * LAST);
        let times = (spent.saturating_mul(once) / usual).min(OUTLIER * once);
        self.seen = (self.seen + 1).min(LAST);
        let step = (times as i64 - i64::from(self.mean)) / i64::from(self.seen);
        self.mean = self.mean.wrapping_add_signed(step as i32);
    }

    /// The mean, if it is believed.
    #[inline]
    pub(super) fn factor(&self) -> Option<u32> {
        (self.seen >= ENOUGH).then_some(self.mean / LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(spent: impl IntoIterator<Item = u64>) -> Option<f64> {
        let mut cold = Cold::default();
        spent.into_iter().for_each(|spent| cold.note(spent, 100));
        cold.factor()
            .map(|factor| f64::from(factor) / f64::from(UNIT_FACTOR))
    }

    #[test]
    fn a_few_queries_are_not_believed_and_one_outlier_moves_the_mean_little() {
        assert_eq!(after([150; 7]), None);
        assert_eq!(after([150; 8]), Some(1.5));
        let outlier = after([100; 31].into_iter().chain([100_000])).unwrap();
        assert!((1.0..1.1).contains(&outlier), "{outlier}");
    }

    #[test]
    fn tables_that_have_grown_are_known_after_some_queries() {
        let grown = after([100; 100].into_iter().chain([300; 64])).unwrap();
        assert!(grown > 2.6, "{grown}");
    }
}
