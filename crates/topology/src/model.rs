//! What a machine is to the rest of the library: domains of cores that share a last-level cache.
//!
//! Invariants of a [`Topology`], kept by every way to make one: ids count from 0 without gaps; no
//! domain and no core is empty; a cpu is in exactly one core of one domain; cpus and cores ascend.

use crate::distance::{CoreLocation, Distance};
use crate::guest::Warning;
use crate::level::Level;
use crate::limits::{Quota, Restriction};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Index of a domain in its [`Topology`], counted from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u32);

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A physical core: its logical processors as the operating system numbers them, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Logical processors (SMT siblings) of this core that may be used; never empty.
    pub cpus: Vec<u32>,
    /// Its speed in 1/1024 of the machine's fastest core: 1024 where all are alike.
    pub capacity: u32,
}

impl Core {
    /// The capacity of the fastest core, as Linux counts it.
    #[doc(hidden)]
    pub const FULL: u32 = 1024;
}

/// Cores that share one last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Domain {
    /// Position in [`Topology::domains`].
    pub id: DomainId,
    /// Size of the shared cache in bytes; 0 if the system does not tell. A domain of which only
    /// some cores may be used keeps the size of the whole cache.
    pub cache_bytes: u64,
    /// NUMA node that is local to the cores, as the operating system numbers it.
    pub node: u32,
    /// Package (socket), as the operating system numbers it; 0 if it does not tell.
    pub package: u32,
    /// Usable cores, ascending by their first cpu; never empty.
    pub cores: Vec<Core>,
}

impl Domain {
    /// The mean speed of its cores; 1.0 is the machine's fastest kind of core.
    ///
    /// ```
    /// use chiplet_topology::Topology;
    /// // Eight fast cores, and a cluster of four that do 0.6 times as much.
    /// let hybrid = Topology::builder().domain(24 << 20, 8).capacity(0.6).domain(4 << 20, 4).build()?;
    /// assert_eq!(hybrid.domains()[0].speed(), 1.0);
    /// assert!((hybrid.domains()[1].speed() - 0.6).abs() < 0.001);
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    pub fn speed(&self) -> f64 {
        let all: u64 = self.cores.iter().map(|core| u64::from(core.capacity)).sum();
        all as f64 / f64::from(Core::FULL) / self.cores.len() as f64
    }

    /// All usable cpus of the domain, ascending: the mask that a worker floats in.
    ///
    /// ```
    /// let machine = chiplet_topology::Topology::uniform(2, 4, 32 << 20);
    /// assert_eq!(machine.domains()[1].cpus(), [4, 5, 6, 7]);
    /// ```
    pub fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self
            .cores
            .iter()
            .flat_map(|c| c.cpus.iter().copied())
            .collect();
        cpus.sort_unstable();
        cpus
    }
}

/// Where a [`Topology`] was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The running machine, read by hwloc.
    Hwloc,
    /// A file or description that hwloc has read, in words.
    Described(String),
    /// A `/sys` and `/proc` tree below this root, read by this crate. `/` is the running machine.
    Sysfs(PathBuf),
    /// The running machine, of which nothing but the number of cpus is known.
    CpuCount,
    /// Made up by [`Topology::builder`] or [`Topology::uniform`].
    MadeUp,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hwloc => f.write_str("this machine, by hwloc"),
            Self::Described(name) => f.write_str(name),
            Self::Sysfs(root) if root.as_os_str() == "/" => f.write_str("this machine, by /sys"),
            Self::Sysfs(root) => write!(f, "saved /sys and /proc in {}", root.display()),
            Self::CpuCount => f.write_str("this machine, by its number of cpus"),
            Self::MadeUp => f.write_str("made up"),
        }
    }
}

/// The machine, immutable; a clone is one reference count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    inner: Arc<Parts>,
}

/// Everything a [`Topology`] knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) domains: Vec<Domain>,
    pub(crate) places: Vec<CoreLocation>,
    pub(crate) level: Level,
    pub(crate) reason: String,
    pub(crate) source: Source,
    pub(crate) this_machine: bool,
    pub(crate) restrictions: Vec<Restriction>,
    pub(crate) warnings: Vec<Warning>,
}

impl Topology {
    /// A made-up machine of `domains` equal domains with `cores` single-threaded cores each, all on
    /// one NUMA node; `cache_bytes` is the size of each domain's cache.
    ///
    /// For unequal domains, SMT, several nodes or sparse cpu numbers see [`Topology::builder`].
    ///
    /// # Panics
    /// If `domains` or `cores` is 0.
    pub fn uniform(domains: u32, cores: u32, cache_bytes: u64) -> Self {
        assert!(
            domains > 0 && cores > 0,
            "a machine needs at least one domain with one core"
        );
        let mut builder = Self::builder();
        for _ in 0..domains {
            builder = builder.domain(cache_bytes, cores);
        }
        builder
            .build()
            .expect("consecutive cpu numbers are unique and no domain is empty")
    }

    /// Holds the invariants of the module docs; `domains` and `places` run in parallel.
    pub(crate) fn from_parts(parts: Parts) -> Self {
        debug_assert_eq!(parts.domains.len(), parts.places.len());
        Self {
            inner: Arc::new(parts),
        }
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.inner
    }

    /// The domains, in order of their ids.
    pub fn domains(&self) -> &[Domain] {
        &self.inner.domains
    }

    /// What makes a domain on this machine: a cache level, or a fallback if no cache is shared.
    #[doc(hidden)]
    pub fn level(&self) -> Level {
        self.inner.level
    }

    /// Why that level was chosen, in words for a person.
    #[doc(hidden)]
    pub fn reason(&self) -> &str {
        &self.inner.reason
    }

    /// Where this was read from.
    #[doc(hidden)]
    pub fn source(&self) -> &Source {
        &self.inner.source
    }

    /// Whether this describes the running machine, so that its cpu numbers can be pinned to.
    #[doc(hidden)]
    pub fn is_this_machine(&self) -> bool {
        self.inner.this_machine
    }

    /// What was taken away from the whole machine: offline cpus, cpuset, affinity mask, CPU quota.
    #[doc(hidden)]
    pub fn restrictions(&self) -> &[Restriction] {
        &self.inner.restrictions
    }

    /// What the machine reports and chiplet did not believe. Each is also logged as a warning when the machine is read.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// How many workers make sense: one for each usable physical core, but no more than the whole
    /// CPUs of the quota (2.5 CPUs make 2: a third worker would be throttled half of the time), and
    /// at least one. A quota says nothing of where they run; an executor packs them into the fewest domains.
    pub fn worker_limit(&self) -> usize {
        let cores = self.core_count();
        let quota = self
            .restrictions()
            .iter()
            .filter_map(Restriction::quota)
            .map(Quota::whole_cpus)
            .min();
        cores.min(quota.unwrap_or(usize::MAX))
    }

    /// Usable physical cores.
    pub fn core_count(&self) -> usize {
        self.domains().iter().map(|d| d.cores.len()).sum()
    }

    /// Usable logical processors.
    pub fn cpu_count(&self) -> usize {
        self.domains()
            .iter()
            .flat_map(|d| &d.cores)
            .map(|c| c.cpus.len())
            .sum()
    }

    /// How far apart two domains are.
    ///
    /// # Panics
    /// If an id is not one of this topology's.
    #[doc(hidden)]
    pub fn distance(&self, a: DomainId, b: DomainId) -> Distance {
        let places = &self.inner.places;
        if a == b {
            Distance::Same
        } else {
            places[a.0 as usize].distance(&places[b.0 as usize])
        }
    }

    /// All other domains, nearest first, those equally far by id.
    ///
    /// ```
    /// use chiplet_topology::{DomainId, Topology};
    /// let machine = Topology::uniform(3, 8, 32 << 20);
    /// let order: Vec<_> = machine.nearest(DomainId(1)).collect();
    /// assert_eq!(order, [DomainId(0), DomainId(2)]);
    /// ```
    ///
    /// # Panics
    /// If the id is not one of this topology's.
    #[doc(hidden)]
    pub fn nearest(&self, a: DomainId) -> impl Iterator<Item = DomainId> + '_ {
        crate::distance::nearest(&self.inner.places, a.0 as usize)
            .map(|other| DomainId(other as u32))
    }
}
