//! One input for each reader of outside data: bytes become a file or a tree, and what is read of it is
//! checked. Run by the fuzz targets in `fuzz/` and, over the committed seeds, by `seeds.rs`.

use super::{checks, common};
use arbitrary::Unstructured;
use chiplet_topology::{LevelChoice, NumaMemory, Topology, TopologyError};
use common::{Cpu, Saved, epyc, files};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const CHOICES: [LevelChoice; 3] = [LevelChoice::Auto, LevelChoice::L3, LevelChoice::L2];

/// A machine that was read keeps its promises; a refusal says why, without quoting a whole file.
fn check(read: Result<Topology, TopologyError>) {
    match read {
        Ok(machine) => checks::machine(&machine),
        Err(error) => {
            let length = error.to_string().len();
            assert!((1..8192).contains(&length), "a message of {length} bytes");
        }
    }
}

/// No node has more free than it has, and no more can be taken than is free.
fn check_memory(root: &Path) {
    let memory = NumaMemory::read(root);
    let mut free = 0_u64;
    for node in memory.nodes() {
        assert!(node.free_bytes <= node.total_bytes, "{node:?}");
        free = free.saturating_add(node.free_bytes);
    }
    assert!(memory.room_on(&[]).is_none_or(|room| room <= free));
}

/// The bytes are a list of cpus and a mask of cpus.
pub fn cpu_sets(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    in_tree(1, &[], |tree| {
        tree.write("sys/devices/system/cpu/online", &text);
        check(Topology::from_sysfs(tree.root(), LevelChoice::Auto));
        tree.write("sys/devices/system/cpu/online", "0-1");
        tree.write("sys/devices/system/cpu/cpu0/topology/core_cpus", &text);
        check(Topology::from_sysfs(tree.root(), LevelChoice::Auto));
        Touched::Files(vec![
            "sys/devices/system/cpu/online".to_owned(),
            "sys/devices/system/cpu/cpu0/topology/core_cpus".to_owned(),
        ])
    });
}

/// Files of a machine in a tree. `#` is a number from the input.
const SYSFS: [&str; 32] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu",
    "sys/devices/system/cpu/cpu#",
    "sys/devices/system/cpu/cpu#/online",
    "sys/devices/system/cpu/cpu#/topology",
    "sys/devices/system/cpu/cpu#/topology/core_cpus",
    "sys/devices/system/cpu/cpu#/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu#/topology/thread_siblings",
    "sys/devices/system/cpu/cpu#/topology/package_cpus",
    "sys/devices/system/cpu/cpu#/topology/core_siblings",
    "sys/devices/system/cpu/cpu#/topology/die_cpus",
    "sys/devices/system/cpu/cpu#/topology/core_id",
    "sys/devices/system/cpu/cpu#/topology/physical_package_id",
    "sys/devices/system/cpu/cpu#/cache",
    "sys/devices/system/cpu/cpu#/cache/index0/level",
    "sys/devices/system/cpu/cpu#/cache/index2/level",
    "sys/devices/system/cpu/cpu#/cache/index2/shared_cpu_map",
    "sys/devices/system/cpu/cpu#/cache/index2/shared_cpu_list",
    "sys/devices/system/cpu/cpu#/cache/index3/level",
    "sys/devices/system/cpu/cpu#/cache/index3/type",
    "sys/devices/system/cpu/cpu#/cache/index3/size",
    "sys/devices/system/cpu/cpu#/cache/index3/id",
    "sys/devices/system/cpu/cpu#/cache/index3/shared_cpu_map",
    "sys/devices/system/node",
    "sys/devices/system/node/node#/cpumap",
    "sys/devices/system/node/node#/cpulist",
    "proc/cpuinfo",
    "sys",
    "sys/devices/system/node/node#/meminfo",
    "proc/meminfo",
    "proc/sys/vm/min_free_kbytes",
    "proc/sys/kernel/numa_balancing",
];

/// The bytes are changes to a tree of a machine.
pub fn sysfs(data: &[u8]) {
    changed_tree(data, &SYSFS, &[], |_| ());
}

/// What says in which control group a process is, and what the group may use.
const CGROUP: [&str; 27] = [
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/mounts",
    "proc/self/mounts",
    "proc/self/cpuset",
    "proc/self",
    "proc",
    "sys/fs/cgroup",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpuset.cpus.effective",
    "sys/fs/cgroup/pod",
    "sys/fs/cgroup/pod/cpu.max",
    "sys/fs/cgroup/pod/cpuset.cpus.effective",
    "sys/fs/cgroup/pod/app",
    "sys/fs/cgroup/pod/app/cpu.max",
    "sys/fs/cgroup/pod/app/cpuset.cpus.effective",
    "sys/fs/cgroup/cpuset/pod/cpuset.cpus",
    "sys/fs/cgroup/cpuset/cpuset.cpus",
    "sys/fs/cgroup/cpuset/cpus",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us",
    "sys/fs/cgroup/pod/memory.max",
    "sys/fs/cgroup/pod/app/memory.max",
    "sys/fs/cgroup/pod/app/memory.current",
    "sys/fs/cgroup/pod/app/memory.stat",
];

/// A process in a group of both versions, none of which takes anything away.
const GROUPED: [(&str, &str); 8] = [
    (
        "proc/self/cgroup",
        "4:cpu,cpuacct:/pod\n3:cpuset:/pod\n0::/pod/app",
    ),
    (
        "proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
         34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         35 31 0:32 /pod /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct",
    ),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
    ("sys/fs/cgroup/pod/app/cpu.max", "max 100000"),
    ("sys/fs/cgroup/pod/app/cpuset.cpus.effective", ""),
    ("sys/fs/cgroup/cpuset/pod/cpuset.cpus", ""),
    ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
    ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
];

/// The bytes are changes to the files of control groups.
pub fn cgroup(data: &[u8]) {
    changed_tree(data, &CGROUP, &GROUPED, |machine| {
        // The machine itself is left alone, so every cpu is either there or told to be taken away.
        let cpus = cpus(data.first().copied().unwrap_or(0));
        checks::accounts_for(machine, cpus.iter().map(|cpu| cpu.cpu));
    });
}

/// Reads a tree after the changes that the bytes describe: the machine and the level, then for each change a file's
/// number in `names`, the number for `#`, what to do, how many bytes follow, and those.
fn changed_tree(
    data: &[u8],
    names: &[&str],
    more: &[(&str, &str)],
    check_more: impl Fn(&Topology),
) {
    let mut input = Unstructured::new(data);
    let shape = input.arbitrary::<u8>().unwrap_or(0);
    in_tree(shape, more, |tree| {
        let mut touched = Vec::new();
        let mut rebuild = false;
        while !input.is_empty() && touched.len() < 16 {
            let mut next = || input.arbitrary::<u8>().unwrap_or(0);
            let (file, number, what, length) = (next(), next(), next(), next());
            let content = input.bytes((length as usize).min(input.len()));
            let content = content.unwrap_or(&[]);
            let name = |file: u8| {
                names[file as usize % names.len()].replace('#', &(number % 32).to_string())
            };
            let name = name(file);
            let other = names[content.first().map_or(0, |&at| at as usize) % names.len()];
            let other = other.replace('#', &(number % 32).to_string());
            rebuild |= change(tree.root(), &name, what, content, &other);
            touched.push(name);
        }
        let choice = CHOICES[usize::from(shape / 4) % 3];
        let read = Topology::from_sysfs(tree.root(), choice);
        read.iter().for_each(&check_more);
        check(read);
        check_memory(tree.root());
        if rebuild {
            Touched::Shape
        } else {
            Touched::Files(touched)
        }
    });
}

/// Changes one file below `root`. Tells whether writing the file anew would not undo it.
fn change(root: &Path, name: &str, what: u8, content: &[u8], other: &str) -> bool {
    let path = root.join(name);
    let mut rebuild = match path.parent() {
        Some(parent) if parent.is_dir() => false,
        // May fail, where a change before this one put something else: then this one changes nothing.
        Some(parent) => {
            let _ = fs::create_dir_all(parent);
            true
        }
        None => return true,
    };
    rebuild |= remove(&path);
    let _ = match what % 8 {
        0..=2 => fs::write(&path, content),
        3 => fs::write(&path, content.repeat(usize::from(what / 8) * 256)),
        4 => Ok(()),
        5 => fs::create_dir(&path),
        6 => fifo(&path),
        _ => match content.first() {
            None => std::os::unix::fs::symlink(&path, &path),
            Some(255) => std::os::unix::fs::symlink(root.join("nowhere"), &path),
            Some(_) => std::os::unix::fs::symlink(root.join(other), &path),
        },
    };
    rebuild || what % 8 > 4
}

/// Removes whatever is there. Tells whether that was more than a file.
fn remove(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).is_ok(),
        Ok(_) => fs::remove_file(path).is_err(),
        Err(_) => false,
    }
}

/// Makes a named pipe, which would block whoever opens it.
pub fn fifo(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0)?)
}

/// What a run changed in its tree.
enum Touched {
    Files(Vec<String>),
    /// More than can be undone by writing files.
    Shape,
}

/// A saved machine that is kept from one run to the next, for writing it takes longer than reading it.
struct Kept {
    saved: Saved,
    files: BTreeMap<String, String>,
}

impl Kept {
    fn new(shape: u8, more: &[(&str, &str)]) -> Self {
        let cpus = cpus(shape);
        let saved = Saved::new(&cpus);
        let mut files: BTreeMap<String, String> = files(&cpus).into_iter().collect();
        for (name, text) in more {
            saved.write(name, text);
            files.insert((*name).to_owned(), (*text).to_owned());
        }
        Self { saved, files }
    }
}

/// Runs `run` with a saved machine of one of four shapes and the files `more`.
fn in_tree(shape: u8, more: &[(&str, &str)], run: impl FnOnce(&Saved) -> Touched) {
    thread_local! {
        static KEPT: RefCell<BTreeMap<(u8, usize), Kept>> = const { RefCell::new(BTreeMap::new()) };
    }
    let key = (shape % 4, more.len());
    // Taken out, so that a run that panics leaves no changed tree to the next.
    let kept = KEPT.with_borrow_mut(|kept| kept.remove(&key));
    let kept = kept.unwrap_or_else(|| Kept::new(shape, more));
    if let Touched::Files(names) = run(&kept.saved) {
        for name in names {
            remove(&kept.saved.root().join(&name));
            if let Some(text) = kept.files.get(&name) {
                kept.saved.write(&name, text);
            }
        }
        KEPT.with_borrow_mut(|all| all.insert(key, kept));
    }
}

/// The cpus of a machine of one of four shapes.
fn cpus(shape: u8) -> Vec<Cpu> {
    let row = |cpu: u32| Cpu {
        cpu,
        core: cpu,
        l2: None,
        l3: None,
        die: 0,
        package: 0,
        node: 0,
    };
    match shape % 4 {
        // A container's single cpu.
        0 => vec![row(0)],
        // A CCD of four cores with SMT.
        1 => epyc(1),
        // Two dies of two CCXs of two cores, each die a node.
        2 => (0..8)
            .map(|cpu| Cpu {
                l2: Some((cpu, 512)),
                l3: Some((cpu / 2, 8 << 10)),
                die: cpu / 4,
                node: cpu / 4,
                ..row(cpu)
            })
            .collect(),
        // Two packages of which no cache is told.
        _ => (0..4)
            .map(|cpu| Cpu {
                package: cpu / 2,
                ..row(cpu)
            })
            .collect(),
    }
}
