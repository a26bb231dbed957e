//! What one tick has seen, and a placement that it considers, judged by both windows.

use std::time::Duration;

use crate::mapper::{Assignment, Balance, Demand, DomainSpec, balance};
use crate::{Move, Placement, TrafficWindows, Trigger};

/// Traffic of every placed table at one moment, in id order.
pub(super) struct Seen {
    pub(super) now: Duration,
    pub(super) fast: Vec<Demand>,
    pub(super) slow: Vec<Demand>,
}

impl Seen {
    pub(super) fn new(placement: &Placement, windows: &TrafficWindows, now: Duration) -> Self {
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        for (table, _) in placement.iter() {
            let rates = windows.rates(table, now);
            fast.push(Demand {
                table,
                traffic: rates.fast,
            });
            slow.push(Demand {
                table,
                traffic: rates.slow,
            });
        }
        Self { now, fast, slow }
    }
}

/// Bytes per second of all tables together.
pub(super) fn total(demands: &[Demand]) -> f64 {
    demands.iter().map(|demand| demand.traffic).sum()
}

/// How the demands, in order of their tables' ids, lie on the domains under a placement.
pub(super) fn under(placement: &Placement, demands: &[Demand], domains: &[DomainSpec]) -> Balance {
    let mut homes = placement.in_order();
    balance(demands.iter().copied(), |table| homes.find(table), domains)
}

/// The same traffic under the old and the new placement.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) before: Balance,
    pub(super) after: Balance,
}

impl Change {
    /// Part by which the busiest domain gets less busy; negative if it gets busier.
    pub(super) fn gain(&self) -> f64 {
        if self.before.peak > 0.0 {
            1.0 - self.after.peak / self.before.peak
        } else {
            0.0
        }
    }
}

/// A placement that differs from the present one.
pub(super) struct Candidate {
    pub(super) placement: Placement,
    pub(super) moves: Vec<Move>,
    pub(super) fast: Change,
    pub(super) slow: Change,
    /// Whether it takes a table back to where it has just been.
    pub(super) returns: bool,
}

impl Candidate {
    /// `None` if the assignment is what is there already.
    pub(super) fn new(
        present: &Placement,
        assignment: Assignment,
        domains: &[DomainSpec],
        seen: &Seen,
        trigger: &Trigger,
    ) -> Option<Self> {
        let placement = present.next(assignment.homes);
        let moves = placement.diff(present);
        if moves.is_empty() {
            return None;
        }
        let change = |demands: &[Demand]| Change {
            before: under(present, demands, domains),
            after: under(&placement, demands, domains),
        };
        Some(Self {
            fast: change(&seen.fast),
            slow: change(&seen.slow),
            returns: trigger.is_return(&moves, seen.now),
            placement,
            moves,
        })
    }

    /// Whether the fast window may ask for it: a gain there, and for undoing an earlier remap in the
    /// slow window too.
    pub(super) fn pays_quickly(&self, min_gain: f64) -> bool {
        self.fast.gain() >= min_gain && (!self.returns || self.slow.gain() >= min_gain)
    }

    /// Whether the slow window may ask for it: a gain there, and no loss in the fast one.
    pub(super) fn pays_in_time(&self, min_gain: f64) -> bool {
        self.slow.gain() >= min_gain && self.fast.gain() >= 0.0
    }

    /// Whether it leaves balance as good as it was, or better than what the thresholds act on.
    pub(super) fn harms_nothing(&self, fast_threshold: f64, slow_threshold: f64) -> bool {
        let fine = |change: &Change, threshold: f64| {
            change.gain() >= 0.0 || change.after.imbalance() <= threshold
        };
        fine(&self.fast, fast_threshold) && fine(&self.slow, slow_threshold)
    }
}
