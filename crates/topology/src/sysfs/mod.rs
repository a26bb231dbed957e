//! A machine from Linux `/sys` and `/proc`, or from a copy of them below another root, in pure Rust.
//!
//! What is read, all of it kernel ABI (`Documentation/ABI/stable/sysfs-devices-system-cpu` and
//! `-node`): `cpu/online`; for each core `topology/{core_cpus,package_cpus,die_cpus}` (before Linux
//! 5.3: `thread_siblings`, `core_siblings`), `physical_package_id`, `cpu_capacity`; `cache/indexN/{level,type,size,id,
//! shared_cpu_map}`; `node/nodeN/cpumap`. A file that is not there is a thing not known; a file that
//! holds what no kernel writes is an error.
//!
//! Choices are those of hwloc, so that both readers see one machine: masks count only cpus that are
//! online and have a `topology` folder; a cache belongs to the lowest cpu in its mask; a die that is
//! its package's only one is no die.

mod caches;
mod capacity;
pub(crate) mod cgroup;
mod tree;

use crate::assemble::assemble;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::limits::Limits;
use crate::machine::{Machine, MachineCore, Processor};
use crate::model::{Core, Source, Topology};
use crate::options::ReadOptions;
use caches::Caches;
use std::path::{Path, PathBuf};
pub use tree::Tree;

impl Topology {
    /// Reads Linux `/sys` and `/proc` below `root`, in pure Rust.
    ///
    /// `/` is the running machine, and then the affinity mask of the calling thread counts too. Any
    /// other folder holds `sys` and `proc` of another machine, as `hwloc-gather-topology` saves them;
    /// of it the online cpus, the saved process's cpuset and its CPU quota count.
    ///
    /// ```no_run
    /// use chiplet_topology::{LevelChoice, Topology};
    /// let machine = Topology::from_sysfs("/", LevelChoice::Auto)?;
    /// print!("{machine}");
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::NotATree`] if there are no cpus below `root`, [`TopologyError::Garbage`] if a
    /// file there holds nonsense, [`TopologyError::NothingLeft`] if no cpu may be used,
    /// [`TopologyError::NoSuchLevel`] if the machine lacks the level that was asked for.
    pub fn from_sysfs(
        root: impl AsRef<Path>,
        options: impl Into<ReadOptions>,
    ) -> Result<Self, TopologyError> {
        let root = root.as_ref();
        let this_machine = root == Path::new("/");
        let (machine, mut limits) = read(root)?;
        if this_machine {
            limits.affinity = crate::pin::affinity_set();
        }
        assemble(
            &machine,
            limits,
            options.into(),
            Source::Sysfs(root.to_owned()),
            this_machine,
        )
    }
}

/// The whole machine below a root, and what limits its use.
pub(crate) fn read(root: &Path) -> Result<(Machine, Limits), TopologyError> {
    let tree = Tree::new(root);
    let cpus = Cpus::of(&tree)?;
    let (processor, is_virtual) = processor(&tree);
    let nodes = nodes(&tree)?;
    let caches = Caches::of(&tree, &cpus, processor)?;
    let mut machine = Machine {
        processor,
        is_virtual,
        ..Machine::default()
    };
    let mut done = CpuSet::new();
    for &cpu in &cpus.described {
        if done.contains(&cpu) {
            continue;
        }
        let core_cpus = cpus.of_core(&tree, cpu, processor, &done)?;
        done.extend(core_cpus.iter().copied());
        machine.cores.push(MachineCore {
            capacity: Core::FULL,
            l2: caches.at(2, cpu),
            l3: caches.at(3, cpu),
            die: cpus.die(&tree, cpu)?,
            node: nodes
                .iter()
                .find(|(_, cpus)| cpus.contains(&cpu))
                .map_or(0, |(node, _)| *node),
            package: tree
                .number(&topology(cpu, "physical_package_id"))
                .and_then(|id| u32::try_from(id).ok())
                .unwrap_or(0),
            cpus: core_cpus.into_iter().collect(),
        });
    }
    machine.pair_ccxs();
    capacity::weigh(&tree, &mut machine)?;
    let limits = Limits {
        offline: cpus.present.difference(&cpus.described).copied().collect(),
        cpuset: cgroup::cpuset(&tree)?,
        affinity: None,
        quota: cgroup::quota(&tree),
    };
    Ok((machine, limits))
}

/// The cpus that are online and in the cpuset of the running process; `None` if that leaves none or cannot be read.
pub(crate) fn usable_by_this_process() -> Option<CpuSet> {
    let tree = Tree::new(Path::new("/"));
    let mut cpus = tree.list("sys/devices/system/cpu/online").ok()??;
    if let Some(cpuset) = cgroup::cpuset(&tree).ok()? {
        cpus.retain(|cpu| cpuset.contains(cpu));
    }
    Some(cpus).filter(|cpus| !cpus.is_empty())
}

/// The memory that the control groups of the process let it take.
pub(crate) fn memory_limit(root: &Path) -> Option<u64> {
    let groups = cgroup::memory(&Tree::new(root));
    groups.iter().map(|group| group.limit).min()
}

/// The group of the process and those above it that have cpusets.
pub(crate) fn cpuset_groups(root: &Path) -> Option<(u32, Vec<PathBuf>)> {
    cgroup::cpuset_groups(&Tree::new(root))
}

fn topology(cpu: u32, file: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}")
}

/// The cpus of a tree.
struct Cpus {
    /// Those with a folder.
    present: CpuSet,
    /// Those that are online and whose place the kernel tells.
    described: CpuSet,
}

impl Cpus {
    fn of(tree: &Tree) -> Result<Self, TopologyError> {
        const FOLDER: &str = "sys/devices/system/cpu";
        let present: CpuSet = tree.numbered(FOLDER, "cpu").into_iter().collect();
        if present.is_empty() {
            return Err(TopologyError::NotATree {
                root: tree.root().to_owned(),
            });
        }
        let online = tree.list(&format!("{FOLDER}/online"))?;
        let is_online = |cpu: u32| match &online {
            Some(online) => online.contains(&cpu),
            None => tree.number(&format!("{FOLDER}/cpu{cpu}/online")) != Some(0),
        };
        let online: CpuSet = present
            .iter()
            .copied()
            .filter(|&cpu| is_online(cpu))
            .collect();
        let mut described = online.clone();
        described.retain(|cpu| tree.has(&format!("{FOLDER}/cpu{cpu}/topology")));
        if described.is_empty() {
            // A kernel too old to tell places: every cpu is taken for a core.
            described = online;
        }
        Ok(Self { present, described })
    }

    /// The cpus that share something with `cpu`, by the file's name since Linux 5.3 or its older one.
    fn mask(&self, tree: &Tree, cpu: u32, names: &[&str]) -> Result<Option<CpuSet>, TopologyError> {
        for name in names {
            let mut found = tree.mask(&topology(cpu, name))?;
            if found.is_none() {
                found = tree.list(&topology(cpu, &format!("{name}_list")))?;
            }
            if let Some(mut cpus) = found {
                cpus.retain(|cpu| self.described.contains(cpu));
                return Ok(Some(cpus));
            }
        }
        Ok(None)
    }

    /// The cpus of the same core, as the kernel tells.
    fn siblings(&self, tree: &Tree, cpu: u32) -> Result<Option<CpuSet>, TopologyError> {
        self.mask(tree, cpu, &["core_cpus", "thread_siblings"])
    }

    /// The cpus that form a core with `cpu`, which is the lowest of them; none of `done`, which belong
    /// to other cores, so that masks that contradict each other lose or double no cpu.
    fn of_core(
        &self,
        tree: &Tree,
        cpu: u32,
        processor: Processor,
        done: &CpuSet,
    ) -> Result<CpuSet, TopologyError> {
        let mut cpus = self.siblings(tree, cpu)?.unwrap_or_default();
        let core_id = |cpu: u32| tree.number(&topology(cpu, "core_id"));
        if processor.amd && processor.family == 0x15 {
            // Of Bulldozer the kernel tells two cores that share a front end as siblings.
            cpus.retain(|&other| core_id(other) == core_id(cpu));
        }
        cpus.retain(|other| !done.contains(other));
        cpus.insert(cpu);
        Ok(cpus)
    }

    /// The die by its lowest cpu, unless it is the whole package or a single cpu.
    fn die(&self, tree: &Tree, cpu: u32) -> Result<Option<u32>, TopologyError> {
        let Some(die) = self.mask(tree, cpu, &["die_cpus"])? else {
            return Ok(None);
        };
        let package = self.mask(tree, cpu, &["package_cpus", "core_siblings"])?;
        Ok(if die.len() < 2 || Some(&die) == package.as_ref() {
            None
        } else {
            die.first().copied()
        })
    }
}

/// NUMA nodes that have cpus. A cpu on several (a kernel bug that exists) counts for the first.
fn nodes(tree: &Tree) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
    const FOLDER: &str = "sys/devices/system/node";
    let mut nodes = Vec::new();
    for node in tree.numbered(FOLDER, "node") {
        let cpus = match tree.mask(&format!("{FOLDER}/node{node}/cpumap"))? {
            Some(cpus) => Some(cpus),
            None => tree.list(&format!("{FOLDER}/node{node}/cpulist"))?,
        };
        nodes.push((node, cpus.unwrap_or_default()));
    }
    Ok(nodes)
}

/// Which processor it is and whether it tells of a hypervisor, by the first entry of `/proc/cpuinfo`; all zero if that
/// does not tell.
fn processor(tree: &Tree) -> (Processor, bool) {
    let info = tree.cpuinfo();
    let number = |name| {
        info.value(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let vendor = info.value("vendor_id");
    let amd = matches!(vendor, Some("AuthenticAMD" | "HygonGenuine"));
    let processor = Processor {
        amd,
        family: number("cpu family"),
        model: number("model"),
    };
    let flags = info.value("flags").unwrap_or_default();
    let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
    (processor, is_virtual)
}

/// Whether this machine tells that it is a virtual one, for the reader that does not look at it itself.
#[cfg(feature = "hwloc")]
pub(crate) fn this_is_virtual() -> bool {
    processor(&Tree::new(Path::new("/"))).1
}

/// Enters the capacities of this machine's cores, for the reader that does not look at them itself.
#[cfg(feature = "hwloc")]
pub(crate) fn weigh_this(machine: &mut Machine) -> Result<(), TopologyError> {
    capacity::weigh(&Tree::new(Path::new("/")), machine)
}

/// The CPU quota on the running process, for the reader that does not look at it itself.
#[cfg(feature = "hwloc")]
pub(crate) fn quota_of_this_process() -> Option<crate::limits::Quota> {
    cgroup::quota(&Tree::new(Path::new("/")))
}
