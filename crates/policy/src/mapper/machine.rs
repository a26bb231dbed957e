//! The machine as the mapper works with it: the domains that can be homes, by position.

use chiplet_topology::DomainId;

use super::DomainSpec;
use crate::{Homes, PlaceBy};

/// More load than any machine has; keeps sums of clean values finite.
const MOST: f64 = 1e18;

/// A load that can be computed with and ordered: finite and not negative, and no -0.0, which an empty sum is.
pub(super) fn clean(load: f64) -> f64 {
    if load.is_finite() {
        load.clamp(0.0, MOST) + 0.0
    } else {
        0.0
    }
}

/// The domains that can be home to tables, sorted by id, each once; named by their position.
pub(super) struct Machine {
    domains: Vec<DomainSpec>,
    /// What is balanced.
    placing: PlaceBy,
    total_cores: f64,
}

impl Machine {
    pub(super) fn new(domains: &[DomainSpec], placing: PlaceBy) -> Self {
        let mut domains = domains.to_vec();
        domains.sort_by_key(|spec| spec.id);
        domains.dedup_by_key(|spec| spec.id);
        if domains.iter().any(|spec| spec.cores > 0) {
            domains.retain(|spec| spec.cores > 0);
        }
        for spec in &mut domains {
            spec.cores = spec.cores.max(1);
            spec.speed = spec.sane_speed();
        }
        // A cache of unknown size cannot be compared with one that is known, and by traffic no cache counts.
        if placing == PlaceBy::Traffic || domains.iter().any(|spec| spec.cache_bytes == 0) {
            domains.iter_mut().for_each(|spec| spec.cache_bytes = 0);
        }
        let total_cores = domains.iter().map(DomainSpec::strength).sum();
        Self {
            domains,
            placing,
            total_cores,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.domains.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    pub(super) fn specs(&self) -> &[DomainSpec] {
        &self.domains
    }

    pub(super) fn id(&self, domain: usize) -> DomainId {
        self.domains[domain].id
    }

    pub(super) fn index(&self, id: DomainId) -> Option<usize> {
        self.domains.binary_search_by_key(&id, |spec| spec.id).ok()
    }

    /// Homes with weights in proportion to these parts of a table's load; alike where there is none.
    pub(super) fn homes(&self, shares: &[(usize, f64)]) -> Homes {
        let shares = shares
            .iter()
            .map(|&(domain, share)| (self.id(domain), share.max(f64::MIN_POSITIVE)));
        Homes::from_shares(shares).expect("every share is positive")
    }

    /// Whether tables are placed by time, so that sizes and memories count.
    pub(super) fn by_time(&self) -> bool {
        self.placing == PlaceBy::Time
    }

    pub(super) fn spec(&self, domain: usize) -> &DomainSpec {
        &self.domains[domain]
    }

    /// Its cores, each as much as it is worth.
    pub(super) fn cores(&self, domain: usize) -> f64 {
        self.domains[domain].strength()
    }

    /// The cores of a domain, on the mean.
    pub(super) fn mean_cores(&self) -> f64 {
        self.total_cores / self.len() as f64
    }

    /// Load per core if `total` lay evenly.
    pub(super) fn mean(&self, total: f64) -> f64 {
        if self.is_empty() {
            0.0
        } else {
            total / self.total_cores
        }
    }

    /// Load per core of the busiest domain.
    pub(super) fn peak(&self, load: &[f64]) -> f64 {
        load.iter()
            .enumerate()
            .map(|(domain, load)| load / self.cores(domain))
            .fold(0.0, f64::max)
    }

    /// The domain for which this is highest; the lowest of several.
    pub(super) fn highest(&self, of: impl Fn(usize) -> f64) -> usize {
        (1..self.len()).fold(
            0,
            |best, domain| {
                if of(domain) > of(best) { domain } else { best }
            },
        )
    }
}
