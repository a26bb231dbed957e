//! What a machine is to the rest of the library: domains of cores that share a last-level cache.

/// Index of a domain in its [`Topology`], counted from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u32);

/// A physical core: its logical processors as the operating system numbers them, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Logical processors (SMT siblings) of this core that may be used.
    pub cpus: Vec<u32>,
}

/// Cores that share one last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Position in [`Topology::domains`].
    pub id: DomainId,
    /// Size of the shared cache in bytes; 0 if the system does not tell.
    pub cache_bytes: u64,
    /// NUMA node, as the operating system numbers it.
    pub node: u32,
    /// Package (socket), as the operating system numbers it.
    pub package: u32,
    /// Usable cores.
    pub cores: Vec<Core>,
}

/// The cache level whose sharing defines a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Level-3 cache.
    L3,
    /// Level-2 cache.
    L2,
}

/// The machine, immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    domains: Vec<Domain>,
}

impl Topology {
    /// A made-up machine of `domains` equal domains with `cores` single-threaded cores each.
    pub fn uniform(domains: u32, cores: u32, cache_bytes: u64) -> Self {
        let domains = (0..domains)
            .map(|d| Domain {
                id: DomainId(d),
                cache_bytes,
                node: 0,
                package: 0,
                cores: (0..cores).map(|c| Core { cpus: vec![d * cores + c] }).collect(),
            })
            .collect();
        Self { domains }
    }

    /// The domains, in order of their ids.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }
}
