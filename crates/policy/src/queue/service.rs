//! How long a table's queries take, as far as the queue has learnt it. All times are nanoseconds, and 0 is unknown.
//!
//! Two estimates are kept, for two questions. What a query costs its domain *on average* decides shares, waits and
//! prices. How long one *usually* takes until it is answered decides whether a deadline can still be met: the few that
//! meet a slow disk or a throttled processor say nothing about the next one.
//!
//! Neither follows one outlier far. A disk read of 400 ms among queries of 0.5 ms would otherwise count as an average
//! of 50 ms, and the table as one that floods its domain.

use super::cold::{Cold, OUTLIER};
use crate::Time;

/// The mean follows a new service time by this part of the difference: steady against one odd query, quick enough for a
/// table whose queries change.
const FOLLOW: u64 = 8;

/// What a query is taken to last before any table of the domain is known. A table's first service time counts as at
/// most [`OUTLIER`] times this, or times a typical table's: there is nothing else to hold it against.
pub(super) const ASSUMED: u64 = 1_000_000;

/// So long after a task that was begun to see should have ended the usual time is not believed, whatever is answered
/// meanwhile: the next task is begun whatever its deadline. So short queries are found out beside long ones of their
/// table, and a table that really is too slow takes no more than one worker for that.
const BELIEVED: u64 = 100_000_000;

/// All tasks, where a part of them is counted.
const ALL: u32 = 1 << 20;

/// How long a task took.
#[derive(Clone, Copy)]
pub(super) struct Took {
    /// Of all hands together: what it cost its domain.
    pub(super) spent: u64,
    /// From its start to its end.
    pub(super) lasted: u64,
    pub(super) ended: Time,
}

impl Took {
    /// The same of each of its queries; nothing takes no time.
    #[inline]
    pub(super) fn each(&self, queries: u32) -> Self {
        let each = |nanos: u64| match queries {
            0 | 1 => nanos.max(1),
            _ => (nanos / u64::from(queries)).max(1),
        };
        let (spent, lasted) = (each(self.spent), each(self.lasted));
        Self {
            spent,
            lasted,
            ended: self.ended,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Service {
    /// Mean of a query's cost on the home's warm cache.
    pub(super) home: u64,
    /// How many times as much it is elsewhere.
    pub(super) cold: Cold,
    /// The mean there, for what nobody has answered at home.
    away: u64,
    /// The part of its tasks that are not begun because of their deadlines, of [`ALL`].
    missed: u32,
    /// Of those that had a deadline.
    usual: Usual,
    /// Tasks that began before say nothing of that: another index answered them.
    since: u64,
}

/// How long a query usually takes until it is answered.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    nanos: u64,
    /// When that was learnt first, or a task was last begun to see.
    seen: u64,
}

impl Usual {
    /// One took `nanos` from its start to its end.
    fn learn(&mut self, nanos: u64, ended: u64) {
        if self.nanos == 0 {
            (self.nanos, self.seen) = (nanos, ended);
        }
        self.nanos = match self.nanos {
            // Down at once, near to what was seen: an estimate that is too high keeps tasks from being begun.
            usual if nanos < usual => (usual.midpoint(nanos)).min(nanos.saturating_mul(OUTLIER)),
            // Up by an eighth at most.
            usual => usual + (nanos - usual).min(usual).div_ceil(FOLLOW),
        };
    }
}

impl Service {
    /// What a query that waits costs on average, whether it is begun or not; 0 if it is unknown.
    pub(super) fn cost(&self) -> u64 {
        match self.missed {
            0 => self.home,
            missed => (self.home * u64::from(ALL - missed)).div_ceil(ALL.into()),
        }
    }

    /// What one costs that is begun; 0 if that is unknown.
    pub(super) fn cost_if_begun(&self) -> u64 {
        match self.home {
            0 => self.away,
            home => home,
        }
    }

    /// [`Service::cost`], or that of a `typical` table's if it is unknown.
    pub(super) fn mean(&self, typical: u64) -> u64 {
        match self.cost() {
            0 => typical,
            cost => cost,
        }
    }

    /// So many tasks were not begun because of their deadlines. They have cost nothing, and their table is not to wait
    /// for what they would have.
    pub(super) fn miss(&mut self, tasks: u64) {
        let kept = (1.0 - 1.0 / FOLLOW as f32).powi(tasks.min(1_000) as i32);
        // Some cost is left: one of 0 would be unknown.
        self.missed = ALL - (((ALL - self.missed) as f32 * kept) as u32).max(1);
    }

    /// How long a task of so many queries that begins at `at` usually takes. `None` if that is unknown, or if it would
    /// be too late by that and is to be begun to see: others are told as before meanwhile.
    pub(super) fn usual(
        &mut self,
        queries: u32,
        at: u64,
        is_too_late: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let Usual { nanos, seen } = &mut self.usual;
        let usual = nanos.saturating_mul(u64::from(queries));
        let believed = BELIEVED.saturating_add(*nanos);
        if usual > 0 && at.saturating_sub(*seen) > believed && is_too_late(usual) {
            *seen = at;
            return None;
        }
        (usual > 0).then_some(usual)
    }

    /// The table's queries are to be answered in another way from now on, so that none is refused for what others took.
    pub(super) fn forget_usual(&mut self, now: u64) {
        (self.usual, self.since) = (Usual::default(), now);
    }

    /// Takes note of what each query of a task took. `typical` is what a query of any table takes.
    #[inline]
    pub(super) fn learn(&mut self, each: &Took, away: bool, typical: u64) {
        if self.missed > 0 {
            self.missed -= self.missed.div_ceil(FOLLOW as u32);
        }
        let base = match self.home {
            0 => typical.max(ASSUMED),
            home => home,
        };
        match away {
            true => {
                self.cold.note(each.spent, self.home);
                self.away = follow(self.away, each.spent, self.away.max(base));
            }
            false => self.home = follow(self.home, each.spent, base),
        }
    }

    /// The same of a task that had a deadline, and may have been cut by that: then it would have taken longer.
    pub(super) fn learn_usual(&mut self, each: &Took, is_cut: bool) {
        let ended = each.ended.as_nanos();
        let is_of_now = ended.saturating_sub(each.lasted) >= self.since;
        if is_of_now && !(is_cut && each.lasted < self.usual.nanos) {
            self.usual.learn(each.lasted, ended);
        }
    }
}

/// `mean` after one more query that took `nanos`, where such a one usually takes `base`.
#[inline]
pub(super) fn follow(mean: u64, nanos: u64, base: u64) -> u64 {
    let nanos = nanos.min(OUTLIER * base).max(1);
    match mean {
        0 => nanos,
        // The rest that division drops must not keep the mean from falling.
        _ => (mean * (FOLLOW - 1) + nanos).div_ceil(FOLLOW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    impl Service {
        fn note(&mut self, nanos: u64, ended: u64) {
            self.note_of(&took(nanos), 1, ended);
        }

        fn note_of(&mut self, took: &Took, queries: u32, ended: u64) {
            let ended = Time::from_nanos(ended);
            let took = Took { ended, ..*took }.each(queries);
            self.learn(&took, false, ASSUMED);
            self.learn_usual(&took, false);
        }

        fn told(&mut self, queries: u32, at: u64) -> Option<u64> {
            self.usual(queries, at, |_| true)
        }
    }

    fn took(nanos: u64) -> Took {
        Took {
            spent: nanos,
            lasted: nanos,
            ended: Time::ZERO,
        }
    }

    fn known(nanos: u64) -> Service {
        let mut service = Service::default();
        for _ in 0..50 {
            service.note(nanos, 0);
        }
        service
    }

    #[test]
    fn one_outlier_moves_no_estimate_far() {
        let mut service = known(MILLI / 2);
        service.note(400 * MILLI, 0);
        assert!(service.home < MILLI, "{service:?}");
        assert!(service.told(1, 0).unwrap() < MILLI, "{service:?}");
    }

    #[test]
    fn an_outlier_that_comes_first_is_forgotten_after_one_look() {
        let mut service = Service::default();
        service.note(400 * MILLI, 0);
        assert_eq!(service.home, OUTLIER * ASSUMED);
        let believed = BELIEVED + 400 * MILLI;
        assert_eq!(service.told(1, believed), Some(400 * MILLI));
        // One task is begun to see, the others are told as before.
        assert_eq!(service.told(1, believed + 1), None);
        assert_eq!(service.told(1, believed + 2), Some(400 * MILLI));
        service.note(MILLI / 2, believed + MILLI);
        assert_eq!(service.told(1, believed + MILLI), Some(2 * MILLI));
    }

    #[test]
    fn a_task_is_begun_to_see_though_others_of_its_table_are_answered() {
        let mut service = known(60 * MILLI);
        let mut begun = 0;
        for at in 1..1_000 {
            service.note(60 * MILLI, at * MILLI);
            begun += u32::from(service.told(1, at * MILLI).is_none());
        }
        assert_eq!(begun, 6);
    }

    #[test]
    fn what_is_not_begun_costs_nothing_and_says_nothing_of_what_is() {
        let mut service = known(60 * MILLI);
        let home = service.home;
        (0..7).for_each(|_| service.miss(1));
        assert!(service.cost() < 25 * MILLI, "{service:?}");
        assert_eq!(service.home, home);
        // However many those were, the table is known still, and some that are begun tell what they cost.
        (0..1_000).for_each(|_| service.miss(1));
        service.miss(1_000_000);
        assert!((1..100).contains(&service.cost()), "{service:?}");
        (0..16).for_each(|_| service.note(60 * MILLI, 0));
        assert!(service.cost() > 50 * MILLI, "{service:?}");
    }

    #[test]
    fn queries_that_take_longer_from_now_on_are_known_soon() {
        let mut service = known(MILLI / 2);
        for _ in 0..40 {
            service.note(20 * MILLI, 0);
        }
        assert!(service.home > 15 * MILLI, "{service:?}");
        assert!(service.told(1, 0).unwrap() > 10 * MILLI, "{service:?}");
    }

    #[test]
    fn a_task_that_was_cut_says_only_that_it_takes_longer() {
        let mut service = known(5 * MILLI);
        service.learn_usual(&took(MILLI / 5), true);
        assert_eq!(service.told(1, 0), Some(5 * MILLI));
        service.learn_usual(&took(20 * MILLI), true);
        assert!(service.told(1, 0) > Some(5 * MILLI));
    }

    #[test]
    fn a_look_is_spent_only_where_it_would_refuse() {
        let (mut service, at) = (known(5 * MILLI), 1_000 * MILLI);
        assert_eq!(service.usual(1, at, |_| false), Some(5 * MILLI));
        assert_eq!(service.usual(1, at, |_| true), None);
        assert_eq!(service.usual(1, at, |_| true), Some(5 * MILLI));
    }

    #[test]
    fn a_forgotten_time_is_learnt_anew() {
        let mut service = known(400 * MILLI);
        let replaced = 1_000 * MILLI;
        service.forget_usual(replaced);
        assert_eq!(service.told(1, replaced), None);
        // It began before.
        service.note(400 * MILLI, replaced + MILLI);
        assert_eq!(service.told(1, replaced), None);
        service.note(MILLI, replaced + 2 * MILLI);
        assert_eq!(service.told(1, replaced), Some(MILLI));
    }

    #[test]
    fn a_part_of_a_batch_counts_as_its_queries() {
        let mut service = Service::default();
        service.note_of(&took(64 * MILLI), 64, 0);
        assert_eq!(service.home, MILLI);
        assert_eq!(service.told(1, 0), Some(MILLI));
        assert_eq!(service.told(64, 0), Some(64 * MILLI));
    }

    #[test]
    fn what_others_give_to_a_task_is_its_cost_and_not_its_length() {
        let mut service = Service::default();
        let cut = Took {
            spent: 4 * MILLI,
            lasted: MILLI,
            ended: Time::ZERO,
        };
        service.note_of(&cut, 1, 0);
        assert_eq!(service.home, 4 * MILLI);
        assert_eq!(service.told(1, 0), Some(MILLI));
    }
}
