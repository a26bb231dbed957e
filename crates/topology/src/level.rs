//! What makes a domain: which level of cache, or what else where no cache is shared.

use std::fmt;

/// What makes a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Level-3 cache.
    L3,
    /// Level-2 cache.
    L2,
    /// No cache is known to be shared: the cores of a NUMA node.
    Node,
    /// No cache is known to be shared: the cores of a package.
    Package,
    /// No cache is known to be shared: all cores.
    Machine,
    /// The caller gave the domains ([`Topology::with_domains`](crate::Topology::with_domains)).
    Given,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::L3 => "L3",
            Self::L2 => "L2",
            Self::Node => "Node",
            Self::Package => "Package",
            Self::Machine => "Machine",
            Self::Given => "Given",
        })
    }
}

/// Which level a user wants for the domains.
///
/// ```
/// use chiplet_topology::LevelChoice;
/// assert_eq!("l2".parse::<LevelChoice>()?, LevelChoice::L2);
/// assert_eq!(LevelChoice::Auto.to_string(), "auto");
/// # Ok::<(), chiplet_topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LevelChoice {
    /// The outermost level that splits the machine usefully; what almost everyone wants.
    #[default]
    Auto,
    /// Level-3 caches, even if there is only one.
    L3,
    /// Level-2 caches, even if each core has its own.
    L2,
}

impl fmt::Display for LevelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::L3 => "l3",
            Self::L2 => "l2",
        })
    }
}
