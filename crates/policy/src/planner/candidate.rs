//! What one tick has seen, and a placement that it considers, judged by both windows.

use super::cold::Warmth;
use super::memory::Memories;
use crate::mapper::{Balance, Demand, DomainSpec, Loads, balance};
use crate::wait::load_times_wait;
use crate::{
    Homes, Move, PlaceBy, Placement, Rates, TableId, Time, Trigger, TriggerConfig, UsageWindows,
};

/// What tables ask for at one moment, in id order: all that ask for anything, and some or all others.
pub(super) struct Seen {
    pub(super) now: Time,
    /// In the last second or so.
    pub(super) last: Vec<Demand>,
    pub(super) fast: Vec<Demand>,
    pub(super) slow: Vec<Demand>,
}

impl Seen {
    pub(super) fn new(
        tables: impl IntoIterator<Item = TableId>,
        windows: &UsageWindows,
        memories: &Memories,
        packages: usize,
        placing: PlaceBy,
        now: Time,
    ) -> Self {
        let [mut last, mut fast, mut slow] = [(); 3].map(|()| Vec::new());
        for table in tables {
            let load = load_of(windows, placing, table, now);
            let traffic = windows.traffic(table, now);
            let (size, package) = memories.of(table);
            let everywhere = memories.has_all(table, packages);
            let demand = |load, traffic| Demand {
                traffic,
                size,
                package,
                everywhere,
                ..Demand::new(table, load)
            };
            last.push(demand(windows.last_load(table), traffic.fast));
            fast.push(demand(load.fast, traffic.fast));
            slow.push(demand(load.slow, traffic.slow));
        }
        Self {
            now,
            last,
            fast,
            slow,
        }
    }

    /// No table's load counts for more than `most`, which is what the whole machine can do. Clients that are refused
    /// and try again at once can ask for any number of times that, and next to it no other table would count.
    pub(super) fn cap(&mut self, most: f64) {
        let all = [&mut self.last, &mut self.fast, &mut self.slow];
        for demand in all.into_iter().flatten() {
            demand.load = demand.load.min(most);
        }
    }

    /// Tables that ask for more than `large` may live on all packages, the hottest first, if each package can have
    /// their memory: copies take `left` bytes at most, and begin by `by`.
    pub(super) fn spread(
        &mut self,
        memories: &Memories,
        packages: usize,
        large: f64,
        (left, by): (u64, Time),
    ) {
        if packages < 2 || left == 0 {
            return;
        }
        for demands in [&mut self.last, &mut self.fast, &mut self.slow] {
            let asking = demands.iter_mut();
            let mut asking: Vec<&mut Demand> = asking
                .filter(|demand| demand.load > large && !demand.everywhere)
                .collect();
            asking.sort_by(|a, b| b.load.total_cmp(&a.load).then(a.table.cmp(&b.table)));
            let mut left = left;
            for demand in asking {
                let takes = memories.to_all(demand.table, packages, by);
                if let Some(rest) = takes.and_then(|takes| left.checked_sub(takes)) {
                    (left, demand.everywhere) = (rest, true);
                }
            }
        }
    }
}

/// What is balanced of a table: its load or its traffic.
pub(super) fn load_of(
    windows: &UsageWindows,
    placing: PlaceBy,
    table: TableId,
    now: Time,
) -> Rates {
    match placing {
        PlaceBy::Time => windows.load(table, now),
        PlaceBy::Traffic => windows.traffic(table, now),
    }
}

/// Load of all tables together.
pub(super) fn total(demands: &[Demand]) -> f64 {
    demands.iter().map(|demand| demand.load).sum()
}

/// How the demands, in order of their tables' ids, lie on the domains under a placement.
pub(super) fn under(placement: &Placement, demands: &[Demand], domains: &[DomainSpec]) -> Balance {
    let mut homes = placement.in_order();
    balance(demands.iter().copied(), |table| homes.find(table), domains)
}

/// What warm caches are worth to the tables that move, by load. `demands` are in order of their tables' ids.
fn reuse_of(moves: &[Move], demands: &[Demand], domains: &[DomainSpec]) -> f64 {
    let largest = domains.iter().max_by_key(|spec| spec.cache_bytes);
    let known = domains.iter().all(|spec| spec.cache_bytes > 0);
    let Some(largest) = largest.filter(|_| known) else {
        return 1.0;
    };
    let (mut all, mut load) = (0.0, 0.0);
    for step in moves {
        let Ok(at) = demands.binary_search_by_key(&step.table, |demand| demand.table) else {
            continue;
        };
        load += demands[at].load;
        all += demands[at].load * largest.reuse(demands[at].size);
    }
    if load > 0.0 { all / load } else { 1.0 }
}

/// The homes that a table gets, if it is among those that move, in order of their ids.
pub(super) fn moved_to(moves: &[Move], table: TableId) -> Option<&Homes> {
    let at = moves.binary_search_by_key(&table, |step| step.table);
    moves[at.ok()?].to.as_ref()
}

/// What a placement must be worth.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    pub(super) placing: PlaceBy,
    pub(super) trigger: TriggerConfig,
}

/// The same load under the old and the new placement.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) before: Balance,
    pub(super) after: Balance,
    /// Predicted wait of the domains whose load changes, in mean service times, weighted by load; before and after.
    wait: (f64, f64),
    /// What warm caches are worth to the tables that move, of a service time ([`DomainSpec::reuse`]).
    reuse: f64,
}

impl Change {
    fn new(
        present: &Placement,
        moves: &[Move],
        demands: &[Demand],
        domains: &[DomainSpec],
    ) -> Self {
        let loads = |moves: &[Move]| {
            let mut homes = present.in_order();
            let homes = |table| match moved_to(moves, table) {
                Some(to) => Some(to),
                None => homes.find(table),
            };
            Loads::new(demands.iter().copied(), homes, domains)
        };
        let (before, after) = (loads(&[]), loads(moves));
        let (mut waits, mut load) = ((0.0, 0.0), 0.0);
        for ((spec, was), (_, is)) in before.iter().zip(after.iter()) {
            if was != is {
                waits.0 += load_times_wait(spec, was);
                waits.1 += load_times_wait(spec, is);
                load += was;
            }
        }
        // Load that had no home before has one now; its wait cannot be compared.
        let mean = |waits: f64| if load > 0.0 { waits / load } else { 0.0 };
        Self {
            before: before.balance(),
            after: after.balance(),
            wait: (mean(waits.0), mean(waits.1)),
            reuse: reuse_of(moves, demands, domains),
        }
    }

    /// Part by which the busiest domain gets less busy; negative if it gets busier.
    fn lowers_peak(&self) -> f64 {
        if self.before.peak > 0.0 {
            1.0 - self.after.peak / self.before.peak
        } else {
            0.0
        }
    }

    /// Waits that differ by less are alike, as caches go cold for it.
    fn least_wait(&self, trigger: &TriggerConfig) -> f64 {
        trigger.min_wait * self.reuse
    }

    /// Whether it is worth moving for.
    fn gains(&self, judge: &Judge) -> bool {
        let Judge { placing, trigger } = judge;
        match placing {
            PlaceBy::Traffic => self.lowers_peak() >= trigger.min_gain,
            PlaceBy::Time => {
                let (before, after) = self.wait;
                let least = (before * trigger.min_gain).max(self.least_wait(trigger));
                after < before && before - after >= least
            }
        }
    }

    /// Whether nobody is worse off.
    fn loses_nothing(&self, judge: &Judge) -> bool {
        match judge.placing {
            PlaceBy::Traffic => self.lowers_peak() >= 0.0,
            PlaceBy::Time => self.wait.1 <= self.wait.0,
        }
    }

    /// Whether it loses less than what is worth moving for; `threshold` is an imbalance that is borne.
    fn hardly_loses(&self, judge: &Judge, threshold: f64) -> bool {
        match judge.placing {
            PlaceBy::Traffic => self.lowers_peak() >= 0.0 || self.after.imbalance() <= threshold,
            PlaceBy::Time => {
                self.loses_nothing(judge)
                    || self.wait.1 - self.wait.0 < self.least_wait(&judge.trigger)
            }
        }
    }
}

/// Moves that change the present placement.
pub(super) struct Candidate {
    /// In order of the tables' ids.
    pub(super) moves: Vec<Move>,
    pub(super) last: Change,
    pub(super) fast: Change,
    pub(super) slow: Change,
    /// Whether it takes a table back to where it has just been.
    pub(super) returns: bool,
    /// Bytes that have to be read anew into the new homes' caches.
    pub(super) cold_bytes: u64,
}

impl Candidate {
    /// `None` if there are none.
    pub(super) fn new(
        present: &Placement,
        moves: Vec<Move>,
        domains: &[DomainSpec],
        seen: &Seen,
        warmth: &Warmth,
        trigger: &Trigger,
    ) -> Option<Self> {
        if moves.is_empty() {
            return None;
        }
        let change = |demands: &[_]| Change::new(present, &moves, demands, domains);
        Some(Self {
            last: change(&seen.last),
            fast: change(&seen.fast),
            slow: change(&seen.slow),
            returns: trigger.is_return(&moves, seen.now),
            cold_bytes: warmth.cold_by(&moves) as u64,
            moves,
        })
    }

    /// Whether the last second may ask for it: a gain there, and for undoing an earlier remap in the slow window too.
    pub(super) fn pays_at_once(&self, judge: &Judge) -> bool {
        self.last.gains(judge) && (!self.returns || self.slow.gains(judge))
    }

    /// Whether the fast window may ask for it: a gain there, and for undoing an earlier remap in the
    /// slow window too.
    pub(super) fn pays_quickly(&self, judge: &Judge) -> bool {
        self.fast.gains(judge) && (!self.returns || self.slow.gains(judge))
    }

    /// Whether the slow window may ask for it: a gain there, and no loss in the fast one.
    pub(super) fn pays_in_time(&self, judge: &Judge) -> bool {
        self.slow.gains(judge) && self.fast.loses_nothing(judge)
    }

    /// Whether it leaves waits or balance about as good as they were.
    pub(super) fn harms_nothing(&self, judge: &Judge) -> bool {
        let trigger = &judge.trigger;
        self.fast.hardly_loses(judge, trigger.fast_threshold)
            && self.slow.hardly_loses(judge, trigger.slow_threshold)
    }
}
