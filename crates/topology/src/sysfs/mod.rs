//! A machine from Linux `/sys` and `/proc`, or from a copy of them below another root, in pure Rust.
//!
//! What is read, all of it kernel ABI (`Documentation/ABI/stable/sysfs-devices-system-cpu` and
//! `-node`): `cpu/online`; for each core `topology/{core_cpus,package_cpus,die_cpus}` (before Linux
//! 5.3: `thread_siblings`, `core_siblings`), `physical_package_id`; `cache/indexN/{level,type,size,id,
//! shared_cpu_map}`; `node/nodeN/cpumap`. A file that is not there is a thing not known; a file that
//! holds what no kernel writes is an error.
//!
//! Choices are those of hwloc, so that both readers see one machine: masks count only cpus that are
//! online and have a `topology` folder; a cache belongs to the lowest cpu in its mask; a die that is
//! its package's only one is no die.

mod cgroup;
mod tree;

use crate::assemble::assemble;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::level::LevelChoice;
use crate::limits::Limits;
use crate::machine::{Cache, Machine, MachineCore, Processor};
use crate::model::{Source, Topology};
use std::path::Path;
use tree::Tree;

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
    /// print!("{}", machine.describe());
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::NotATree`] if there are no cpus below `root`, [`TopologyError::Garbage`] if a
    /// file there holds nonsense, [`TopologyError::NothingLeft`] if no cpu may be used,
    /// [`TopologyError::NoSuchLevel`] if the machine lacks the level that was asked for.
    pub fn from_sysfs(root: impl AsRef<Path>, choice: LevelChoice) -> Result<Self, TopologyError> {
        let root = root.as_ref();
        let this_machine = root == Path::new("/");
        let (machine, mut limits) = read(root)?;
        if this_machine {
            limits.affinity = crate::pin::affinity_set();
        }
        assemble(
            &machine,
            limits,
            choice,
            Source::Sysfs(root.to_owned()),
            this_machine,
        )
    }
}

/// The whole machine below a root, and what limits its use.
pub(crate) fn read(root: &Path) -> Result<(Machine, Limits), TopologyError> {
    let tree = Tree::new(root);
    let cpus = Cpus::of(&tree)?;
    let processor = processor(&tree);
    let nodes = nodes(&tree)?;
    let mut machine = Machine::default();
    let mut done = CpuSet::new();
    for &cpu in &cpus.described {
        if done.contains(&cpu) {
            continue;
        }
        let core_cpus = cpus.of_core(&tree, cpu, processor)?;
        done.extend(core_cpus.iter().copied());
        machine.cores.push(MachineCore {
            l2: cpus.cache(&tree, cpu, 2, processor)?,
            l3: cpus.cache(&tree, cpu, 3, processor)?,
            die: cpus.die(&tree, cpu)?,
            node: nodes
                .iter()
                .find(|(_, cpus)| cpus.contains(&cpu))
                .map_or(0, |(node, _)| *node),
            package: tree
                .number(&topology(cpu, "physical_package_id"))
                .map_or(0, |id| id as u32),
            cpus: core_cpus.into_iter().collect(),
        });
    }
    machine.pair_ccxs(processor);
    let limits = Limits {
        offline: cpus.present.difference(&cpus.described).copied().collect(),
        cpuset: cgroup::cpuset(&tree)?,
        affinity: None,
        quota: cgroup::quota(&tree),
    };
    Ok((machine, limits))
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

    /// A mask of cpus, first by its name since Linux 5.3, then by the older one.
    fn mask(
        &self,
        tree: &Tree,
        cpu: u32,
        names: [&str; 2],
    ) -> Result<Option<CpuSet>, TopologyError> {
        for name in names {
            if let Some(mut mask) = tree.mask(&topology(cpu, name))? {
                mask.retain(|cpu| self.described.contains(cpu));
                return Ok(Some(mask));
            }
        }
        Ok(None)
    }

    /// The cpus that share a core with `cpu`, which is the lowest of them.
    fn of_core(
        &self,
        tree: &Tree,
        cpu: u32,
        processor: Processor,
    ) -> Result<CpuSet, TopologyError> {
        let mut cpus = self
            .mask(tree, cpu, ["core_cpus", "thread_siblings"])?
            .unwrap_or_default();
        let core_id = |cpu: u32| tree.number(&topology(cpu, "core_id"));
        if processor.amd && processor.family == 0x15 {
            // Bulldozer's kernel driver tells two cores that share a front end as siblings.
            cpus.retain(|&other| core_id(other) == core_id(cpu));
        }
        // Masks of a sane kernel agree with each other. If not, no cpu must be lost or counted twice.
        cpus.retain(|&other| other > cpu);
        cpus.insert(cpu);
        Ok(cpus)
    }

    fn cache(
        &self,
        tree: &Tree,
        cpu: u32,
        level: u64,
        processor: Processor,
    ) -> Result<Option<Cache>, TopologyError> {
        // As many entries as any kernel lists: L1d, L1i, L2, L3, L4 and room.
        for index in 0..10 {
            let file =
                |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
            if tree.number(&file("level")) != Some(level)
                || tree
                    .text(&file("type"))
                    .is_some_and(|t| t.starts_with("Instr"))
            {
                continue;
            }
            let Some(mut sharers) = tree.mask(&file("shared_cpu_map"))? else {
                continue;
            };
            if sharers.is_empty() {
                // Itanium kernels leave the mask of private caches empty.
                sharers = self
                    .mask(tree, cpu, ["core_cpus", "thread_siblings"])?
                    .unwrap_or_default();
            }
            let key = sharers
                .into_iter()
                .find(|cpu| self.described.contains(cpu))
                .unwrap_or(cpu);
            let bytes = tree.bytes(&file("size")).unwrap_or(0);
            if bytes == 0 && level == 3 && processor == KNIGHTS_LANDING {
                // It tells an L3 of size 0 over all cores, which is none.
                continue;
            }
            let os_id = tree
                .number(&file("id"))
                .and_then(|id| u32::try_from(id).ok());
            return Ok(Some(Cache { key, bytes, os_id }));
        }
        Ok(None)
    }

    /// The die by its lowest cpu, unless it is the whole package or a single cpu.
    fn die(&self, tree: &Tree, cpu: u32) -> Result<Option<u32>, TopologyError> {
        let Some(die) = self.mask(tree, cpu, ["die_cpus", "die_cpus"])? else {
            return Ok(None);
        };
        let package = self.mask(tree, cpu, ["package_cpus", "core_siblings"])?;
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

const KNIGHTS_LANDING: Processor = Processor {
    amd: false,
    family: 6,
    model: 0x57,
};

/// Which processor it is, by the first entry of `/proc/cpuinfo`; all zero if that does not tell.
fn processor(tree: &Tree) -> Processor {
    let text = tree.text("proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    let number = |name| {
        value(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let amd = matches!(value("vendor_id"), Some("AuthenticAMD" | "HygonGenuine"));
    Processor {
        amd,
        family: number("cpu family"),
        model: number("model"),
    }
}

/// The CPU quota on the running process, for the reader that does not look at it itself.
#[cfg(feature = "hwloc")]
pub(crate) fn quota_of_this_process() -> Option<crate::limits::Quota> {
    cgroup::quota(&Tree::new(Path::new("/")))
}
