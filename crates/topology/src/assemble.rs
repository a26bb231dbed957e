//! From a whole machine and its limits to a [`Topology`]: choose the level, group the cores, take away
//! what may not be used.
//!
//! Order of domains: by package, then NUMA node, then the part's own first cpu, each in the order of
//! their lowest cpu in the whole machine. That is the order in which lstopo draws them.

use crate::cpuset::{CpuSet, cpu_ranges};
use crate::decide::{self, Part};
use crate::distance::CoreLocation;
use crate::error::TopologyError;
use crate::guest;
use crate::level::LevelChoice;
use crate::limits::{Limits, Restriction};
use crate::machine::{Machine, MachineCore};
use crate::model::{Core, Domain, DomainId, Parts, Source, Topology};
use crate::options::ReadOptions;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Makes the topology of the usable part of `machine`.
pub(crate) fn assemble(
    machine: &Machine,
    limits: Limits,
    options: ReadOptions,
    source: Source,
    this_machine: bool,
) -> Result<Topology, TopologyError> {
    if machine.cores.is_empty() {
        return Err(TopologyError::Empty {
            what: source.to_string(),
        });
    }
    let is_virtual = options.virtual_machine.unwrap_or(machine.is_virtual);
    let warning = (is_virtual && options.level == LevelChoice::Auto)
        .then(|| guest::doubt(machine))
        .flatten();
    let mut machine = Cow::Borrowed(machine);
    if let Some(warning) = &warning {
        tracing::warn!("{warning}");
        for core in &mut machine.to_mut().cores {
            core.l3 = None;
        }
    }
    let machine = &*machine;
    let (level, mut reason) = decide::decide(machine, options.level, warning.is_some())?;
    if warning.is_some() {
        reason = format!("the L3s of this virtual machine are not believed; {reason}");
    }

    let mut restrictions = Vec::new();
    let mut left: CpuSet = machine.cpus().collect();
    let all = left.clone();
    restrictions.extend(listed(limits.offline, Restriction::Offline));
    for (allowed, kind) in [
        (
            limits.cpuset,
            Restriction::Cpuset as fn(Vec<u32>) -> Restriction,
        ),
        (limits.affinity, Restriction::Affinity),
    ] {
        let Some(allowed) = allowed else { continue };
        let taken: CpuSet = left.difference(&allowed).copied().collect();
        left.retain(|cpu| allowed.contains(cpu));
        if left.is_empty() {
            return Err(TopologyError::NothingLeft {
                machine: cpu_ranges(&all),
                left: cpu_ranges(&allowed),
            });
        }
        restrictions.extend(listed(taken, kind));
    }
    restrictions.extend(limits.quota.map(Restriction::Quota));

    let first_cpus = FirstCpus::of(machine);
    let mut groups = BTreeMap::<Part, Vec<&MachineCore>>::new();
    for core in &machine.cores {
        groups
            .entry(decide::part_of(core, level).0)
            .or_default()
            .push(core);
    }
    let mut groups: Vec<Vec<&MachineCore>> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_by_key(|core| core.cpus[0]);
    }
    groups.sort_by_key(|group| first_cpus.of_group(group));

    let mut domains = Vec::new();
    let mut places = Vec::new();
    for group in groups {
        let mut cores: Vec<Core> = (group.iter())
            .map(|core| {
                let cpus = core.cpus.iter().copied();
                Core {
                    cpus: cpus.filter(|cpu| left.contains(cpu)).collect(),
                    capacity: core.capacity,
                }
            })
            .filter(|core| !core.cpus.is_empty())
            .collect();
        if cores.is_empty() {
            continue;
        }
        // Again, for a core that lost its first cpu may have fallen behind.
        cores.sort_by_key(|core| core.cpus[0]);
        let MachineCore {
            die, node, package, ..
        } = *group[0];
        let (_, cache_bytes) = decide::part_of(group[0], level);
        domains.push(Domain {
            id: DomainId(domains.len() as u32),
            cache_bytes,
            node,
            package,
            cores,
        });
        places.push(CoreLocation { die, node, package });
    }
    Ok(Topology::from_parts(Parts {
        domains,
        places,
        level,
        reason,
        source,
        this_machine,
        restrictions,
        warnings: warning.into_iter().collect(),
    }))
}

fn listed(cpus: CpuSet, kind: impl Fn(Vec<u32>) -> Restriction) -> Option<Restriction> {
    (!cpus.is_empty()).then(|| kind(cpus.into_iter().collect()))
}

/// The lowest cpu of each package and node.
struct FirstCpus {
    package: BTreeMap<u32, u32>,
    node: BTreeMap<(u32, u32), u32>,
}

impl FirstCpus {
    fn of(machine: &Machine) -> Self {
        let mut firsts = Self {
            package: BTreeMap::new(),
            node: BTreeMap::new(),
        };
        for core in &machine.cores {
            let cpu = core.cpus[0];
            let package = firsts.package.entry(core.package).or_insert(cpu);
            *package = cpu.min(*package);
            let node = firsts.node.entry((core.package, core.node)).or_insert(cpu);
            *node = cpu.min(*node);
        }
        firsts
    }

    fn of_group(&self, group: &[&MachineCore]) -> (u32, u32, u32) {
        let MachineCore { package, node, .. } = *group[0];
        (
            self.package[&package],
            self.node[&(package, node)],
            group[0].cpus[0],
        )
    }
}

impl Topology {
    /// The same machine with each logical processor as a core. An executor then has a worker for each of them, not for
    /// each physical core. Use it to measure what SMT gives; siblings share a core's first caches.
    ///
    /// ```
    /// use chiplet_topology::Topology;
    /// let machine = Topology::builder().smt(2).domain(32 << 20, 8).build()?;
    /// assert_eq!(machine.worker_limit(), 8);
    /// let threads = machine.cpus_as_cores();
    /// assert_eq!((threads.worker_limit(), threads.cpu_count()), (16, 16));
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn cpus_as_cores(&self) -> Self {
        let mut parts = self.parts().clone();
        for domain in &mut parts.domains {
            let cores = domain.cores.iter();
            let mut alone: Vec<Core> = cores
                .flat_map(|core| {
                    core.cpus.iter().map(|&cpu| Core {
                        cpus: vec![cpu],
                        capacity: core.capacity,
                    })
                })
                .collect();
            // Siblings are often numbered far from each other.
            alone.sort_by_key(|core| core.cpus[0]);
            domain.cores = alone;
        }
        Self::from_parts(parts)
    }

    /// The same machine with nothing but these cpus, for tests and for sharing a machine between
    /// executors. Domains without any of them vanish, and ids are counted anew.
    ///
    /// ```
    /// use chiplet_topology::Topology;
    /// let machine = Topology::uniform(3, 4, 32 << 20).restricted_to(&[0, 1, 8])?;
    /// assert_eq!(machine.domains().len(), 2);
    /// assert_eq!(machine.domains()[1].cpus(), [8]);
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::NothingLeft`] if no usable cpu is among them.
    pub fn restricted_to(&self, cpus: &[u32]) -> Result<Self, TopologyError> {
        let mut parts = self.parts().clone();
        let allowed: CpuSet = cpus.iter().copied().collect();
        let all: CpuSet = parts.domains.iter().flat_map(Domain::cpus).collect();
        let taken: CpuSet = all.difference(&allowed).copied().collect();
        if taken.len() == all.len() {
            return Err(TopologyError::NothingLeft {
                machine: cpu_ranges(&all),
                left: cpu_ranges(&allowed),
            });
        }
        for core in parts
            .domains
            .iter_mut()
            .flat_map(|domain| &mut domain.cores)
        {
            core.cpus.retain(|cpu| allowed.contains(cpu));
        }
        for domain in &mut parts.domains {
            domain.cores.retain(|core| !core.cpus.is_empty());
            // A core that lost its first cpu may have fallen behind.
            domain.cores.sort_by_key(|core| core.cpus[0]);
        }
        let kept: Vec<bool> = parts
            .domains
            .iter()
            .map(|domain| !domain.cores.is_empty())
            .collect();
        let mut keep = kept.iter();
        parts.domains.retain(|_| keep.next() == Some(&true));
        let mut keep = kept.iter();
        parts.places.retain(|_| keep.next() == Some(&true));
        for (id, domain) in parts.domains.iter_mut().enumerate() {
            domain.id = DomainId(id as u32);
        }
        parts
            .restrictions
            .extend(listed(taken, Restriction::Caller));
        Ok(Self::from_parts(parts))
    }
}
