//! How long queries take, as multiples of what their tables' queries usually take.

/// A service time counts as at most so many times the mean. If queries really take that long now, the mean gets there
/// in some ten of them.
pub(super) const OUTLIER: u64 = 4;

/// The mean of the last `LAST` queries or so, of one table or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relative<const LAST: u32> {
    mean: f32,
    seen: u32,
}

impl<const LAST: u32> Relative<LAST> {
    /// Takes note of a query that has cost `spent`, where one of its table costs `usual`, or 0 if that is unknown.
    pub(super) fn note(&mut self, spent: u64, usual: u64) {
        if usual == 0 {
            return;
        }
        let times = (spent as f32 / usual as f32).min(OUTLIER as f32);
        self.seen = (self.seen + 1).min(LAST);
        self.mean += (times - self.mean) / self.seen as f32;
    }

    /// The mean, if so many queries have been seen. Some lose their core for a moment, so that of few says little.
    pub(super) fn of(&self, enough: u32) -> Option<f32> {
        (self.seen >= enough).then_some(self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(spent: impl IntoIterator<Item = u64>) -> Option<f32> {
        let mut relative = Relative::<32>::default();
        spent
            .into_iter()
            .for_each(|spent| relative.note(spent, 100));
        relative.of(8)
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
