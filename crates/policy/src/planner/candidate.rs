//! What one tick has seen, and a placement that it considers, judged by both windows.

use super::PlannerConfig;
use super::memory::Memories;
use crate::mapper::{Balance, Demand, DomainSpec, Loads};
use crate::wait::load_times_wait;
use crate::{Homes, Move, PlaceBy, TableId, Time, Trigger, TriggerConfig};

/// What tables ask for at one moment, in id order: all that ask for anything, and some or all others.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) now: Time,
    /// Where they live.
    pub(super) homes: Vec<Homes>,
    /// In the last second or so.
    pub(super) last: Vec<Demand>,
    pub(super) fast: Vec<Demand>,
    pub(super) slow: Vec<Demand>,
}

impl Seen {
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

/// How what is asked for lies on the domains, if the tables have these homes.
pub(super) fn loads<'a>(
    demands: &[Demand],
    homes: impl IntoIterator<Item = &'a Homes>,
    domains: &[DomainSpec],
) -> Loads {
    let asked = demands.iter().map(|demand| demand.load);
    Loads::new(asked.zip(homes.into_iter().map(Some)), domains)
}

/// What warm caches are worth to the tables that move, by load.
fn reuse_of(moving: &[bool], demands: &[Demand], domains: &[DomainSpec]) -> f64 {
    let largest = domains.iter().max_by_key(|spec| spec.cache_bytes);
    let known = domains.iter().all(|spec| spec.cache_bytes > 0);
    let Some(largest) = largest.filter(|_| known) else {
        return 1.0;
    };
    let (mut all, mut load) = (0.0, 0.0);
    for (demand, _) in demands.iter().zip(moving).filter(|(_, moves)| **moves) {
        load += demand.load;
        all += demand.load * largest.reuse(demand.size);
    }
    if load > 0.0 { all / load } else { 1.0 }
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
    fn new(seen: &Seen, homes: &[Homes], demands: &[Demand], domains: &[DomainSpec]) -> Self {
        let before = loads(demands, &seen.homes, domains);
        let after = loads(demands, homes, domains);
        let pairs = seen.homes.iter().zip(homes);
        let moving: Vec<bool> = pairs.map(|(from, to)| from != to).collect();
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
            reuse: reuse_of(&moving, demands, domains),
        }
    }

    /// Waits that differ by less are alike, as caches go cold for it.
    fn least_wait(&self, trigger: &TriggerConfig) -> f64 {
        trigger.min_wait * self.reuse
    }

    /// Whether it is worth moving for.
    fn gains(&self, config: &PlannerConfig) -> bool {
        let trigger = &config.trigger;
        match config.mapper.placing {
            PlaceBy::Traffic => self.after.peak <= self.before.peak * (1.0 - trigger.min_gain),
            PlaceBy::Time => {
                let (before, after) = self.wait;
                let least = (before * trigger.min_gain).max(self.least_wait(trigger));
                after < before && before - after >= least
            }
        }
    }

    /// Whether nobody is worse off.
    fn loses_nothing(&self, config: &PlannerConfig) -> bool {
        match config.mapper.placing {
            PlaceBy::Traffic => self.after.peak <= self.before.peak,
            PlaceBy::Time => self.wait.1 <= self.wait.0,
        }
    }

    /// Whether it loses less than what is worth moving for; `threshold` is an imbalance that is borne.
    fn hardly_loses(&self, config: &PlannerConfig, threshold: f64) -> bool {
        match config.mapper.placing {
            PlaceBy::Traffic => {
                self.after.peak <= self.before.peak || self.after.imbalance() <= threshold
            }
            PlaceBy::Time => self.wait.1 - self.wait.0 <= self.least_wait(&config.trigger),
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
    returns: bool,
    /// Bytes that have to be read anew into the new homes' caches.
    pub(super) cold_bytes: u64,
}

impl Candidate {
    /// That tables get these homes; `None` if they have them already.
    pub(super) fn new(
        seen: &Seen,
        homes: Vec<Homes>,
        domains: &[DomainSpec],
        trigger: &Trigger,
    ) -> Option<Self> {
        let (mut moves, mut cold_bytes) = (Vec::new(), 0);
        for ((demand, from), to) in seen.slow.iter().zip(&seen.homes).zip(&homes) {
            if from == to {
                continue;
            }
            let step = Move {
                table: demand.table,
                from: Some(from.clone()),
                to: Some(to.clone()),
            };
            if demand.load > 0.0 {
                cold_bytes += cold_by(&step, demand.size, domains);
            }
            moves.push(step);
        }
        if moves.is_empty() {
            return None;
        }
        let change = |demands: &[_]| Change::new(seen, &homes, demands, domains);
        let [last, fast, slow] = [&seen.last, &seen.fast, &seen.slow].map(|seen| change(seen));
        Some(Self {
            returns: trigger.is_return(&moves, seen.now),
            moves,
            last,
            fast,
            slow,
            cold_bytes,
        })
    }

    /// How many homes a table that moves has, and will have.
    pub(super) fn homes_of(&self, table: TableId) -> Option<(usize, usize)> {
        let at = self.moves.binary_search_by_key(&table, |step| step.table);
        let step = &self.moves[at.ok()?];
        Some((step.from.as_ref()?.len(), step.to.as_ref()?.len()))
    }

    /// Whether a shorter window may ask for it, in which it changes so much: a gain there, and for undoing an earlier
    /// remap in the slow window too.
    pub(super) fn pays_quickly(&self, change: &Change, config: &PlannerConfig) -> bool {
        change.gains(config) && (!self.returns || self.slow.gains(config))
    }

    /// Whether the slow window may ask for it: a gain there, and no loss in the fast one.
    pub(super) fn pays_in_time(&self, config: &PlannerConfig) -> bool {
        self.slow.gains(config) && self.fast.loses_nothing(config)
    }

    /// Whether it leaves waits or balance about as good as they were.
    pub(super) fn harms_nothing(&self, config: &PlannerConfig) -> bool {
        let trigger = &config.trigger;
        self.fast.hardly_loses(config, trigger.fast_threshold)
            && self.slow.hardly_loses(config, trigger.slow_threshold)
    }
}

/// Bytes of a table of this size that the caches of its new homes do not have.
fn cold_by(step: &Move, size: u64, domains: &[DomainSpec]) -> u64 {
    let held = |domain| {
        let spec = domains.iter().find(|spec| spec.id == domain);
        match spec.map_or(0, |spec| spec.cache_bytes) {
            0 => size,
            cache => size.min(cache),
        }
    };
    step.gained().map(held).sum()
}
