//! Machines made up for tests and simulation: unequal domains, SMT, sparse cpu numbers, several nodes,
//! packages and dies.
//!
//! The builder has a current package, node, die, number of cpus per core and capacity of a core, which the domains that
//! follow get. [`package`](TopologyBuilder::package), [`node`](TopologyBuilder::node) and
//! [`die`](TopologyBuilder::die) begin a new one; the first of each need not be begun.

use crate::cpuset::{CpuSet, MAX_CPU};
use crate::distance::CoreLocation;
use crate::error::TopologyError;
use crate::level::Level;
use crate::limits::{Quota, Restriction};
use crate::model::{Core, Domain, DomainId, Parts, Source, Topology};

/// Makes up a machine for tests and simulation; see [`Topology::builder`].
#[derive(Clone, Debug)]
pub struct TopologyBuilder {
    domains: Vec<Domain>,
    places: Vec<CoreLocation>,
    smt: u32,
    capacity: u32,
    next_cpu: u32,
    package: u32,
    node: u32,
    die: u32,
    level: Level,
    quota: Option<Quota>,
}

impl Topology {
    /// A builder for a made-up machine.
    ///
    /// ```
    /// use chiplet_topology::{Distance, DomainId, Topology};
    ///
    /// // A Ryzen 9 7950X3D: two CCDs of eight SMT cores, one with stacked cache.
    /// let x3d = Topology::builder().smt(2).domain(96 << 20, 8).domain(32 << 20, 8).build()?;
    /// assert_eq!(x3d.domains()[1].cores[0].cpus, [16, 17]);
    ///
    /// // Two CCXs on one die, with the cpu numbers that were left by a partial cpuset.
    /// let rome = Topology::builder()
    ///     .die()
    ///     .domain_of(16 << 20, [vec![2, 66], vec![3, 67]])
    ///     .domain_of(16 << 20, [vec![4]])
    ///     .die()
    ///     .domain(16 << 20, 4)
    ///     .build()?;
    /// assert_eq!(rome.distance(DomainId(0), DomainId(1)), Distance::SameDie);
    /// assert_eq!(rome.distance(DomainId(1), DomainId(2)), Distance::SameNode);
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    pub fn builder() -> TopologyBuilder {
        TopologyBuilder {
            domains: Vec::new(),
            places: Vec::new(),
            smt: 1,
            capacity: Core::FULL,
            next_cpu: 0,
            package: 0,
            node: 0,
            die: 0,
            level: Level::L3,
            quota: None,
        }
    }
}

impl TopologyBuilder {
    /// Cpus per core of the domains that follow; 1 by default.
    pub fn smt(mut self, cpus_per_core: u32) -> Self {
        self.smt = cpus_per_core;
        self
    }

    /// The speed of the cores of the domains that follow: from 0 to 1, which is the machine's fastest; 1 by default.
    pub fn capacity(mut self, of_fastest: f64) -> Self {
        let full = f64::from(Core::FULL);
        self.capacity = (of_fastest * full).round().clamp(1.0, full) as u32;
        self
    }

    /// Begins a new package, and with it a new node and no die.
    pub fn package(mut self) -> Self {
        if !self.domains.is_empty() {
            self.package += 1;
        }
        self.node()
    }

    /// Begins a new NUMA node in the current package, without dies.
    pub fn node(mut self) -> Self {
        if !self.domains.is_empty() {
            self.node += 1;
        }
        self.die = 0;
        self
    }

    /// Begins a new die in the current node: the domains that follow are near each other.
    pub fn die(mut self) -> Self {
        // Counted from 1 within a node, which is as unique as a place needs; 0 stands for no die.
        self.die += 1;
        self
    }

    /// Adds a domain of `cores` cores with a cache of `cache_bytes`. Cpu numbers go on from the
    /// highest given so far, those of a core side by side.
    pub fn domain(self, cache_bytes: u64, cores: u32) -> Self {
        let (first, smt) = (self.next_cpu, self.smt);
        let cpus = |core: u32| (0..smt).map(move |cpu| first + core * smt + cpu).collect();
        self.domain_of(cache_bytes, (0..cores).map(cpus).collect::<Vec<_>>())
    }

    /// Adds a domain whose cores have exactly these cpus.
    pub fn domain_of(
        mut self,
        cache_bytes: u64,
        cores: impl IntoIterator<Item = Vec<u32>>,
    ) -> Self {
        let capacity = self.capacity;
        let core = |cpus| Core { cpus, capacity };
        let mut cores: Vec<Core> = cores.into_iter().map(core).collect();
        for core in &mut cores {
            core.cpus.sort_unstable();
        }
        cores.sort_by(|a, b| a.cpus.cmp(&b.cpus));
        let highest = cores.iter().filter_map(|core| core.cpus.last()).max();
        self.next_cpu = self
            .next_cpu
            .max(highest.map_or(0, |cpu| cpu.saturating_add(1)));
        let (node, package) = (self.node, self.package);
        self.domains.push(Domain {
            id: DomainId(self.domains.len() as u32),
            cache_bytes,
            node,
            package,
            cores,
        });
        let die = (self.die > 0).then_some(self.die);
        self.places.push(CoreLocation { die, node, package });
        self
    }

    /// The level of the domains; L3 by default.
    #[doc(hidden)]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Caps the workers as a cgroup quota of so many milli-CPUs does: 2500 are 2.5 CPUs.
    pub fn quota(mut self, milli_cpus: u32) -> Self {
        self.quota = Some(Quota {
            quota_us: u64::from(milli_cpus) * 100,
            period_us: 100_000,
        });
        self
    }

    /// The machine.
    ///
    /// # Errors
    /// [`TopologyError::MadeUp`] if there is no domain, a domain has no core, a core has no cpu, or a
    /// cpu number is used twice or is beyond the largest that is believed (65535).
    pub fn build(self) -> Result<Topology, TopologyError> {
        let wrong = |problem: String| Err(TopologyError::MadeUp(problem));
        if self.domains.is_empty() {
            return wrong("it has no domain; add one with .domain(cache_bytes, cores)".to_owned());
        }
        let mut seen = CpuSet::new();
        for domain in &self.domains {
            if domain.cores.is_empty() || domain.cores.iter().any(|core| core.cpus.is_empty()) {
                return wrong(format!(
                    "domain {} has no core, or a core without a cpu",
                    domain.id
                ));
            }
            for cpu in domain.cpus() {
                if cpu > MAX_CPU {
                    return wrong(format!("cpu {cpu} is beyond {MAX_CPU}"));
                }
                if !seen.insert(cpu) {
                    return wrong(format!("cpu {cpu} of domain {} was used before", domain.id));
                }
            }
        }
        Ok(Topology::from_parts(Parts {
            domains: self.domains,
            places: self.places,
            level: self.level,
            reason: "the machine is made up".to_owned(),
            source: Source::MadeUp,
            this_machine: false,
            restrictions: self.quota.map(Restriction::Quota).into_iter().collect(),
            warnings: Vec::new(),
        }))
    }
}
