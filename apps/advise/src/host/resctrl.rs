//! What resctrl counts: bytes to memory and bytes in L3, by monitoring group and L3.
//!
//! A *control group* of resctrl is a folder below `sys/fs/resctrl`, the first of them that folder itself. Each has
//! monitoring groups of its own in `mon_groups`. A folder `mon_data/mon_L3_NN` stands for the L3 of number NN. The
//! figures of a control group include those of its monitoring groups (Linux `Documentation/filesystems/resctrl.rst`).
//!
//! A control group of cgroups and a monitoring group are matched by their threads. Nothing else ties them.

use std::collections::{BTreeMap, BTreeSet};

use chiplet_topology::Tree;

use super::groups::ids;
use super::nodes::L3;
use crate::missing::Missing;

const MOUNT: &str = "sys/fs/resctrl";

/// Groups that are looked at. Processors have some hundred ids for monitoring, 4,096 at most.
const MAX_GROUPS: usize = 4_096;

/// Of a monitoring group's threads so many may be others': threads begin and end between two reads.
const STRAY: f64 = 0.05;

/// What is counted for one group on one L3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) total: Result<u64, Missing>,
    pub(super) local: Result<u64, Missing>,
    pub(super) occupancy: Result<u64, Missing>,
}

/// A group that is counted for.
#[derive(Debug)]
struct Monitor {
    /// Whether it is one of control, whose figures include those of others.
    controls: bool,
    tasks: BTreeSet<u32>,
    by_l3: BTreeMap<u32, Counts>,
}

/// All groups; `None` if resctrl is not mounted.
#[derive(Debug)]
pub(super) struct Resctrl(Option<Monitors>);

#[derive(Debug)]
struct Monitors {
    all: Vec<Monitor>,
    /// By thread, by place in `all`. A thread is in one group of control, and in one for monitoring of that.
    of_thread: BTreeMap<u32, Vec<usize>>,
}

impl Resctrl {
    pub(super) fn read(tree: &Tree) -> Self {
        if !tree.has(&format!("{MOUNT}/mon_data")) {
            return Self(None);
        }
        let mut monitors = Vec::new();
        let controls = folders(tree, MOUNT);
        let controls = controls.into_iter().filter(|folder| {
            let is_own = ["info", "mon_groups", "mon_data"].iter();
            !is_own
                .clone()
                .any(|name| *folder == format!("{MOUNT}/{name}"))
        });
        for control in std::iter::once(MOUNT.to_owned()).chain(controls) {
            monitors.push(monitor(tree, &control, true));
            for folder in folders(tree, &format!("{control}/mon_groups")) {
                monitors.push(monitor(tree, &folder, false));
            }
            if monitors.len() > MAX_GROUPS {
                break;
            }
        }
        let mut of_thread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, monitor) in monitors.iter().enumerate() {
            for &thread in &monitor.tasks {
                of_thread.entry(thread).or_default().push(at);
            }
        }
        Self(Some(Monitors {
            all: monitors,
            of_thread,
        }))
    }

    /// What is counted of these threads and of hardly any other.
    pub(super) fn of(&self, threads: &BTreeSet<u32>) -> Result<&BTreeMap<u32, Counts>, Missing> {
        let monitors = self.0.as_ref().ok_or(Missing::NoResctrl)?;
        if threads.is_empty() {
            return Err(Missing::NoTasks);
        }
        let places = threads
            .iter()
            .filter_map(|thread| monitors.of_thread.get(thread));
        let mut theirs: BTreeMap<usize, usize> = BTreeMap::new();
        for &at in places.flatten() {
            *theirs.entry(at).or_default() += 1;
        }
        let is_theirs = |(at, theirs): (usize, usize)| {
            let monitor = &monitors.all[at];
            let strays = monitor.tasks.len().saturating_sub(theirs);
            let missed = threads.len() - theirs;
            let few = strays.max(missed) as f64 <= STRAY * theirs as f64;
            few.then_some(monitor)
        };
        let found = theirs.into_iter().find_map(is_theirs);
        let counts = &found.ok_or(Missing::NotMonitored)?.by_l3;
        match counts.is_empty() {
            true => Err(Missing::NotCounted),
            false => Ok(counts),
        }
    }

    /// Bytes between L3s and memory by node, of all tasks, as far as they are counted.
    pub(super) fn by_node(&self, l3s: &BTreeMap<u32, L3>) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        let monitors = self.0.iter().flat_map(|monitors| &monitors.all);
        for monitor in monitors.filter(|monitor| monitor.controls) {
            for (l3, counts) in &monitor.by_l3 {
                if let (Some(l3), Ok(bytes)) = (l3s.get(l3), counts.total) {
                    let sum: &mut u64 = sums.entry(l3.node).or_default();
                    *sum = sum.saturating_add(bytes);
                }
            }
        }
        sums
    }
}

fn monitor(tree: &Tree, folder: &str, controls: bool) -> Monitor {
    let data = format!("{folder}/mon_data");
    let by_l3 = tree.numbered(&data, "mon_L3_").into_iter().map(|l3| {
        // Kernels write two digits at least.
        let file = |name: &str| count(tree.text(&format!("{data}/mon_L3_{l3:02}/{name}")));
        let counts = Counts {
            total: file("mbm_total_bytes"),
            local: file("mbm_local_bytes"),
            occupancy: file("llc_occupancy"),
        };
        (l3, counts)
    });
    Monitor {
        controls,
        by_l3: by_l3.collect(),
        tasks: ids(tree, &format!("{folder}/tasks")),
    }
}

/// Besides numbers kernels write `Unavailable`, `Error` and `Unassigned`.
fn count(text: Option<String>) -> Result<u64, Missing> {
    let text = text.ok_or(Missing::NotCounted)?;
    text.trim().parse().map_err(|_| Missing::Unavailable)
}

/// The folders in a folder, by name.
fn folders(tree: &Tree, folder: &str) -> Vec<String> {
    let entries = tree.path(folder).read_dir().into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(MAX_GROUPS)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some(format!("{folder}/{}", entry.file_name().to_str()?)))
        .collect();
    names.sort_unstable();
    names
}
