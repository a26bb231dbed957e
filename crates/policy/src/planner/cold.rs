//! How many bytes go cold when tables move, and which moves come first if not all may be made at once.
//!
//! A cache that is asked for more than it has is shared in proportion to what its tables ask for: of a table, at most
//! its size, at most the cache. So no placement has more bytes in its caches than they hold, and a move makes cold
//! what the table has in its home's cache now, once for each domain that becomes home.

use std::collections::BTreeMap;

use chiplet_topology::DomainId;

use super::candidate::Seen;
use crate::mapper::{Demand, DomainSpec, Loads};
use crate::wait::load_times_wait;
use crate::{Homes, Move, Placement, TableId};

/// How often the moves are gone through for some that pay only after others.
const PASSES: usize = 3;

/// What lies in the caches.
pub(super) struct Warmth {
    /// Bytes of each table with load in its main home's cache.
    tables: BTreeMap<TableId, f64>,
    /// Bytes of all caches; infinite if one of them is of unknown size.
    all: f64,
}

impl Warmth {
    pub(super) fn new(placement: &Placement, domains: &[DomainSpec], seen: &Seen) -> Self {
        let caches: BTreeMap<DomainId, u64> = domains
            .iter()
            .map(|spec| (spec.id, spec.cache_bytes))
            .collect();
        let asked = |size: u64, domain: DomainId| match caches.get(&domain) {
            Some(&cache) if cache > 0 => size.min(cache) as f64,
            _ => size as f64,
        };
        let mut on: BTreeMap<DomainId, f64> = BTreeMap::new();
        let used = || {
            let mut homes = placement.in_order();
            let both = seen.fast.iter().zip(&seen.slow);
            both.filter(|(fast, slow)| fast.load + slow.load + slow.traffic > 0.0)
                .filter_map(move |(fast, _)| Some((fast.table, fast.size, homes.find(fast.table)?)))
        };
        for (_, size, homes) in used() {
            for home in homes {
                *on.entry(home.domain).or_default() += asked(size, home.domain);
            }
        }
        let warm = |size: u64, homes: &Homes| {
            let home = homes.main().domain;
            let part = match caches.get(&home) {
                Some(&cache) if cache > 0 => (cache as f64 / on[&home]).min(1.0),
                _ => 1.0,
            };
            asked(size, home) * part
        };
        Self {
            tables: used()
                .map(|(table, size, homes)| (table, warm(size, homes)))
                .collect(),
            all: match caches.values().any(|&cache| cache == 0) {
                true => f64::INFINITY,
                false => caches.values().map(|&cache| cache as f64).sum(),
            },
        }
    }

    /// Bytes of all caches.
    pub(super) fn all(&self) -> f64 {
        self.all
    }

    /// Bytes that these moves make cold.
    pub(super) fn cold_by(&self, moves: &[Move]) -> f64 {
        moves.iter().map(|step| self.cold(step)).sum()
    }

    fn cold(&self, step: &Move) -> f64 {
        let warm = self.tables.get(&step.table).copied().unwrap_or(0.0);
        warm * step.gained().count() as f64
    }

    /// Some of `moves`, which make no more than `most` bytes cold, or one of them, in order of their tables' ids. First
    /// come those that change how many homes a table has, then those that lower the predicted wait by most for each
    /// byte. None is made that would not lower it, except that homes are given up.
    pub(super) fn part(
        &self,
        moves: &[Move],
        demands: &[Demand],
        present: &Placement,
        domains: &[DomainSpec],
        most: f64,
    ) -> Vec<Move> {
        let mut scale = Scale::new(present, demands, domains);
        let count = |homes: &Option<Homes>| homes.as_ref().map_or(0, Homes::len);
        let mut open: Vec<Part> = moves
            .iter()
            .map(|step| {
                let cold = self.cold(step);
                Part {
                    step,
                    cold,
                    resizes: count(&step.from) != count(&step.to),
                    worth: scale.gain(step) / cold.max(1.0),
                }
            })
            .collect();
        open.sort_by(|a, b| {
            (b.resizes.cmp(&a.resizes))
                .then(b.worth.total_cmp(&a.worth))
                .then(a.step.table.cmp(&b.step.table))
        });
        let (mut made, mut cold) = (Vec::new(), 0.0);
        for _ in 0..PASSES {
            let before = made.len();
            open.retain(|part| {
                let step = part.step;
                let fits = cold + part.cold <= most;
                let shrinks = count(&step.to) < count(&step.from);
                let made_now = fits && (shrinks || scale.gain(step) > 0.0);
                if made_now {
                    cold += part.cold;
                    scale.make(step);
                    made.push(step);
                }
                !made_now
            });
            if made.len() == before {
                break;
            }
        }
        if made.is_empty() {
            let mut steps = open.iter().map(|part| part.step);
            made.extend(steps.find(|step| scale.gain(step) > 0.0));
        }
        let mut made: Vec<Move> = made.into_iter().cloned().collect();
        made.sort_by_key(|step| step.table);
        made
    }
}

/// A move of several, and what speaks for it.
struct Part<'a> {
    step: &'a Move,
    /// Bytes that it makes cold.
    cold: f64,
    /// Whether it changes how many homes the table has.
    resizes: bool,
    /// What it gains alone for each byte that goes cold.
    worth: f64,
}

/// What single moves gain.
struct Scale {
    /// Load of each table.
    loads: BTreeMap<TableId, f64>,
    /// Each domain and its load.
    domains: BTreeMap<DomainId, (DomainSpec, f64)>,
}

impl Scale {
    fn new(present: &Placement, demands: &[Demand], domains: &[DomainSpec]) -> Self {
        let mut homes = present.in_order();
        let loads = Loads::new(demands.iter().copied(), |table| homes.find(table), domains);
        Self {
            loads: demands
                .iter()
                .map(|demand| (demand.table, demand.load))
                .collect(),
            domains: loads
                .iter()
                .map(|(spec, load)| (spec.id, (*spec, load)))
                .collect(),
        }
    }

    /// By how much a move changes the load of each domain.
    fn shifts(&self, step: &Move) -> BTreeMap<DomainId, f64> {
        let load = self.loads.get(&step.table).copied().unwrap_or(0.0);
        let mut shifts = BTreeMap::new();
        for (homes, sign) in [(&step.from, -1.0), (&step.to, 1.0)] {
            for home in homes.iter().flatten() {
                *shifts.entry(home.domain).or_default() += sign * load * home.share();
            }
        }
        shifts
    }

    /// By how much the predicted wait falls, times load.
    fn gain(&self, step: &Move) -> f64 {
        let falls = |(domain, by): (DomainId, f64)| {
            let (spec, load) = self.domains.get(&domain)?;
            Some(load_times_wait(spec, *load) - load_times_wait(spec, (load + by).max(0.0)))
        };
        self.shifts(step).into_iter().filter_map(falls).sum()
    }

    fn make(&mut self, step: &Move) {
        for (domain, by) in self.shifts(step) {
            if let Some((_, load)) = self.domains.get_mut(&domain) {
                *load = (*load + by).max(0.0);
            }
        }
    }
}
