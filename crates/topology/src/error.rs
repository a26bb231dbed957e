//! What can go wrong while a machine is read, said so that the reader knows what to do next.

use std::path::PathBuf;

use crate::cpuset::CpuSetError;
use crate::level::Level;

/// Why no [`Topology`](crate::Topology) could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A folder is not the root of a saved machine.
    #[error(
        "{} is not the root of a saved machine: it has no sys/devices/system/cpu with cpus in it \
         (hwloc-gather-topology makes a .tar.bz2 of such a tree; unpack it and name the folder that holds sys and proc)",
        root.display()
    )]
    NotATree {
        /// The folder that was named.
        root: PathBuf,
    },
    /// A file holds what no kernel writes.
    #[error("{}: {problem}", path.display())]
    Garbage {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        problem: CpuSetError,
    },
    /// hwloc cannot read the machine.
    #[error("hwloc cannot read this machine: {0}")]
    Hwloc(String),
    /// The description has no cpu at all.
    #[error("{what} describes a machine without any cpu")]
    Empty {
        /// What was read.
        what: String,
    },
    /// There are cpus, but none may be used.
    #[error(
        "none of the machine's cpus {machine} may be used: {left} is all that is allowed; widen the cpuset or the affinity mask"
    )]
    NothingLeft {
        /// The machine's cpus, as ranges.
        machine: String,
        /// The allowed cpus, as ranges.
        left: String,
    },
    /// The level that was asked for does not exist on this machine.
    #[error(
        "the system tells of no {asked} cache on this machine (there are: {present}); choose auto"
    )]
    NoSuchLevel {
        /// The level that was asked for.
        asked: Level,
        /// The cache levels that there are, in words.
        present: String,
    },
    /// Not `auto`, `l3` or `l2`.
    #[error("there is no level \"{0}\": say auto, l3 or l2")]
    UnknownLevel(String),
    /// Domains that the caller gave do not fit the machine.
    #[error(transparent)]
    Domains(#[from] DomainsError),
    /// The builder was given a cpu twice, or a domain without cores.
    #[error("cannot make up this machine: {0}")]
    MadeUp(String),
}

/// Why given domains are none, or do not fit the machine, in words that say what to give instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DomainsError(pub(crate) String);
