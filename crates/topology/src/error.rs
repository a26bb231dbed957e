//! What can go wrong while a machine is read, said so that the reader knows what to do next.

use std::path::PathBuf;

use crate::cpuset::CpuSetError;
use crate::level::Level;
use crate::limits::Restriction;

/// Why no [`Topology`](crate::Topology) could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file or folder of the machine's description cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
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

/// Why given domains do not fit the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainsError {
    /// Not a list of cpus.
    #[error(
        "\"{part}\" is no domain: {problem} (two domains look like 0-7,8-15, with several ranges like 0-3+8-11,4-7+12-15)"
    )]
    Syntax {
        /// The domain that cannot be read.
        part: String,
        /// What is wrong in it.
        problem: CpuSetError,
    },
    /// A domain without a cpu, or no domain at all.
    #[error("domain {0} has no cpu; give each domain at least one")]
    Empty(usize),
    /// A cpu in two domains.
    #[error("cpu {cpu} is in domain {first} and in domain {second}; give it to one of them")]
    Overlap {
        /// The cpu.
        cpu: u32,
        /// The domain that named it first, counted from 0.
        first: usize,
        /// The domain that named it again.
        second: usize,
    },
    /// Cpus that the machine does not have.
    #[error("there is no cpu {0} on this machine; chiplet topology shows which there are")]
    Missing(String),
    /// Cpus that the machine has and this process may not use.
    #[error(
        "cpus {cpus} may not be used ({reason}); leave them out, or widen what this process may use"
    )]
    NotUsable {
        /// The cpus, as ranges.
        cpus: String,
        /// What took them away.
        reason: Restriction,
    },
    /// Cpus of one core in two domains.
    #[error(
        "cpus {cpu} and {sibling} are one core, and in domains {first} and {second}; put all cpus of a core into one \
         domain, as in 0-3+8-11"
    )]
    SplitCore {
        /// A cpu of the core.
        cpu: u32,
        /// Another one.
        sibling: u32,
        /// The domain of `cpu`, counted from 0.
        first: usize,
        /// The domain of `sibling`.
        second: usize,
    },
}
