//! What the system says now of NUMA memory: how much each node has and how much of it is free, how much more a process
//! may take, and whether the kernel moves pages by itself.
//!
//! It is read from `/sys/devices/system/node/nodeN/meminfo`, or from `/proc/meminfo` where the kernel knows no nodes,
//! from `/proc/sys/vm/min_free_kbytes`, `/proc/sys/kernel/numa_balancing` and the files of control groups. A file that
//! is not there, or holds what no kernel writes, is a thing not known.

use crate::cpuset::CpuSet;
use crate::sysfs::{Tree, cgroup};
use std::collections::BTreeSet;
use std::path::Path;

/// Of each node 1/64 is left to the kernel, beside what it is told to keep (`vm.min_free_kbytes`). It begins to take
/// pages from processes when less than some thousandths are free (`vm.watermark_scale_factor`).
const KEPT: u64 = 64;

/// How many more bytes this process may take now on these NUMA nodes, together; on all of them if none is named, as
/// with memory that is placed nowhere. `None` if the system does not tell of one of them, as on all systems but Linux.
///
/// What counts of a node: its free pages, and its file cache that no process has mapped, which the kernel drops when
/// memory is needed; less 1/64 of the node and what `vm.min_free_kbytes` keeps. A node outside the cpuset
/// (`cpuset.mems`) counts as full. It is never more than the process's control group and those above it leave, their
/// file cache counted alike. Slabs that the kernel could shrink do not count, nor does swap.
///
/// Others may take the same memory a moment later. A look reads a handful of small files, and one for each node.
///
/// ```
/// match chiplet_topology::room_on(&[0]) {
///     Some(bytes) => println!("room for {} MiB on node 0", bytes >> 20),
///     None => println!("not known"),
/// }
/// ```
pub fn room_on(nodes: &[u32]) -> Option<u64> {
    NumaMemory::read("/").room_on(nodes)
}

/// Whether the kernel's automatic NUMA balancing (AutoNUMA) is on; `None` where the kernel does not have it, or the
/// system is not Linux.
///
/// When it is on, the kernel unmaps pages, some at a time, to see from which node they are used next, and moves those
/// that another node uses. Each page that was unmapped costs a fault. Memory with a policy of its own
/// (`MemoryPolicy::on`) and mapped files that are only read are left out of both.
///
/// ```
/// if chiplet_topology::numa_balancing() == Some(true) {
///     println!("the kernel samples accesses to memory that was not placed");
/// }
/// ```
pub fn numa_balancing() -> Option<bool> {
    balancing(&Tree::new(Path::new("/")))
}

/// The memory of a NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeMemory {
    /// As the operating system numbers it.
    pub node: u32,
    /// All of it, in bytes; 0 for a node of cpus alone.
    pub total_bytes: u64,
    /// What can be taken now, in bytes; see [`room_on`].
    pub free_bytes: u64,
}

/// What one look at the files below a root has found: for a command that shows it, and for saved machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaMemory {
    nodes: Vec<NodeMemory>,
    /// The nodes of the cpuset, if there is one.
    allowed: Option<CpuSet>,
    /// What the control groups leave, if they limit memory.
    left: Option<u64>,
    balancing: Option<bool>,
}

impl NumaMemory {
    /// Reads the files below `root`: `/`, or a folder that holds another machine's `sys` and `proc`.
    pub fn read(root: impl AsRef<Path>) -> Self {
        let tree = Tree::new(root.as_ref());
        Self {
            nodes: nodes(&tree),
            allowed: cgroup::nodes(&tree).ok().flatten(),
            left: cgroup::memory(&tree).into_iter().map(left).min(),
            balancing: balancing(&tree),
        }
    }

    /// The nodes that tell of their memory, ascending by their number.
    pub fn nodes(&self) -> &[NodeMemory] {
        &self.nodes
    }

    /// See [`numa_balancing`].
    pub fn balancing(&self) -> Option<bool> {
        self.balancing
    }

    /// See [`room_on`].
    pub fn room_on(&self, nodes: &[u32]) -> Option<u64> {
        let asked: BTreeSet<u32> = match nodes {
            [] => self.nodes.iter().map(|node| node.node).collect(),
            _ => nodes.iter().copied().collect(),
        };
        if asked.is_empty() {
            return None;
        }
        let mut room = 0_u64;
        for number in asked {
            let known = self.nodes.iter().find(|node| node.node == number)?;
            let allowed = self.allowed.as_ref();
            if allowed.is_none_or(|allowed| allowed.contains(&number)) {
                room = room.saturating_add(known.free_bytes);
            }
        }
        Some(room.min(self.left.unwrap_or(u64::MAX)))
    }
}

fn balancing(tree: &Tree) -> Option<bool> {
    // 1 is the usual mode, 2 moves pages between fast and slow memory.
    Some(tree.number("proc/sys/kernel/numa_balancing")? != 0)
}

/// The file cache that the kernel can drop. What a process has mapped is in use: it may be a table.
fn droppable(cached: u64, mapped: u64) -> u64 {
    cached.saturating_sub(mapped)
}

/// What a control group leaves.
fn left(group: cgroup::Memory) -> u64 {
    let held = group
        .used
        .saturating_sub(droppable(group.cached, group.mapped));
    group.limit.saturating_sub(held)
}

fn nodes(tree: &Tree) -> Vec<NodeMemory> {
    const FOLDER: &str = "sys/devices/system/node";
    // Of the whole machine, so that it is too much for each of several nodes.
    let kept = tree.number("proc/sys/vm/min_free_kbytes").unwrap_or(0);
    let kept = kept.saturating_mul(1024);
    let read = |node: u32, file: &str| node_memory(node, &tree.text(file)?, kept);
    let numbers = tree.numbered(FOLDER, "node");
    if numbers.is_empty() {
        return read(0, "proc/meminfo").into_iter().collect();
    }
    let each = numbers.into_iter();
    each.filter_map(|node| read(node, &format!("{FOLDER}/node{node}/meminfo")))
        .collect()
}

/// What a file of a node, or of the whole machine, says.
fn node_memory(node: u32, text: &str, kept: u64) -> Option<NodeMemory> {
    let total_bytes = figure(text, "MemTotal")?;
    let or_none = |name: &str| figure(text, name).unwrap_or(0);
    let cached = or_none("Active(file)").saturating_add(or_none("Inactive(file)"));
    let free = figure(text, "MemFree")?
        .saturating_add(droppable(cached, or_none("Mapped")))
        .saturating_sub(total_bytes / KEPT)
        .saturating_sub(kept);
    Some(NodeMemory {
        node,
        total_bytes,
        free_bytes: free.min(total_bytes),
    })
}

/// A figure in bytes, from a line such as `Node 0 MemFree:  20621856 kB`, or without the node in `/proc/meminfo`.
fn figure(text: &str, name: &str) -> Option<u64> {
    let of = |line: &str| {
        let (key, value) = line.split_once(':')?;
        if key.split_whitespace().next_back() != Some(name) {
            return None;
        }
        let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    text.lines().find_map(of)
}
