//! Whether it pays to go on with a table that a worker's private cache holds, as measured.
//!
//! A task *follows* if its worker ran the same table before it. Some tasks always do and some never, whether runs are
//! made or not, so both kinds are measured as they come: their times, in mean service times of their tables. Where
//! followers are as slow as others (tables that a private cache holds all of, or hardly any of), tasks are served as
//! they came: a run would make others wait for nothing. Where followers are faster, a task may go as far out of turn as
//! all become faster by that.

use crate::queue::relative::Relative;

/// The means are of the last so many tasks of each kind, and of fewer nothing is believed. Tasks of one table differ by
/// half of their mean or so; then the gain is known to 2 %.
const LAST: u32 = 2048;

/// Runs are not made for less: what runs gain is less than this, and so is what the means miss.
const LEAST: f32 = 0.03;

/// How long tasks take that follow one of their table, and how long others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worth {
    follows: Relative<LAST>,
    others: Relative<LAST>,
}

impl Worth {
    /// A query took `spent`, where one of its table takes `usual`.
    pub(super) fn note(&mut self, follows: bool, spent: u64, usual: u64) {
        match follows {
            true => self.follows.note(spent, usual),
            false => self.others.note(spent, usual),
        }
    }

    /// How far a task may go out of turn for a run, as a part of the oldest one's wait, where `most` is allowed.
    ///
    /// If runs make every task `1 + gain` times as fast, a queue is through in `1 / (1 + gain)` of the time. Where a
    /// task may wait `1 / (1 - r)` times as long as in plain order, none waits longer than without runs if `r` is at
    /// most `gain / (1 + gain)`.
    pub(super) fn reorder(&self, most: f64) -> f64 {
        let (Some(follows), Some(others)) = (self.follows.of(LAST), self.others.of(LAST)) else {
            return most;
        };
        match others < follows * (1.0 + LEAST) {
            true => 0.0,
            // `gain / (1 + gain)`, where `others` is `1 + gain` times `follows`.
            false => most.min(f64::from(1.0 - follows / others)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After tasks that follow and others in turn, which took so long; tasks of their tables take 100.
    fn after(tasks: usize, follows: u64, others: u64) -> Worth {
        let mut worth = Worth::default();
        (0..tasks).for_each(|_| {
            worth.note(true, follows, 100);
            worth.note(false, others, 100);
        });
        worth
    }

    #[test]
    fn runs_are_made_until_they_are_known_to_be_worth_nothing() {
        assert_eq!(after(0, 100, 100).reorder(0.3), 0.3);
        assert_eq!(after(2_000, 100, 100).reorder(0.3), 0.3);
        assert_eq!(after(4_000, 100, 100).reorder(0.3), 0.0);
        // A tenth faster: so nobody is to wait more than a tenth longer for the order.
        let reorder = after(4_000, 100, 110).reorder(0.3);
        assert!((reorder - 0.1 / 1.1).abs() < 1e-3, "{reorder}");
        assert_eq!(after(4_000, 100, 200).reorder(0.3), 0.3);
        // As when a queue holds so many tables that none is still in the cache.
        assert_eq!(after(4_000, 105, 100).reorder(0.3), 0.0);
    }

    #[test]
    fn they_are_made_again_where_they_pay_again() {
        let mut worth = after(10_000, 100, 100);
        for _ in 0..4_000 {
            worth.note(true, 100, 100);
            worth.note(false, 150, 100);
        }
        assert!(worth.reorder(0.3) > 0.2);
    }

    #[test]
    fn one_task_that_lost_its_core_decides_nothing() {
        let mut worth = after(10_000, 100, 100);
        (0..10).for_each(|_| worth.note(false, 1_000_000, 100));
        (0..64).for_each(|_| worth.note(true, 100, 100));
        assert_eq!(worth.reorder(0.3), 0.0);
    }
}
