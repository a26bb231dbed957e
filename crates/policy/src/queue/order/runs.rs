//! Whether it pays to go on with a table that a worker's private cache holds, as measured.
//!
//! A task *follows* if its worker ran the same table before it. Some tasks always do and some never, whether runs are made or
//! not, so both kinds are measured as they come: their times, in mean service times of their tables. Where followers are
//! as slow as others (tables that a private cache holds all of, or hardly any of), tasks are served as they came: a run would
//! make others wait for nothing. Where followers are faster, a task may go as far out of turn as all become faster by that.

/// The means follow the last so many tasks of each kind. Tasks of one table differ by half of their mean or so; then the
/// gain is known to 2 %.
const FOLLOW: f32 = 2048.0;

/// Tasks of each kind before anything is believed.
const ENOUGH: f32 = 64.0;

/// Tasks between two looks at the means.
const LOOK: u32 = 64;

/// A task counts as at most so many service times: the system may have run something else on its core.
const OUTLIER: f32 = 4.0;

/// Runs are not made for less: what runs gain is less than this, and so is what the means miss.
const LEAST: f32 = 0.03;

/// How much longer others than followers take.
pub(super) struct Worth {
    follows: Mean,
    others: Mean,
    until_look: u32,
    gain: Option<f32>,
}

/// A mean in which what is long ago counts less.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f32,
    weight: f32,
}

impl Mean {
    fn add(&mut self, value: f32) {
        let keep = 1.0 - 1.0 / FOLLOW;
        self.sum = self.sum * keep + value;
        self.weight = self.weight * keep + 1.0;
    }

    fn get(&self) -> Option<f32> {
        (self.weight >= ENOUGH).then(|| self.sum / self.weight)
    }
}

impl Worth {
    pub(super) fn new() -> Self {
        Self {
            follows: Mean::default(),
            others: Mean::default(),
            until_look: LOOK,
            gain: None,
        }
    }

    /// A query took `spent`, where one of its table takes `usual`.
    pub(super) fn note(&mut self, follows: bool, spent: u64, usual: u64) {
        let times = (spent as f32 / usual.max(1) as f32).min(OUTLIER);
        match follows {
            true => self.follows.add(times),
            false => self.others.add(times),
        }
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = LOOK;
            self.look();
        }
    }

    fn look(&mut self) {
        self.gain = match (self.follows.get(), self.others.get()) {
            (Some(follows), Some(others)) if follows > 0.0 => Some(others / follows - 1.0),
            _ => None,
        };
    }

    /// How far a task may go out of turn for a run, as a part of the oldest one's wait, where `most` is allowed.
    ///
    /// If runs make every task `1 + gain` times as fast, a queue is through in `1 / (1 + gain)` of the time. Where a task may
    /// wait `1 / (1 - r)` times as long as in plain order, none waits longer than without runs if `r` is at most
    /// `gain / (1 + gain)`.
    pub(super) fn reorder(&self, most: f64) -> f64 {
        match self.gain {
            Some(gain) if gain < LEAST => 0.0,
            Some(gain) => most.min(f64::from(gain / (1.0 + gain))),
            _ => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After tasks that follow and others in turn, which took so long; tasks of their tables take 100.
    fn after(tasks: usize, follows: u64, others: u64) -> Worth {
        let mut worth = Worth::new();
        (0..tasks).for_each(|_| {
            worth.note(true, follows, 100);
            worth.note(false, others, 100);
        });
        worth
    }

    #[test]
    fn runs_are_made_until_they_are_known_to_be_worth_nothing() {
        assert_eq!(after(0, 100, 100).reorder(0.3), 0.3);
        assert_eq!(after(60, 100, 100).reorder(0.3), 0.3);
        assert_eq!(after(1_000, 100, 100).reorder(0.3), 0.0);
        // A tenth faster: so nobody is to wait more than a tenth longer for the order.
        let reorder = after(1_000, 100, 110).reorder(0.3);
        assert!((reorder - 0.1 / 1.1).abs() < 1e-3, "{reorder}");
        assert_eq!(after(1_000, 100, 200).reorder(0.3), 0.3);
        // As when a queue holds so many tables that none is still in the cache.
        assert_eq!(after(1_000, 105, 100).reorder(0.3), 0.0);
    }

    #[test]
    fn they_are_made_again_where_they_pay_again() {
        let mut worth = after(10_000, 100, 100);
        for _ in 0..2_000 {
            worth.note(true, 100, 100);
            worth.note(false, 150, 100);
        }
        assert!(worth.reorder(0.3) > 0.2);
    }

    #[test]
    fn one_task_that_lost_its_core_decides_nothing() {
        let mut worth = after(10_000, 100, 100);
        (0..10).for_each(|_| worth.note(false, 1_000_000, 100));
        (0..LOOK).for_each(|_| worth.note(true, 100, 100));
        assert_eq!(worth.reorder(0.3), 0.0);
    }
}
