//! How many times as long tasks take away from their home, as the queue has seen it.

/// A service time counts as at most so many times the mean. If queries really take that long now, the mean gets there in
/// some ten of them.
pub(super) const OUTLIER: u64 = 4;

/// So many tasks have to have run away from home before their mean is believed. Some lose their core for a moment, or are the
/// first for a core that has slept.
const ENOUGH: u32 = 8;

/// The mean follows the last so many.
const LAST: u32 = 32;

/// A mean over tasks that ran away from home: those of one table, or of all tables of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cold {
    factor: f32,
    seen: u32,
}

impl Cold {
    /// Takes note of a query that has cost `spent` away from home, of a table whose queries cost `home` there, or 0 if
    /// that is unknown.
    pub(super) fn note(&mut self, spent: u64, home: u64) {
        if home == 0 {
            return;
        }
        let factor = (spent as f32 / home as f32).min(OUTLIER as f32);
        self.seen = (self.seen + 1).min(LAST);
        self.factor += (factor - self.factor) / self.seen as f32;
    }

    /// The factor, if enough has been seen. Below 1 it is noise: nothing is gained by a cold cache.
    pub(super) fn known(&self) -> Option<f64> {
        (self.seen >= ENOUGH).then(|| f64::from(self.factor.max(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(spent: impl IntoIterator<Item = u64>) -> Option<f64> {
        let mut cold = Cold::default();
        spent.into_iter().for_each(|spent| cold.note(spent, 100));
        cold.known()
    }

    #[test]
    fn a_few_tasks_are_not_believed_and_one_outlier_moves_the_mean_little() {
        assert_eq!(after([150; 7]), None);
        assert_eq!(after([150; 8]), Some(1.5));
        let outlier = after([100; 31].into_iter().chain([100_000])).unwrap();
        assert!((1.0..1.1).contains(&outlier), "{outlier}");
    }

    #[test]
    fn what_takes_less_away_from_home_costs_nothing_there() {
        assert_eq!(after([80; 32]), Some(1.0));
    }

    #[test]
    fn tables_that_have_grown_are_known_after_some_tasks() {
        let grown = after([100; 100].into_iter().chain([300; 64])).unwrap();
        assert!(grown > 2.6, "{grown}");
    }
}
