//! What is refused, and why.

use std::io;
use std::path::PathBuf;

use crate::group::GroupPath;
use crate::host::HostError;
use crate::journal::JournalError;

/// Why a change is not made or not taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The machine's control groups are not of version 2, or the group is not there.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The journal cannot be written, so nothing is changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Changes were taken back as far as they could be, and the journal could not note it.
    #[error(
        "groups were restored, but that could not be noted, so it will be tried again: {source}"
    )]
    NotNoted {
        /// What the journal says.
        source: JournalError,
    },
    /// The group is not one of those that may be changed.
    #[error("{group} is not among the groups that may be changed: {allowed}")]
    NotOurs {
        /// The group.
        group: GroupPath,
        /// Those that may be changed.
        allowed: String,
    },
    /// The root group holds all others and has no cpuset.
    #[error("the root group has no cpuset of its own; name a group below it")]
    RootGroup,
    /// The journal was written where `/sys/fs/cgroup` shows other groups, so the group of this name is another one.
    #[error(
        "{group} was changed in a container, or on the host, where /sys/fs/cgroup shows other groups than here: roll back \
         there"
    )]
    OtherView {
        /// The group, as it is named there.
        group: GroupPath,
    },
    /// The group has no cpuset.
    #[error(
        "{group} has no {file}: enable the controller in the group above it (echo +cpuset > cgroup.subtree_control)"
    )]
    NoCpuset {
        /// The group.
        group: GroupPath,
        /// The file that is not there.
        file: &'static str,
    },
    /// This process may not write the group's files.
    #[error(
        "this process may not write {}: run it as root, or have the group delegated to its user (Delegate=yes in the unit)",
        path.display()
    )]
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// A bind to no cpus.
    #[error("node {node} has no cpus to bind {group} to")]
    NoCpus {
        /// The group.
        group: GroupPath,
        /// The node.
        node: u32,
    },
    /// A file of the group cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused what was written, and what had been written could not be taken back either.
    #[error("{}: {source}; what had been written before is still there, roll back", path.display())]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
