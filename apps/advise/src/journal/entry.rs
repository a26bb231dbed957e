//! The entries of the journal, as they are written: one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::features::Features;
use crate::group::GroupPath;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts lines up, from 1.
    pub number: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// What happened, or is about to.
    pub event: Event,
}

/// What happened, or is about to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A change that is about to be made. Its number is that of this entry.
    Change(Planned),
    /// The change of this number was made.
    Done {
        /// The change.
        change: u64,
    },
    /// The system refused the change of this number, and what had been written of it was taken back.
    Failed {
        /// The change.
        change: u64,
        /// What the system said.
        why: String,
    },
    /// What the change of this number gained.
    Measured {
        /// The change.
        change: u64,
        /// The share by which what was measured became better; negative if it became worse.
        gain: f64,
    },
    /// The changes of these numbers, all of one group, are undone.
    RolledBack {
        /// The changes.
        changes: Vec<u64>,
        /// How.
        outcome: Outcome,
    },
}

/// A change, and what it takes to undo it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The group.
    pub group: GroupPath,
    /// Tells the group from a later one of the same name.
    pub birth: String,
    /// The group at `/sys/fs/cgroup` where the change was made: in a container that is not the machine's root. Empty in
    /// journals that did not note it.
    #[serde(default)]
    pub view: String,
    /// Bound or unbound.
    pub kind: Kind,
    /// The service that the group is an instance of, if it is known.
    pub service: Option<String>,
    /// The files, in the order in which they are written.
    pub writes: Vec<Write>,
    /// The group's features at that time.
    pub features: Option<Features>,
    /// The gain that was predicted.
    pub predicted: Option<f64>,
}

/// What is done to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It is bound to a node.
    Bind {
        /// The node.
        node: u32,
    },
    /// It may run on all nodes again.
    Unbind {
        /// The node that it was bound to.
        node: u32,
    },
}

/// A file of a group, as it was and as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Which.
    pub file: CpusetFile,
    /// All that it held, to the letter.
    pub was: String,
    /// What is written to it.
    pub text: String,
}

/// The files that are ever written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CpusetFile {
    /// `cpuset.cpus`.
    #[serde(rename = "cpuset.cpus")]
    Cpus,
    /// `cpuset.mems`.
    #[serde(rename = "cpuset.mems")]
    Mems,
}

/// How a group's changes were undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its files hold again what they held.
    Restored,
    /// The group is gone, and the changes with it.
    Gone,
    /// A new group has its name. It was left as it is.
    Replaced,
}

impl Kind {
    /// The node that the group comes to, or comes from.
    pub fn node(self) -> u32 {
        match self {
            Self::Bind { node } | Self::Unbind { node } => node,
        }
    }
}

impl CpusetFile {
    /// Its name in a group's folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpuset.cpus",
            Self::Mems => "cpuset.mems",
        }
    }
}
