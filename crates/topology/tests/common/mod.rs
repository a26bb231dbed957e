//! Writes small saved machines: a table of cpus becomes the `/sys` and `/proc` files of a real kernel.

use std::path::Path;
use tempfile::TempDir;

/// One logical processor; equal numbers mean the same core, cache, die, package or node.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub cpu: u32,
    pub core: u32,
    /// Number and KiB.
    pub l2: Option<(u32, u32)>,
    /// Number and KiB.
    pub l3: Option<(u32, u32)>,
    pub die: u32,
    pub package: u32,
    pub node: u32,
}

/// A saved machine in a folder that goes away with it.
pub struct Saved {
    folder: TempDir,
}

impl Saved {
    pub fn new(cpus: &[Cpu]) -> Self {
        let saved = Self {
            folder: folder().expect("a temporary folder can be made"),
        };
        for (name, text) in files(cpus) {
            saved.write(&name, &text);
        }
        saved
    }

    /// Writes a file, with the line break that kernels put at the end.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("folders can be made");
        std::fs::write(path, format!("{text}\n")).expect("files can be written");
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }
}

/// In memory if there is such a place: to delete thousands of small files takes a disk seconds.
fn folder() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// The files of a machine, by name and without the line break at their end.
pub fn files(cpus: &[Cpu]) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> =
        cpus.iter().flat_map(|cpu| files_of(cpu, cpus)).collect();
    let online = list(cpus.iter().map(|cpu| cpu.cpu));
    files.push(("sys/devices/system/cpu/online".to_owned(), online));
    let nodes: std::collections::BTreeSet<u32> = cpus.iter().map(|cpu| cpu.node).collect();
    for node in nodes {
        let members = cpus.iter().filter(|cpu| cpu.node == node);
        let name = format!("sys/devices/system/node/node{node}/cpumap");
        files.push((name, mask(members.map(|cpu| cpu.cpu))));
    }
    files
}

fn files_of(cpu: &Cpu, cpus: &[Cpu]) -> Vec<(String, String)> {
    let sharing = |same: &dyn Fn(&Cpu) -> bool| {
        let sharers = cpus.iter().filter(|other| same(other));
        mask(sharers.map(|other| other.cpu))
    };
    let base = format!("sys/devices/system/cpu/cpu{}", cpu.cpu);
    let core_cpus = sharing(&|other| other.core == cpu.core);
    let mut files: Vec<(String, String)> = [
        ("core_cpus", core_cpus.clone()),
        ("die_cpus", sharing(&|other| other.die == cpu.die)),
        (
            "package_cpus",
            sharing(&|other| other.package == cpu.package),
        ),
        ("physical_package_id", cpu.package.to_string()),
        ("core_id", cpu.core.to_string()),
    ]
    .map(|(name, text)| (format!("{base}/topology/{name}"), text))
    .into();
    let caches = [
        (0, 1, "Instruction", Some((cpu.core, 32)), core_cpus),
        (
            2,
            2,
            "Unified",
            cpu.l2,
            sharing(&|other| other.l2 == cpu.l2),
        ),
        (
            3,
            3,
            "Unified",
            cpu.l3,
            sharing(&|other| other.l3 == cpu.l3),
        ),
    ];
    for (index, level, kind, cache, sharers) in caches {
        let Some((id, kib)) = cache else { continue };
        let facts = [
            ("level", level.to_string()),
            ("type", kind.to_owned()),
            ("size", format!("{kib}K")),
            ("id", id.to_string()),
            ("shared_cpu_map", sharers),
        ];
        files.extend(facts.map(|(name, text)| (format!("{base}/cache/index{index}/{name}"), text)));
    }
    files
}

/// A mask of 32-bit words, the highest first.
pub fn mask(cpus: impl Iterator<Item = u32>) -> String {
    let mut words = vec![0u32];
    for cpu in cpus {
        let word = cpu as usize / 32;
        words.resize(words.len().max(word + 1), 0);
        words[word] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

fn list(cpus: impl Iterator<Item = u32>) -> String {
    cpus.map(|cpu| cpu.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

/// An EPYC: `ccds` CCDs of four SMT cores, 32 MiB each, the second cpus of all cores numbered last.
pub fn epyc(ccds: u32) -> Vec<Cpu> {
    let cores = ccds * 4;
    (0..cores * 2)
        .map(|cpu| {
            let core = cpu % cores;
            Cpu {
                cpu,
                core,
                l2: Some((core, 1024)),
                l3: Some((core / 4, 32 << 10)),
                die: 0,
                package: 0,
                node: 0,
            }
        })
        .collect()
}
