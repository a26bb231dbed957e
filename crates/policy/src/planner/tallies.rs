//! What each domain holds, so that a new table finds a home without asking the mapper.

use chiplet_topology::DomainId;

use crate::{DomainSpec, DomainTally, Homes, PlaceBy, assign_home};

/// Less than this, in bytes per second, is what rounding leaves of a domain's traffic when a hot table is taken off.
/// It must not make an empty domain look busier than one that is full of idle tables.
const NO_TRAFFIC: f64 = 1.0;

/// The same in core-seconds per second.
const NO_LOAD: f64 = 1e-9;

/// A tally for each domain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tallies {
    placing: PlaceBy,
    /// Sorted by id, each domain once.
    list: Vec<DomainTally>,
    /// Bytes of each one's cache, 0 if unknown.
    caches: Vec<u64>,
    /// The package of each.
    packages: Vec<u32>,
}

impl Tallies {
    /// All empty.
    pub(super) fn new(domains: &[DomainSpec], placing: PlaceBy) -> Self {
        let mut domains = domains.to_vec();
        domains.sort_by_key(|spec| spec.id);
        domains.dedup_by_key(|spec| spec.id);
        let empty = |spec: &DomainSpec| DomainTally {
            id: spec.id,
            cores: spec.cores,
            speed: spec.speed,
            load: 0.0,
            bytes: 0.0,
            tables: 0,
        };
        Self {
            placing,
            list: domains.iter().map(empty).collect(),
            caches: domains.iter().map(|spec| spec.cache_bytes).collect(),
            packages: domains.iter().map(|spec| spec.package).collect(),
        }
    }

    /// A home for a new table of `size_bytes`. Where tables are placed by time and the package that holds its memory is
    /// known: in that package, unless only another one's cache has room for it.
    pub(super) fn home(&self, size_bytes: u64, package: Option<u32>) -> Homes {
        let anywhere = assign_home(&self.list);
        let Some(package) = package.filter(|_| self.placing == PlaceBy::Time) else {
            return anywhere;
        };
        let near = self.list.iter().zip(&self.packages);
        let near = near.filter(|&(tally, &of)| tally.cores > 0 && of == package);
        let near: Vec<DomainTally> = near.map(|(tally, _)| *tally).collect();
        if near.is_empty() {
            return anywhere;
        }
        let nearest = assign_home(&near);
        let room = |homes: &Homes| self.has_room(homes.main().domain, size_bytes);
        match room(&anywhere) && !room(&nearest) {
            true => anywhere,
            false => nearest,
        }
    }

    /// Whether the cache of `domain` holds so many bytes besides.
    fn has_room(&self, domain: DomainId, size_bytes: u64) -> bool {
        let position = self.list.binary_search_by_key(&domain, |tally| tally.id);
        let position = position.expect("homes are among the planner's domains");
        match self.caches[position] {
            0 => true,
            cache => self.list[position].bytes + size_bytes.min(cache) as f64 <= cache as f64,
        }
    }

    /// Nothing is asked for, and the domains have these cores.
    pub(super) fn clear_loads(&mut self, domains: &[DomainSpec]) {
        for spec in domains {
            let position = self.list.binary_search_by_key(&spec.id, |tally| tally.id);
            if let Ok(position) = position {
                self.list[position].cores = spec.cores;
            }
        }
        self.list.iter_mut().for_each(|tally| tally.load = 0.0);
    }

    /// Each domain is asked for as much as there.
    #[cfg(test)]
    pub(super) fn take_loads(&mut self, other: &Self) {
        for (own, other) in self.list.iter_mut().zip(&other.list) {
            own.load = other.load;
            own.cores = other.cores;
        }
    }

    /// Counts more load on the homes of a table that is counted there.
    pub(super) fn add_load(&mut self, homes: &Homes, load: f64) {
        for home in homes {
            self.on(home.domain, 0).0.load += load * home.share();
        }
    }

    /// Counts a table on its homes.
    pub(super) fn add(&mut self, homes: &Homes, load: f64, size_bytes: u64) {
        for home in homes {
            let (tally, bytes) = self.on(home.domain, size_bytes);
            tally.load += load * home.share();
            tally.bytes += bytes;
            tally.tables += 1;
        }
    }

    /// Counts it off.
    pub(super) fn remove(&mut self, homes: &Homes, load: f64, size_bytes: u64) {
        let nothing = match self.placing {
            PlaceBy::Time => NO_LOAD,
            PlaceBy::Traffic => NO_TRAFFIC,
        };
        for home in homes {
            let (tally, bytes) = self.on(home.domain, size_bytes);
            tally.load -= load * home.share();
            tally.bytes -= bytes;
            tally.tables -= 1;
            if tally.load < nothing {
                tally.load = 0.0;
            }
        }
    }

    /// A table with these homes has another size.
    pub(super) fn resize(&mut self, homes: &Homes, before: u64, now: u64) {
        for home in homes {
            let (tally, bytes) = self.on(home.domain, before);
            tally.bytes -= bytes;
            let (tally, bytes) = self.on(home.domain, now);
            tally.bytes += bytes;
        }
    }

    /// The domain's tally, and the bytes that a table of this size counts for there: where tables are placed by time,
    /// what its cache can hold.
    fn on(&mut self, domain: DomainId, size_bytes: u64) -> (&mut DomainTally, f64) {
        let position = self.list.binary_search_by_key(&domain, |tally| tally.id);
        let position = position.expect("homes are among the planner's domains");
        let bytes = match self.caches[position] {
            cache if cache > 0 && self.placing == PlaceBy::Time => size_bytes.min(cache),
            _ => size_bytes,
        };
        (&mut self.list[position], bytes as f64)
    }
}
