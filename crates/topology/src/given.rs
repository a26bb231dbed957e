//! Domains that the user gives, where the system does not tell them.

use crate::cpuset::{self, CpuSet, cpu_ranges};
use crate::distance::CoreLocation;
use crate::error::{DomainsError, TopologyError};
use crate::level::Level;
use crate::limits::Restriction;
use crate::model::{Core, Domain, DomainId, Parts, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Which cpus form each domain, for [`Topology::with_domains`].
///
/// As text, a comma stands between domains and a plus between ranges of one domain:
///
/// ```
/// use chiplet_topology::DomainList;
/// // Two domains of four cores, whose second cpus are numbered from 8 on.
/// let list: DomainList = "0-3+8-11,4-7+12-15".parse()?;
/// assert_eq!(list, DomainList::from(vec![
///     vec![0, 1, 2, 3, 8, 9, 10, 11],
///     vec![4, 5, 6, 7, 12, 13, 14, 15],
/// ]));
/// assert_eq!(list.to_string(), "0-3+8-11,4-7+12-15");
/// # Ok::<(), chiplet_topology::DomainsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainList(Vec<Vec<u32>>);

impl DomainList {
    /// The cpus of each domain, as they were given.
    pub fn domains(&self) -> &[Vec<u32>] {
        &self.0
    }
}

impl From<Vec<Vec<u32>>> for DomainList {
    fn from(domains: Vec<Vec<u32>>) -> Self {
        Self(domains)
    }
}

impl FromStr for DomainList {
    type Err = DomainsError;

    fn from_str(text: &str) -> Result<Self, DomainsError> {
        let domain = |part: &str| {
            let cpus = cpuset::parse_list(&part.replace('+', ",")).map_err(|problem| {
                let part: String = part.chars().take(60).collect();
                DomainsError(format!(
                    "\"{part}\" is no domain: {problem} (two domains look like 0-7,8-15, with several ranges like \
                     0-3+8-11,4-7+12-15)"
                ))
            })?;
            Ok(cpus.into_iter().collect())
        };
        text.split(',')
            .map(domain)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for DomainList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domain = |cpus: &Vec<u32>| cpu_ranges(cpus).replace(',', "+");
        let domains: Vec<String> = self.0.iter().map(domain).collect();
        f.write_str(&domains.join(","))
    }
}

impl Topology {
    /// The same machine with these domains in place of those that were detected. Cpus that are in none of them are
    /// left out. Workers are tied to given domains as to detected ones.
    ///
    /// For a virtual machine that hides its host's L3s, or makes some up. The size of a domain's cache is known only
    /// where the domain is one that was detected; else it reads 0.
    ///
    /// ```
    /// use chiplet_topology::{DomainList, Level, Topology};
    /// // A guest of 16 cores under one L3 that runs on two CCDs.
    /// let told = Topology::uniform(1, 16, 32 << 20);
    /// let machine = told.with_domains(&"0-7,8-15".parse()?)?;
    /// assert_eq!(machine.domains().len(), 2);
    /// assert_eq!(machine.domains()[1].cpus(), [8, 9, 10, 11, 12, 13, 14, 15]);
    /// assert_eq!(machine.level(), Level::Given);
    ///
    /// let error = told.with_domains(&DomainList::from(vec![vec![0, 1], vec![1, 2]])).unwrap_err();
    /// assert!(error.to_string().contains("cpu 1 is in domain 0 and in domain 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::Domains`] if a domain is empty, a cpu is named twice, does not exist or may not be used, or if
    /// cpus of one core are in different domains.
    pub fn with_domains(&self, list: &DomainList) -> Result<Self, TopologyError> {
        let domain_of = self.check(list).map_err(TopologyError::Domains)?;
        let mut parts = Parts {
            domains: Vec::new(),
            places: Vec::new(),
            level: Level::Given,
            reason: format!("the domains were given: {list}"),
            warnings: Vec::new(),
            ..self.parts().clone()
        };
        for position in 0..list.0.len() {
            let (domain, place) = self.domain_at(position, &domain_of);
            parts.domains.push(domain);
            parts.places.push(place);
        }
        let left_out: Vec<u32> = (self.domains().iter().flat_map(Domain::cpus))
            .filter(|cpu| !domain_of.contains_key(cpu))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        if !left_out.is_empty() {
            parts.restrictions.push(Restriction::Caller(left_out));
        }
        Ok(Self::from_parts(parts))
    }

    /// The same machine, whose domains have a cache of so many bytes each where the system does not tell: domains that
    /// were given.
    ///
    /// ```
    /// use chiplet_topology::Topology;
    /// let told = Topology::uniform(1, 16, 512 << 20).with_domains(&"0-7,8-15".parse()?)?;
    /// assert_eq!(told.domains()[0].cache_bytes, 0);
    /// assert_eq!(told.with_cache_bytes(32 << 20).domains()[0].cache_bytes, 32 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_cache_bytes(&self, bytes: u64) -> Self {
        let mut parts = self.parts().clone();
        let unknown = |domain: &&mut Domain| domain.cache_bytes == 0;
        for domain in parts.domains.iter_mut().filter(unknown) {
            domain.cache_bytes = bytes;
        }
        Self::from_parts(parts)
    }

    /// The domain of each cpu, if the list fits the machine.
    fn check(&self, list: &DomainList) -> Result<BTreeMap<u32, usize>, DomainsError> {
        let mut domain_of = BTreeMap::new();
        let empty = |domain| {
            Err(DomainsError(format!(
                "domain {domain} has no cpu; give each domain at least one"
            )))
        };
        if list.0.is_empty() {
            return empty(0);
        }
        for (domain, cpus) in list.0.iter().enumerate() {
            if cpus.is_empty() {
                return empty(domain);
            }
            for &cpu in cpus {
                if let Some(first) = domain_of.insert(cpu, domain)
                    && first != domain
                {
                    return Err(DomainsError(format!(
                        "cpu {cpu} is in domain {first} and in domain {domain}; give it to one of them"
                    )));
                }
            }
        }
        let usable: CpuSet = self.domains().iter().flat_map(Domain::cpus).collect();
        let mut strange: CpuSet = domain_of.keys().copied().collect();
        strange.retain(|cpu| !usable.contains(cpu));
        for restriction in self.restrictions() {
            let taken: Vec<u32> = (restriction.cpus().iter().copied())
                .filter(|cpu| strange.contains(cpu))
                .collect();
            if !taken.is_empty() {
                return Err(DomainsError(format!(
                    "cpus {} may not be used ({restriction}); leave them out, or widen what this process may use",
                    cpu_ranges(&taken)
                )));
            }
        }
        if !strange.is_empty() {
            return Err(DomainsError(format!(
                "there is no cpu {} on this machine; chiplet topology shows which there are",
                cpu_ranges(&strange)
            )));
        }
        for core in self.domains().iter().flat_map(|domain| &domain.cores) {
            let mut placed = core
                .cpus
                .iter()
                .filter_map(|cpu| Some((*cpu, *domain_of.get(cpu)?)));
            let Some((cpu, first)) = placed.next() else {
                continue;
            };
            if let Some((sibling, second)) = placed.find(|&(_, domain)| domain != first) {
                return Err(DomainsError(format!(
                    "cpus {cpu} and {sibling} are one core, and in domains {first} and {second}; put all cpus of a core \
                     into one domain, as in 0-3+8-11"
                )));
            }
        }
        Ok(domain_of)
    }

    /// One of the given domains, where its first core is.
    fn domain_at(
        &self,
        position: usize,
        domain_of: &BTreeMap<u32, usize>,
    ) -> (Domain, CoreLocation) {
        let is_in = |cpu: &u32| domain_of.get(cpu) == Some(&position);
        let mut cores: Vec<(Core, usize)> = Vec::new();
        for (at, domain) in self.domains().iter().enumerate() {
            for core in &domain.cores {
                let cpus: Vec<u32> = core.cpus.iter().copied().filter(is_in).collect();
                if !cpus.is_empty() {
                    let capacity = core.capacity;
                    cores.push((Core { cpus, capacity }, at));
                }
            }
        }
        cores.sort_by_key(|(core, _)| core.cpus[0]);
        let at = cores[0].1;
        let first = &self.domains()[at];
        let cores: Vec<Core> = cores.into_iter().map(|(core, _)| core).collect();
        let is_detected = cores == first.cores;
        let domain = Domain {
            id: DomainId(position as u32),
            cache_bytes: if is_detected { first.cache_bytes } else { 0 },
            node: first.node,
            package: first.package,
            cores,
        };
        (domain, self.parts().places[at])
    }
}
