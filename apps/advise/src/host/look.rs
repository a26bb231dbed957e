//! A group at a moment. Two of them make a window.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chiplet_topology::Quota;

use super::error::HostError;
use super::groups::{self, figure, file, ids};
use super::machine::{Host, Vendor};
use super::nodes::{L3, Node};
use super::resctrl::{Counts, Resctrl};
use crate::features::Window;
use crate::group::GroupPath;
use crate::memory::GroupMemory;
use crate::missing::Missing;

/// CPU time of a group and all below it since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuUse {
    /// What it used.
    pub used: Duration,
    /// What its quota held back.
    pub throttled: Duration,
}

/// A group at a moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Look {
    /// The group.
    pub group: GroupPath,
    /// Its CPU time.
    pub cpu: Option<CpuUse>,
    /// The processors that its own `cpu.max` lets it use.
    pub quota: Option<f64>,
    /// The cpus that it may run on now.
    pub cpus: BTreeSet<u32>,
    /// Its own set, whatever those above it leave of that; empty if it has none.
    pub own_cpus: BTreeSet<u32>,
    /// `cpus` by node: how many.
    pub cpus_by_node: BTreeMap<u32, usize>,
    /// The nodes that it may have memory on; empty if that is not told.
    pub memory_nodes: BTreeSet<u32>,
    /// Where its memory lies.
    pub memory: Option<GroupMemory>,
    /// Its processes, those of groups below it included.
    pub processes: BTreeSet<u32>,
    /// Bytes of L3 that it fills, by node, or why that is not known.
    pub cache: Result<BTreeMap<u32, u64>, Missing>,
    counts: Result<BTreeMap<u32, Counts>, Missing>,
    l3s: BTreeMap<u32, L3>,
    vendor: Vendor,
    is_virtual: bool,
}

impl Host {
    /// The group as it is now.
    ///
    /// # Errors
    /// [`HostError::NoSuchGroup`] if it is not there, [`HostError::Unreadable`] if its cpuset is damaged.
    pub fn look(&self, group: &GroupPath) -> Result<Look, HostError> {
        look(self, group, &Resctrl::read(&self.tree), &self.nodes_now()?)
    }

    /// Several groups as they are now, without those that are gone or whose cpuset is damaged; and bytes between each
    /// node's L3s and memory since resctrl began to count, by all tasks, empty if it does not count. Monitoring groups
    /// are read once for all of it.
    pub(crate) fn look_at(
        &self,
        groups: &[GroupPath],
        nodes: &[Node],
    ) -> (Vec<Look>, BTreeMap<u32, u64>) {
        let resctrl = Resctrl::read(&self.tree);
        let looks = groups
            .iter()
            .filter_map(|group| look(self, group, &resctrl, nodes).ok());
        (looks.collect(), resctrl.by_node(&self.l3s))
    }
}

fn look(
    host: &Host,
    group: &GroupPath,
    resctrl: &Resctrl,
    nodes: &[Node],
) -> Result<Look, HostError> {
    let tree = &host.tree;
    if !groups::exists(tree, group) {
        return Err(HostError::NoSuchGroup {
            group: group.clone(),
        });
    }
    let text = |name: &str| tree.text(&file(group, name));
    let (mut processes, mut threads) = (BTreeSet::new(), BTreeSet::new());
    for below in groups::all_below(tree, group) {
        processes.append(&mut ids(tree, &file(&below, "cgroup.procs")));
        threads.append(&mut ids(tree, &file(&below, "cgroup.threads")));
    }
    // Saved trees may lack the second. A process has the number of its first thread.
    threads.extend(&processes);
    let all: BTreeSet<u32> = nodes.iter().flat_map(|node| node.cpus.clone()).collect();
    let mut cpus = effective(host, group, "cpuset.cpus.effective")?.unwrap_or_else(|| all.clone());
    cpus.retain(|cpu| all.contains(cpu));
    let by_node = nodes.iter().map(|node| {
        let count = node.cpus.intersection(&cpus).count();
        (node.node, count)
    });
    let counts = resctrl.of(&threads).cloned();
    let cache = match &counts {
        Ok(counts) => occupancy(counts, &host.l3s),
        Err(why) => Err(*why),
    };
    Ok(Look {
        group: group.clone(),
        cpu: text("cpu.stat").and_then(|text| cpu_use(&text)),
        own_cpus: tree.list(&file(group, "cpuset.cpus"))?.unwrap_or_default(),
        quota: text("cpu.max")
            .and_then(|text| Quota::from_cpu_max(&text))
            .map(|quota| quota.cpus()),
        cpus_by_node: by_node.filter(|(_, count)| *count > 0).collect(),
        cpus,
        memory_nodes: effective(host, group, "cpuset.mems.effective")?.unwrap_or_default(),
        memory: text("memory.numa_stat").and_then(|text| GroupMemory::parse(&text)),
        processes,
        cache,
        counts,
        l3s: host.l3s.clone(),
        vendor: host.vendor(),
        is_virtual: host.is_virtual(),
    })
}

impl Look {
    /// What happened between this look and a later one, so long afterwards. Cycles and fills are for who counts them to
    /// set.
    pub fn until(&self, later: &Self, length: Duration) -> Window {
        let local_bytes = match self.vendor {
            Vendor::Amd => Err(Missing::LocalNotBelieved),
            _ => self.counted(later, |counts| counts.local).map(sum),
        };
        Window {
            length,
            bytes: self.counted(later, |counts| counts.total).map(sum),
            local_bytes,
            cycles: Err(match self.is_virtual {
                true => Missing::VirtualMachine,
                false => Missing::NoCycles,
            }),
            fills: None,
            memory: later.memory.clone(),
            cpus: later.cpus_by_node.clone(),
        }
    }

    /// Processors that the group kept busy between this look and a later one, so long afterwards.
    pub fn busy(&self, later: &Self, length: Duration) -> Option<f64> {
        let used = later.cpu?.used.checked_sub(self.cpu?.used)?;
        over(used, length)
    }

    /// How much of its quota the group wanted between the two: what it used and what it was held back, over its quota.
    /// `None` if it has none. Above 1 the quota was over-used.
    pub fn quota_used(&self, later: &Self, length: Duration) -> Option<f64> {
        let throttled = later.cpu?.throttled.checked_sub(self.cpu?.throttled)?;
        let wanted = self.busy(later, length)? + over(throttled, length)?;
        Some(wanted / later.quota.filter(|&quota| quota > 0.0)?)
    }

    /// Bytes between the group and memory in that time, by the node of the cores; `None` if they are not counted.
    pub fn bytes_by_node(&self, later: &Self) -> Option<BTreeMap<u32, u64>> {
        let grown = self.counted(later, |counts| counts.total).ok()?;
        by_node(grown, &self.l3s)
    }

    /// The growth of a counter on each L3.
    fn counted(
        &self,
        later: &Self,
        of: impl Fn(&Counts) -> Result<u64, Missing>,
    ) -> Result<BTreeMap<u32, u64>, Missing> {
        let (before, after) = (self.counts.as_ref(), later.counts.as_ref());
        let (before, after) = (before.map_err(|why| *why)?, after.map_err(|why| *why)?);
        let grown = after.iter().map(|(&l3, counts)| {
            let before = before.get(&l3).ok_or(Missing::WentBack)?;
            let more = of(counts)?.checked_sub(of(before)?);
            Ok::<_, Missing>((l3, more.ok_or(Missing::WentBack)?))
        });
        grown.collect()
    }
}

fn sum(by_l3: BTreeMap<u32, u64>) -> u64 {
    by_l3.into_values().fold(0, u64::saturating_add)
}

/// Figures of L3s added up by node; `None` if it is not known where one of them is.
fn by_node(by_l3: BTreeMap<u32, u64>, l3s: &BTreeMap<u32, L3>) -> Option<BTreeMap<u32, u64>> {
    let mut by_node = BTreeMap::new();
    for (l3, figure) in by_l3 {
        let sum: &mut u64 = by_node.entry(l3s.get(&l3)?.node).or_default();
        *sum = sum.saturating_add(figure);
    }
    Some(by_node)
}

fn over(time: Duration, length: Duration) -> Option<f64> {
    let share = time.as_secs_f64() / length.as_secs_f64();
    share.is_finite().then_some(share)
}

/// A set of the group or, where its controller is not enabled, of the nearest group above that has it.
fn effective(
    host: &Host,
    group: &GroupPath,
    name: &str,
) -> Result<Option<BTreeSet<u32>>, HostError> {
    let mut at = Some(group.clone());
    while let Some(group) = at {
        let list = host.tree.list(&file(&group, name))?;
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            return Ok(Some(list));
        }
        at = group.above();
    }
    Ok(None)
}

/// `throttled_usec` is there where the cpu controller is enabled.
fn cpu_use(text: &str) -> Option<CpuUse> {
    let throttled = figure(text, "throttled_usec").unwrap_or(0);
    Some(CpuUse {
        used: Duration::from_micros(figure(text, "usage_usec")?),
        throttled: Duration::from_micros(throttled),
    })
}

fn occupancy(
    counts: &BTreeMap<u32, Counts>,
    l3s: &BTreeMap<u32, L3>,
) -> Result<BTreeMap<u32, u64>, Missing> {
    let each = counts
        .iter()
        .map(|(&l3, counts)| Ok((l3, counts.occupancy?)));
    let by_l3 = each.collect::<Result<_, Missing>>()?;
    by_node(by_l3, l3s).ok_or(Missing::Contradicts)
}
