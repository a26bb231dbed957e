//! NUMA nodes: cpus, memory, caches, and what keeps cpus busy.

use std::collections::{BTreeMap, BTreeSet};

use chiplet_topology::{NumaMemory, Tree};

use super::error::HostError;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// As many entries as any kernel lists for a cpu's caches.
const CACHES: u32 = 10;

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As the operating system numbers it.
    pub node: u32,
    /// Its logical processors that are online; none for a node of memory alone.
    pub cpus: BTreeSet<u32>,
    /// Its memory in bytes, if it tells.
    pub memory: Option<u64>,
    /// What can be taken of it now, in bytes: free pages and page cache that nobody mapped.
    pub memory_left: Option<u64>,
}

impl Node {
    /// Its cpus for a group that may use only `own`: those that are in both. All of them if `own` is empty, or lies
    /// elsewhere.
    pub fn cpus_within(&self, own: &BTreeSet<u32>) -> BTreeSet<u32> {
        within(&self.cpus, own)
    }
}

/// As [`Node::cpus_within`].
pub(crate) fn within(cpus: &BTreeSet<u32>, own: &BTreeSet<u32>) -> BTreeSet<u32> {
    let both: BTreeSet<u32> = cpus.intersection(own).copied().collect();
    match both.is_empty() {
        true => cpus.clone(),
        false => both,
    }
}

/// Time of cpus since the machine began, in clock ticks. What counts is the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Not idle, and not stolen by a hypervisor.
    pub(crate) busy: u64,
    /// All of it.
    pub(crate) all: u64,
}

impl Busy {
    /// The share of the time since `earlier` that was not idle; `None` if no time has passed.
    pub(crate) fn since(&self, earlier: &Self) -> Option<f64> {
        let busy = self.busy.checked_sub(earlier.busy)?;
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        Some((busy as f64 / all as f64).min(1.0))
    }
}

pub(super) fn read(tree: &Tree) -> Result<Vec<Node>, HostError> {
    let mut numbers = tree.numbered(NODES, "node");
    numbers.dedup();
    let mut cpus = Vec::new();
    for &node in &numbers {
        let list = tree.list(&format!("{NODES}/node{node}/cpulist"))?;
        cpus.push((node, list.unwrap_or_default()));
    }
    if cpus.is_empty() {
        let online = tree.list(&format!("{CPUS}/online"))?;
        let all = || tree.numbered(CPUS, "cpu").into_iter().collect();
        cpus.push((0, online.unwrap_or_else(all)));
    }
    if cpus.iter().all(|(_, cpus)| cpus.is_empty()) {
        return Err(HostError::NotAMachine {
            root: tree.root().to_owned(),
        });
    }
    let memory = NumaMemory::read(tree.root());
    let of = |node: u32| memory.nodes().iter().find(|of| of.node == node);
    let nodes = cpus.into_iter().map(|(node, cpus)| Node {
        node,
        cpus,
        memory: of(node).map(|of| of.total_bytes),
        memory_left: of(node).map(|of| of.free_bytes),
    });
    Ok(nodes.collect())
}

/// A last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct L3 {
    /// The node of its cpus; the lowest, where a cache spans several.
    pub(super) node: u32,
    /// Its size; 0 if it does not tell.
    pub(super) bytes: u64,
}

/// All L3s, by the number that resctrl's folders carry too.
pub(super) fn l3s(tree: &Tree, nodes: &[Node]) -> BTreeMap<u32, L3> {
    let mut l3s = BTreeMap::new();
    for node in nodes {
        for cpu in &node.cpus {
            let file =
                |entry: u32, name: &str| format!("{CPUS}/cpu{cpu}/cache/index{entry}/{name}");
            let is_l3 = |entry: &u32| tree.number(&file(*entry, "level")) == Some(3);
            let Some(entry) = (0..CACHES).find(is_l3) else {
                continue;
            };
            let id = tree.number(&file(entry, "id"));
            if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
                l3s.entry(id).or_insert_with(|| L3 {
                    node: node.node,
                    bytes: tree.bytes(&file(entry, "size")).unwrap_or(0),
                });
            }
        }
    }
    l3s
}

/// Sums the lines `cpuN user nice system idle iowait irq softirq steal ..` of `/proc/stat` by node (`proc(5)`).
pub(super) fn busy(tree: &Tree, nodes: &[Node]) -> BTreeMap<u32, Busy> {
    const IDLE: [usize; 2] = [3, 4];
    const STEAL: usize = 7;
    // What follows is guests' time, which user and nice hold already.
    const FIGURES: usize = 8;
    let text = tree.text("proc/stat").unwrap_or_default();
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let cpu = words.next().and_then(|word| word.strip_prefix("cpu"));
        let Some(cpu) = cpu.and_then(|cpu| cpu.parse::<u32>().ok()) else {
            continue;
        };
        let Some(node) = nodes.iter().find(|node| node.cpus.contains(&cpu)) else {
            continue;
        };
        let figures: Option<Vec<u64>> = words.take(FIGURES).map(|word| word.parse().ok()).collect();
        let sum: &mut Busy = sums.entry(node.node).or_default();
        for (at, ticks) in figures.unwrap_or_default().into_iter().enumerate() {
            sum.all = sum.all.saturating_add(ticks);
            if !IDLE.contains(&at) && at != STEAL {
                sum.busy = sum.busy.saturating_add(ticks);
            }
        }
    }
    sums
}
