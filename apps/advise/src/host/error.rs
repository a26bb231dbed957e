//! What can go wrong while a machine is read.

use std::path::PathBuf;

use chiplet_topology::TopologyError;

use crate::group::GroupPath;

/// Why a machine or a group cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There are no cpus below the root.
    #[error("{} is no machine: it has no sys/devices/system with cpus in it; name / or a folder that holds sys and proc", root.display())]
    NotAMachine {
        /// The folder that was named.
        root: PathBuf,
    },
    /// Control groups are of version 1.
    #[error(
        "control groups are of version 1; boot with systemd.unified_cgroup_hierarchy=1, or without systemd with cgroup_no_v1=all and cgroup2 mounted at /sys/fs/cgroup"
    )]
    CgroupV1,
    /// Some controllers are bound to version 1.
    #[error(
        "control groups are mixed, version 1 has the controllers {controllers}; boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all"
    )]
    CgroupMixed {
        /// Those that version 1 has.
        controllers: String,
    },
    /// There are no control groups.
    #[error("there are no control groups at /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup")]
    NoCgroups,
    /// The group is not there.
    #[error("there is no control group {group} below /sys/fs/cgroup (systemd-cgls lists them)")]
    NoSuchGroup {
        /// The group.
        group: GroupPath,
    },
    /// The process is not there.
    #[error("there is no process {pid}, or its control group is not to be seen from here")]
    NoSuchProcess {
        /// The process.
        pid: u32,
    },
    /// The kernel does not tell how busy the cpus of a node were.
    #[error(
        "it is not known how busy the cpus of node {node} were: /proc/stat has no line of them at both ends of the \
         window, no tick passed in it, or a cpu went offline or online; watch again, for longer"
    )]
    BusyUnknown {
        /// The node.
        node: u32,
    },
    /// A file holds what no kernel writes.
    #[error(transparent)]
    Unreadable(#[from] TopologyError),
}
