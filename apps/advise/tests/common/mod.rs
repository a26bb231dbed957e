//! Saved machines, written into a folder that goes away with them.

// Each test program uses its part.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use chiplet_advise::GroupPath;
use tempfile::TempDir;

/// A saved machine.
pub struct Saved(TempDir);

/// What one monitoring group's folder of one L3 holds.
#[derive(Clone, Copy)]
pub struct Mon {
    pub l3: u32,
    pub total: u64,
    pub local: u64,
    pub occupancy: u64,
}

/// In memory if there is such a place: to delete thousands of small files takes a disk seconds.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap()
}

pub fn group(path: &str) -> GroupPath {
    path.parse().unwrap()
}

impl Saved {
    /// Two nodes of `l3s` L3s each, each of four cpus and 16 MiB; node N has cpus that follow each other. Version 2 of
    /// control groups with the controllers that are needed.
    pub fn new(vendor: &str, l3s: u32) -> Self {
        let saved = Self(folder());
        let flags = "flags\t\t: fpu sse2 cqm_mbm_total cqm_mbm_local";
        saved.write(
            "proc/cpuinfo",
            &format!("processor\t: 0\nvendor_id\t: {vendor}\n{flags}"),
        );
        let cpus = 2 * l3s * 4;
        saved.write("sys/devices/system/cpu/online", &format!("0-{}", cpus - 1));
        for cpu in 0..cpus {
            let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            saved.write(&format!("{cache}/level"), "3");
            saved.write(&format!("{cache}/id"), &(cpu / 4).to_string());
            saved.write(&format!("{cache}/size"), "16384K");
        }
        for node in 0..2 {
            let folder = format!("sys/devices/system/node/node{node}");
            let first = node * cpus / 2;
            let last = first + cpus / 2 - 1;
            saved.write(&format!("{folder}/cpulist"), &format!("{first}-{last}"));
            let memory =
                format!("Node {node} MemTotal: 67108864 kB\nNode {node} MemFree: 33554432 kB");
            saved.write(&format!("{folder}/meminfo"), &memory);
        }
        saved.write("proc/self/cgroup", "0::/user.slice");
        saved.group_files("/", &[("cgroup.controllers", "cpuset cpu io memory pids")]);
        saved.group_files(
            "/",
            &[("cpuset.cpus.effective", &format!("0-{}", cpus - 1))],
        );
        saved
    }

    /// `/proc/stat`: of each cpu the busy and the idle ticks.
    pub fn ticks(&self, cpus: usize, of: impl Fn(usize) -> (u64, u64)) {
        let lines = (0..cpus).map(|cpu| {
            let (busy, idle) = of(cpu);
            format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n")
        });
        let lines: String = lines.collect();
        self.write("proc/stat", &format!("cpu 1 2 3 4\n{lines}intr 7 8"));
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file, with the line break that kernels put at the end.
    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, format!("{text}\n").as_bytes());
    }

    pub fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn group_file(&self, group: &str, name: &str) -> String {
        format!("sys/fs/cgroup{}/{name}", group.trim_end_matches('/'))
    }

    pub fn group_files(&self, group: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            self.write(&self.group_file(group, name), text);
        }
    }

    pub fn holds(&self, group: &str, name: &str) -> String {
        fs::read_to_string(self.path(&self.group_file(group, name))).unwrap()
    }

    /// A monitoring group, or a group of control, by its folder below `sys/fs/resctrl`.
    pub fn monitor(&self, folder: &str, tasks: &[u32], mons: &[Mon]) {
        let folder = format!("sys/fs/resctrl/{folder}");
        let tasks: Vec<String> = tasks.iter().map(u32::to_string).collect();
        self.write(&format!("{folder}/tasks"), &tasks.join("\n"));
        for mon in mons {
            let data = format!("{folder}/mon_data/mon_L3_{:02}", mon.l3);
            self.write(&format!("{data}/mbm_total_bytes"), &mon.total.to_string());
            self.write(&format!("{data}/mbm_local_bytes"), &mon.local.to_string());
            self.write(&format!("{data}/llc_occupancy"), &mon.occupancy.to_string());
        }
    }
}
