//! What one tick has seen, and a placement that it considers.

use super::PlannerConfig;
use super::memory::Memories;
use crate::mapper::{Balance, Demand, DomainSpec, Loads};
use crate::wait::{load_times_wait, predicted_wait};
use crate::{Homes, Move, PlaceBy, Time};

/// What tables ask for at one moment, in id order: all that ask for anything, and some or all others.
#[derive(Default)]
pub(super) struct Seen {
    /// Where they live.
    pub(super) homes: Vec<Homes>,
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
        for demands in [&mut self.fast, &mut self.slow] {
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

/// Whether some domain would gain what is worth moving for if all load lay evenly. Else no placement is looked for.
pub(super) fn could_gain(loads: &Loads, config: &PlannerConfig) -> bool {
    let even = loads.balance().mean;
    loads.iter().any(|(spec, load)| {
        let ends = [load / spec.strength(), even];
        let [now, even] = match config.mapper.placing {
            PlaceBy::Traffic => ends,
            PlaceBy::Time => ends.map(|busy| predicted_wait(spec.cores, busy)),
        };
        is_gain(now, even, config)
    })
}

/// Whether this change of the busiest domain's traffic, or of the predicted wait, is worth moving for.
fn is_gain(before: f64, after: f64, config: &PlannerConfig) -> bool {
    let trigger = &config.trigger;
    match config.mapper.placing {
        PlaceBy::Traffic => after <= before * (1.0 - trigger.min_gain),
        PlaceBy::Time => after < before && before - after >= trigger.min_wait,
    }
}

/// The same load under the old and the new placement.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) before: Balance,
    pub(super) after: Balance,
    /// Predicted wait of the domains whose load changes, in mean service times, weighted by load; before and after.
    wait: (f64, f64),
}

impl Change {
    fn new(seen: &Seen, homes: &[Homes], demands: &[Demand], domains: &[DomainSpec]) -> Self {
        let before = loads(demands, &seen.homes, domains);
        let after = loads(demands, homes, domains);
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
        }
    }

    /// Whether it is worth moving for.
    pub(super) fn gains(&self, config: &PlannerConfig) -> bool {
        let (before, after) = match config.mapper.placing {
            PlaceBy::Traffic => (self.before.peak, self.after.peak),
            PlaceBy::Time => self.wait,
        };
        is_gain(before, after, config)
    }
}

/// Moves that change the present placement.
pub(super) struct Candidate {
    /// In order of the tables' ids.
    pub(super) moves: Vec<Move>,
    pub(super) change: Change,
    /// Bytes that have to be read anew into the new homes' caches.
    pub(super) cold_bytes: u64,
}

impl Candidate {
    /// That tables which ask for so much get these homes; `None` if they have them already.
    pub(super) fn new(
        seen: &Seen,
        homes: &[Homes],
        demands: &[Demand],
        domains: &[DomainSpec],
    ) -> Option<Self> {
        let (mut moves, mut cold_bytes) = (Vec::new(), 0);
        for ((demand, from), to) in seen.slow.iter().zip(&seen.homes).zip(homes) {
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
        Some(Self {
            moves,
            change: Change::new(seen, homes, demands, domains),
            cold_bytes,
        })
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
