//! What each domain holds, so that a new table finds a home without asking the mapper.

use chiplet_topology::DomainId;

use crate::{DomainSpec, DomainTally, Homes, assign_home};

/// Less than this part of a table's load is what rounding leaves of a domain's when the table is taken off. It must not
/// make an empty domain look busier than one that is full of idle tables.
const ROUNDING: f64 = 1e-9;

/// A tally for each domain, sorted by id, each domain once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tallies(Vec<DomainTally>);

impl Tallies {
    /// All empty. Caches count where tables are placed by time.
    pub(super) fn new(domains: &[DomainSpec], by_time: bool) -> Self {
        let cache_of = |spec: &DomainSpec| if by_time { spec.cache_bytes } else { 0 };
        let empty = |spec: &DomainSpec| DomainTally {
            spec: DomainSpec {
                cache_bytes: cache_of(spec),
                ..*spec
            },
            load: 0.0,
            bytes: 0.0,
            tables: 0,
        };
        let mut list: Vec<DomainTally> = domains.iter().map(empty).collect();
        list.sort_by_key(|tally| tally.spec.id);
        list.dedup_by_key(|tally| tally.spec.id);
        Self(list)
    }

    /// A home for a new table: in the package that holds its memory, if that is known.
    pub(super) fn home(&self, package: Option<u32>) -> Homes {
        let anywhere = assign_home(&self.0).expect("a planner has domains");
        let is_near = |tally: &&DomainTally| {
            tally.spec.cores > 0 && package.is_some_and(|package| package == tally.spec.package)
        };
        let home = assign_home(self.0.iter().filter(is_near));
        Homes::single(home.unwrap_or(anywhere).spec.id)
    }

    /// Nothing is asked for, and the domains have these cores.
    pub(super) fn clear_loads(&mut self, domains: &[DomainSpec]) {
        for spec in domains {
            let tally = self.on(spec.id);
            (tally.spec.cores, tally.load) = (spec.cores, 0.0);
        }
    }

    /// Each domain is asked for as much as there.
    #[cfg(test)]
    pub(super) fn take_loads(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.load = other.load;
            own.spec.cores = other.spec.cores;
        }
    }

    /// Counts more load on the homes of a table that is counted there.
    pub(super) fn add_load(&mut self, homes: &Homes, load: f64) {
        for home in homes {
            self.on(home.domain).load += load * home.share();
        }
    }

    /// Counts a table on its homes.
    pub(super) fn add(&mut self, homes: &Homes, load: f64, size_bytes: u64) {
        self.add_load(homes, load);
        for home in homes {
            let tally = self.on(home.domain);
            tally.bytes += asked(tally, size_bytes);
            tally.tables += 1;
        }
    }

    /// Counts it off.
    pub(super) fn remove(&mut self, homes: &Homes, load: f64, size_bytes: u64) {
        self.add_load(homes, -load);
        for home in homes {
            let tally = self.on(home.domain);
            tally.bytes -= asked(tally, size_bytes);
            tally.tables -= 1;
            if tally.load < load * ROUNDING {
                tally.load = 0.0;
            }
        }
    }

    /// A table with these homes has another size.
    pub(super) fn resize(&mut self, homes: &Homes, before: u64, now: u64) {
        self.remove(homes, 0.0, before);
        self.add(homes, 0.0, now);
    }

    fn on(&mut self, domain: DomainId) -> &mut DomainTally {
        let at = self.0.binary_search_by_key(&domain, |tally| tally.spec.id);
        &mut self.0[at.expect("homes are among the planner's domains")]
    }
}

/// The bytes that a table of this size counts for: what the domain's cache can hold of it, if that is known.
fn asked(tally: &DomainTally, size_bytes: u64) -> f64 {
    match tally.spec.cache_bytes {
        0 => size_bytes as f64,
        cache => size_bytes.min(cache) as f64,
    }
}
