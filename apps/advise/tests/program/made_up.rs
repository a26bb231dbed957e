//! A machine made of files, two nodes of four cpus with cgroup v2, on which time passes.

// The library's tests have the machine.
#[path = "../common/mod.rs"]
mod saved;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use saved::Saved;
use serde_json::Value;

/// A saved machine, whose clocks go on.
pub struct MadeUp {
    saved: Saved,
    ended: Arc<AtomicBool>,
    /// In percent, by node: how busy its cpus are.
    busy: Arc<[AtomicU64; 2]>,
    clock: Option<JoinHandle<()>>,
}

impl MadeUp {
    pub fn new() -> Self {
        let saved = Saved::new("GenuineIntel", 1);
        let (ended, busy) = (
            Arc::<AtomicBool>::default(),
            Arc::<[AtomicU64; 2]>::default(),
        );
        let folder = saved.root().to_owned();
        stat(&folder, &[0; 2], 0);
        let (until, levels) = (ended.clone(), busy.clone());
        let clock = std::thread::spawn(move || {
            let (mut used, mut ticks) = ([0_u64; 2], 0);
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                ticks += 100;
                for (used, busy) in used.iter_mut().zip(&*levels) {
                    *used += busy.load(Ordering::Relaxed);
                }
                stat(&folder, &used, ticks);
            }
        });
        Self {
            saved,
            ended,
            busy,
            clock: Some(clock),
        }
    }

    /// A group that may run everywhere, with memory on these nodes.
    pub fn group(&self, name: &str, memory: &[(u32, u64)]) {
        let bytes = |node| {
            memory
                .iter()
                .find(|(on, _)| *on == node)
                .map_or(0, |(_, bytes)| *bytes)
        };
        let (near, far) = (bytes(0), bytes(1));
        let file =
            |file: &str, text: &str| self.write(&format!("sys/fs/cgroup{name}/{file}"), text);
        file("cpuset.cpus", "\n");
        file("cpu.stat", "usage_usec 0\nthrottled_usec 0\n");
        file("cpu.max", "400000 100000\n");
        let numa = format!("anon N0={near} N1={far}\nfile N0=0 N1=0\nfile_mapped N0=0 N1=0\n");
        file("memory.numa_stat", &numa);
        file("cgroup.procs", "4711\n");
    }

    /// How busy a node's cpus are from now on, in percent.
    pub fn is_busy(&self, node: usize, percent: u64) {
        self.busy[node].store(percent, Ordering::Relaxed);
    }

    pub fn cpus(&self, group: &str) -> String {
        fs::read_to_string(self.file(group, "cpuset.cpus")).unwrap()
    }

    pub fn file(&self, group: &str, file: &str) -> PathBuf {
        self.saved
            .root()
            .join(format!("sys/fs/cgroup{group}/{file}"))
    }

    pub fn journal(&self) -> PathBuf {
        self.saved.root().join("journal")
    }

    /// Writes a file to the letter.
    pub fn write(&self, name: &str, text: &str) {
        self.saved.write_bytes(name, text.as_bytes());
    }

    pub fn remove(&self, group: &str) {
        fs::remove_dir_all(self.file(group, "")).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chiplet-advisor"));
        command
            .args(args)
            .arg("--sysfs")
            .arg(self.saved.root())
            .arg("--journal")
            .arg(self.journal());
        command
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(clock) = self.clock.take() {
            let _ = clock.join();
        }
    }
}

/// `/proc/stat`: of each node's four cpus so many ticks were busy.
fn stat(root: &Path, used: &[u64; 2], ticks: u64) {
    let lines = (0..8).map(|cpu| {
        let used = used[cpu / 4];
        format!(
            "cpu{cpu} {used} 0 0 {} 0 0 0 0 0 0\n",
            ticks - used.min(ticks)
        )
    });
    // Replaced as a whole: a reader never sees half of it.
    let path = root.join("proc/stat.new");
    fs::write(&path, lines.collect::<String>()).unwrap();
    fs::rename(path, root.join("proc/stat")).unwrap();
}

pub fn chiplet(machine: &MadeUp, args: &[&str]) -> Output {
    machine.command(args).output().unwrap()
}

pub fn stdout(ran: &Output) -> String {
    assert!(ran.status.success(), "{}", stderr(ran));
    String::from_utf8(ran.stdout.clone()).unwrap()
}

pub fn stderr(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

pub fn json(ran: &Output) -> Value {
    serde_json::from_str(&stdout(ran)).unwrap()
}
