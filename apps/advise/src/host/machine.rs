//! A machine whose control groups can be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chiplet_topology::Tree;

use super::error::HostError;
use super::groups;
use super::nodes::{self, Busy, L3, Node};
use crate::group::GroupPath;

/// Who made the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD, or Hygon with AMD's cores.
    Amd,
    /// Any other, or not told.
    Other,
}

/// A machine whose control groups can be read.
#[derive(Debug)]
pub struct Host {
    pub(super) tree: Tree,
    vendor: Vendor,
    is_virtual: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) l3s: BTreeMap<u32, L3>,
}

impl Host {
    /// Opens the machine below `root`: `/`, or a folder with another machine's `sys` and `proc`. Nodes are read now,
    /// and groups when they are asked for.
    ///
    /// # Errors
    /// [`HostError::NotAMachine`] if there are no cpus; [`HostError::CgroupV1`], [`HostError::CgroupMixed`] and
    /// [`HostError::NoCgroups`] if there is no cgroup v2 alone at `sys/fs/cgroup`; [`HostError::Unreadable`] if a cpu
    /// list is damaged.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, HostError> {
        let tree = Tree::new(root.as_ref());
        let nodes = nodes::read(&tree)?;
        groups::is_version_2(&tree)?;
        let info = tree.cpuinfo();
        let vendor = match info.value("vendor_id") {
            Some("GenuineIntel") => Vendor::Intel,
            Some("AuthenticAMD" | "HygonGenuine") => Vendor::Amd,
            _ => Vendor::Other,
        };
        let flags = info.value("flags").unwrap_or_default();
        let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
        let l3s = nodes::l3s(&tree, &nodes);
        Ok(Self {
            tree,
            vendor,
            is_virtual,
            nodes,
            l3s,
        })
    }

    /// The NUMA nodes, ascending. A machine that tells of none is one.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Who made the processor.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Whether the machine tells that it is a virtual one.
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// All control groups, each after the one that holds it; of more than 16,384 the first.
    pub fn groups(&self) -> Vec<GroupPath> {
        groups::all_below(&self.tree, &GroupPath::root())
    }

    /// The group of a process.
    ///
    /// # Errors
    /// [`HostError::NoSuchProcess`] if there is none of this id, or its group cannot be seen from here.
    pub fn group_of(&self, pid: u32) -> Result<GroupPath, HostError> {
        groups::of_process(&self.tree, pid)
    }

    /// The folder of a group, whether or not it is there.
    pub fn folder(&self, group: &GroupPath) -> PathBuf {
        self.tree.path(&groups::file(group, ""))
    }

    /// The nodes as they are now: what is left of their memory changes, and cpus go offline.
    ///
    /// # Errors
    /// As [`Host::open`].
    pub fn nodes_now(&self) -> Result<Vec<Node>, HostError> {
        nodes::read(&self.tree)
    }

    /// Bytes of last-level cache by node; without nodes whose caches do not tell.
    pub fn cache_bytes(&self) -> BTreeMap<u32, u64> {
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for l3 in self.l3s.values().filter(|l3| l3.bytes > 0) {
            *bytes.entry(l3.node).or_default() += l3.bytes;
        }
        bytes
    }

    /// How busy the cpus of each node have been since the machine began; empty if it does not tell.
    pub(crate) fn busy(&self, nodes: &[Node]) -> BTreeMap<u32, Busy> {
        nodes::busy(&self.tree, nodes)
    }
}
