//! Whether it pays to go on with a table that a worker's private cache holds, as measured.
//!
//! A task *follows* if its worker ran the same table before it. Some tasks always do and some never, whether runs are
//! made or not, so both kinds are measured as they come: their times, in mean service times of their tables. Where
//! followers are as slow as others (tables that a private cache holds all of, or hardly any of), tasks are served as
//! they came: a run would make others wait for nothing. Where followers are faster, a task may go as far out of turn as
//! all become faster by that.

use crate::queue::relative::OUTLIER;

/// It is judged anew after so many tasks, by these and by half of what was known before. Tasks of one table differ by
/// half of their mean or so; then the gain is known to 2 %.
const TASKS: u32 = 4096;

/// Fewer tasks of one kind are not believed.
const ENOUGH: u32 = 256;

/// Runs are not made for less: what runs gain is less than this, and so is what the means miss.
const LEAST: f64 = 0.03;

/// Parts of a wait are counted in so many.
const WHOLE: f64 = (1_u64 << WHOLE_BITS) as f64;
const WHOLE_BITS: u32 = 16;

/// How far a task may go out of turn, as a part of the oldest one's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reorder(u64);

impl Reorder {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(part: f64) -> Self {
        Self((part.clamp(0.0, 1.0) * WHOLE) as u64)
    }

    /// That part of so many nanoseconds.
    pub(super) fn of(self, nanos: u64) -> u64 {
        (nanos >> WHOLE_BITS) * self.0
            + (((nanos & ((1 << WHOLE_BITS) - 1)) * self.0) >> WHOLE_BITS)
    }
}

/// How long tasks take that follow one of their table, and how long others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    follows: Times,
    others: Times,
    most: Reorder,
    /// How far a task may go out of turn for a run: [`Worth::most`] until it is known what runs gain.
    pub(super) reorder: Reorder,
}

/// Nanoseconds of some tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    tasks: u32,
    spent: u64,
    /// What tasks of the same tables usually take.
    usual: u64,
}

impl Times {
    fn ratio(&self) -> f64 {
        self.spent as f64 / self.usual as f64
    }

    fn halve(&mut self) {
        self.tasks /= 2;
        self.spent /= 2;
        self.usual /= 2;
    }
}

impl Worth {
    /// Where a task may go out of turn by `most`.
    pub(super) fn new(most: Reorder) -> Self {
        Self {
            follows: Times::default(),
            others: Times::default(),
            most,
            reorder: most,
        }
    }

    /// A query took `spent`, where one of its table takes `usual`.
    #[inline]
    pub(super) fn note(&mut self, follows: bool, spent: u64, usual: u64) {
        let times = match follows {
            true => &mut self.follows,
            false => &mut self.others,
        };
        times.tasks += 1;
        times.spent += spent.min(OUTLIER * usual);
        times.usual += usual;
        if self.follows.tasks + self.others.tasks >= TASKS {
            self.judge();
        }
    }

    /// If runs make every task `1 + gain` times as fast, a queue is through in `1 / (1 + gain)` of the time. Where a
    /// task may wait `1 / (1 - r)` times as long as in plain order, none waits longer than without runs if `r` is at
    /// most `gain / (1 + gain)`.
    #[cold]
    fn judge(&mut self) {
        let Self {
            follows, others, ..
        } = self;
        if follows.tasks.min(others.tasks) >= ENOUGH {
            let (follow, other) = (follows.ratio(), others.ratio());
            self.reorder = match other < follow * (1.0 + LEAST) {
                true => Reorder::NONE,
                // `gain / (1 + gain)`, where `other` is `1 + gain` times `follow`.
                false => Reorder::new(1.0 - follow / other).min(self.most),
            };
        }
        follows.halve();
        others.halve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After tasks that follow and others in turn, which took so long; tasks of their tables take 100.
    fn after(tasks: usize, follows: u64, others: u64) -> Worth {
        let mut worth = Worth::new(Reorder::new(0.3));
        (0..tasks).for_each(|_| {
            worth.note(true, follows, 100);
            worth.note(false, others, 100);
        });
        worth
    }

    /// As a part, where three tenths are allowed.
    fn reorder(worth: Worth) -> f64 {
        worth.reorder.0 as f64 / WHOLE
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn runs_are_made_until_they_are_known_to_be_worth_nothing() {
        assert!(near(reorder(after(0, 100, 100)), 0.3));
        assert!(near(reorder(after(2_000, 100, 100)), 0.3));
        assert_eq!(reorder(after(4_000, 100, 100)), 0.0);
        // A tenth faster: so nobody is to wait more than a tenth longer for the order.
        assert!(near(reorder(after(4_000, 100, 110)), 0.1 / 1.1));
        assert!(near(reorder(after(4_000, 100, 200)), 0.3));
        // As when a queue holds so many tables that none is still in the cache.
        assert_eq!(reorder(after(4_000, 105, 100)), 0.0);
    }

    #[test]
    fn a_part_is_never_rounded_up() {
        for nanos in [0, 1, 65_535, 65_537, 1_000_003, 1 << 50] {
            let part = Reorder::new(0.3).of(nanos);
            assert!(
                part <= (nanos as f64 * 0.3) as u64 && part as f64 + 2.0 >= nanos as f64 * 0.299
            );
        }
    }

    #[test]
    fn they_are_made_again_where_they_pay_again() {
        let mut worth = after(10_000, 100, 100);
        for _ in 0..4_000 {
            worth.note(true, 100, 100);
            worth.note(false, 150, 100);
        }
        assert!(reorder(worth) > 0.2);
    }

    #[test]
    fn one_task_that_lost_its_core_decides_nothing() {
        let mut worth = after(10_000, 100, 100);
        (0..10).for_each(|_| worth.note(false, 1_000_000, 100));
        (0..64).for_each(|_| worth.note(true, 100, 100));
        assert_eq!(reorder(worth), 0.0);
    }
}
