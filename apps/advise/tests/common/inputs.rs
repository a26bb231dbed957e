//! Machines with anything in their files, read. Run by the fuzz target `advise` and, over its seeds and by properties,
//! by `hostile.rs`.

// Each program uses its part.
#![allow(dead_code)]

#[path = "mod.rs"]
pub mod common;

use std::fs;
use std::time::Duration;

use chiplet_advise::{Features, History, Host, Journal, Known, Snapshot, Survey};
use common::{Mon, Saved};

pub const GROUP: &str = "/a";

/// All files that are read, each with something that a kernel might write.
pub const FILES: [&str; 20] = [
    "proc/cpuinfo",
    "proc/stat",
    "proc/meminfo",
    "proc/self/cgroup",
    "proc/7/cgroup",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/cache/index3/id",
    "sys/devices/system/cpu/cpu0/cache/index3/size",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "sys/fs/cgroup/a/cpu.stat",
    "sys/fs/cgroup/a/cpu.max",
    "sys/fs/cgroup/a/cpuset.cpus.effective",
    "sys/fs/cgroup/a/cpuset.mems.effective",
    "sys/fs/cgroup/a/memory.numa_stat",
    "sys/fs/cgroup/a/cgroup.procs",
    "sys/fs/resctrl/mon_groups/a/tasks",
    "sys/fs/resctrl/mon_groups/a/mon_data/mon_L3_00/mbm_total_bytes",
    "sys/fs/resctrl/mon_groups/a/mon_data/mon_L3_00/mbm_local_bytes",
    "sys/fs/resctrl/mon_groups/a/mon_data/mon_L3_00/llc_occupancy",
];

/// A machine of two nodes with so many L3s each, whose files all hold what a kernel writes.
pub fn machine(vendor: &str, l3s: u32) -> Saved {
    let saved = Saved::new(vendor, l3s);
    saved.group_files(
        GROUP,
        &[
            ("cpu.stat", "usage_usec 5\nthrottled_usec 1"),
            ("cpu.max", "max 100000"),
            ("cpuset.cpus.effective", "0-7"),
            ("cpuset.mems.effective", "0-1"),
            (
                "memory.numa_stat",
                "anon N0=1 N1=2\nfile N0=3 N1=4\nfile_mapped N0=1 N1=1",
            ),
            ("cgroup.procs", "7"),
        ],
    );
    saved.write("proc/7/cgroup", "0::/a");
    let mon = |l3| Mon {
        l3,
        total: 9,
        local: 8,
        occupancy: 7,
    };
    let mons: Vec<Mon> = (0..2 * l3s).map(mon).collect();
    saved.monitor("", &[1], &mons);
    saved.monitor("mon_groups/a", &[7], &mons);
    saved
}

/// Reads all that there is, twice, and makes of it what can be made.
pub fn read_all(saved: &Saved, before: &Snapshot) {
    let Ok(host) = Host::open(saved.root()) else {
        return;
    };
    let groups = host.groups();
    let _ = host.group_of(7);
    let Ok(after) = Snapshot::take(&host, &groups) else {
        return;
    };
    let Ok(survey) = Survey::new(before.clone(), after, Duration::from_secs(1)) else {
        return;
    };
    let known = Known::default();
    for name in &groups {
        if let Some(window) = survey.window(name, &known) {
            let features = Features::of(&window);
            assert!(
                features
                    .rmbr
                    .value()
                    .is_none_or(|share| (0.0..=1.0).contains(&share))
            );
        }
        let _ = (
            survey.subject(name, &known),
            survey.rooms(name, &known),
            survey.needs(name),
        );
    }
}

/// A journal of one change, done and taken back.
pub const SOUND: &str = concat!(
    r#"{"number":1,"unix_ms":5,"event":{"change":{"group":"/a","birth":":1","kind":{"bind":{"node":1}},"#,
    r#""service":null,"writes":[{"file":"cpuset.cpus","was":"\n","text":"4-7\n"}],"features":null,"predicted":0.1}}}"#,
    "\n",
    r#"{"number":2,"unix_ms":6,"event":{"done":{"change":1}}}"#,
    "\n",
    r#"{"number":3,"unix_ms":6,"event":{"rolled_back":{"changes":[1,9],"outcome":"gone"}}}"#,
    "\n",
);

/// What stands between two files.
const NEXT: u8 = 0xff;

/// The first byte is the machine: an Intel with an L3 a node, or an AMD of 12 CCDs. Then files, each its number and
/// what it holds; past the last number it is the journal.
pub fn advise(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let saved = match kind % 2 {
        0 => machine("GenuineIntel", 1),
        _ => machine("AuthenticAMD", 6),
    };
    let host = Host::open(saved.root()).expect("it is sound as yet");
    let before = Snapshot::take(&host, &host.groups()).expect("it is sound as yet");
    for damage in rest.split(|&byte| byte == NEXT) {
        let Some((&number, bytes)) = damage.split_first() else {
            continue;
        };
        match FILES.get(usize::from(number)) {
            Some(name) => saved.write_bytes(name, bytes),
            None => read_journal(&saved, bytes),
        }
    }
    read_all(&saved, &before);
}

/// Who reads a journal and who writes to it refuse the same ones.
fn read_journal(saved: &Saved, bytes: &[u8]) {
    let path = saved.path("journal");
    fs::write(&path, bytes).expect("there is room");
    let read = History::read(&path);
    assert_eq!(read.is_ok(), Journal::open(&path).is_ok());
}
