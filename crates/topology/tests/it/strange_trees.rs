//! Files of control groups that are missing, unreadable, empty or nonsense: each has its documented
//! fallback, or is an error that names the file.

use crate::checks;
use crate::common::{Saved, epyc};
use chiplet_topology::{LevelChoice, Topology, TopologyError};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

/// A process in `/pod/app` of v2 with cpus 0-3 and 2 CPUs of time, below a group with 0-5 and 3.
fn grouped() -> Saved {
    let saved = Saved::new(&epyc(1));
    for (name, text) in [
        (
            "proc/self/mountinfo",
            "33 31 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        ),
        ("proc/self/cgroup", "0::/pod/app"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory"),
        ("sys/fs/cgroup/pod/cpuset.cpus.effective", "0-5"),
        ("sys/fs/cgroup/pod/cpu.max", "300000 100000"),
        ("sys/fs/cgroup/pod/app/cpuset.cpus.effective", "0-3"),
        ("sys/fs/cgroup/pod/app/cpu.max", "200000 100000"),
    ] {
        saved.write(name, text);
    }
    saved
}

/// As root reads a file whatever its mode, these are what cannot be read.
const UNREADABLE: [fn(&Path); 5] = [
    |_| (),
    |path| std::fs::create_dir(path).unwrap(),
    |path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
    |path| symlink("nowhere", path).unwrap(),
    |path| symlink(path, path).unwrap(),
];

const NONSENSE: [&[u8]; 4] = [b"", b"\0\0\0\0", b"?!\n", b"\xff\xfe,-:/"];

/// Cpus and workers with the file made unreadable in each way, or filled with nonsense.
fn read_with(file: &str, unreadable: bool) -> Vec<Result<(usize, usize), TopologyError>> {
    let saved = grouped();
    let path = saved.root().join(file);
    let read = || {
        let machine = Topology::from_sysfs(saved.root(), LevelChoice::Auto)?;
        checks::machine(&machine);
        Ok((machine.cpu_count(), machine.worker_limit()))
    };
    std::fs::remove_file(&path).unwrap();
    if unreadable {
        let with = UNREADABLE.iter().map(|make| {
            make(&path);
            let found = read();
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(&path);
            found
        });
        return with.collect();
    }
    let with = NONSENSE.iter().map(|text| {
        std::fs::write(&path, text).unwrap();
        read()
    });
    with.collect()
}

#[test]
fn a_file_that_cannot_be_read_counts_as_missing() {
    for (file, expected) in [
        // Then the group above counts.
        ("sys/fs/cgroup/pod/app/cpuset.cpus.effective", (6, 2)),
        ("sys/fs/cgroup/pod/app/cpu.max", (4, 3)),
        // Then there is no cpuset; time is limited all the same.
        ("sys/fs/cgroup/cgroup.controllers", (8, 2)),
        // Then the process is taken to be in the root, which limits nothing.
        ("proc/self/cgroup", (8, 4)),
        // Then no group is known to be mounted, for there is no /proc/mounts either.
        ("proc/self/mountinfo", (8, 4)),
    ] {
        for (how, found) in read_with(file, true).into_iter().enumerate() {
            assert_eq!(found.unwrap(), expected, "{file}, way {how}");
        }
    }
}

#[test]
fn nonsense_counts_as_nothing_said_except_in_a_list_of_cpus() {
    for (file, expected) in [
        ("sys/fs/cgroup/pod/app/cpu.max", (4, 3)),
        ("sys/fs/cgroup/cgroup.controllers", (8, 2)),
        ("proc/self/cgroup", (8, 4)),
        ("proc/self/mountinfo", (8, 4)),
    ] {
        for (what, found) in read_with(file, false).into_iter().enumerate() {
            assert_eq!(found.unwrap(), expected, "{file}, text {what}");
        }
    }
    let file = "sys/fs/cgroup/pod/app/cpuset.cpus.effective";
    let [empty, zeros, nonsense, bytes] = &read_with(file, false)[..] else {
        panic!("there are four texts");
    };
    for unset in [empty, zeros] {
        assert_eq!(*unset.as_ref().unwrap(), (6, 2));
    }
    for damaged in [nonsense, bytes] {
        let error = damaged.as_ref().unwrap_err();
        assert!(matches!(error, TopologyError::Garbage { .. }));
        assert!(error.to_string().contains("app/cpuset.cpus.effective"));
    }
}

/// Written once, for that takes longer than all the cases; their files alone are written anew.
static SHARED: LazyLock<Mutex<Saved>> = LazyLock::new(|| Mutex::new(grouped()));

fn ranges(cpus: &BTreeSet<u32>) -> String {
    if cpus.is_empty() {
        String::new()
    } else {
        chiplet_topology::cpu_ranges(cpus)
    }
}

proptest! {
    #[test]
    fn no_cpu_outside_the_cpuset_is_ever_used(
        online in prop::collection::btree_set(0..8_u32, 1..8),
        own in prop::collection::btree_set(0..10_u32, 0..8),
        above in prop::collection::btree_set(0..10_u32, 0..8),
        asked in prop::collection::btree_set(0..10_u32, 0..10),
        choice in prop::sample::select(&[LevelChoice::Auto, LevelChoice::L3, LevelChoice::L2][..]),
    ) {
        let saved = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        saved.write("sys/devices/system/cpu/online", &ranges(&online));
        saved.write("sys/fs/cgroup/pod/app/cpuset.cpus.effective", &ranges(&own));
        saved.write("sys/fs/cgroup/pod/cpuset.cpus.effective", &ranges(&above));
        let all: BTreeSet<u32> = (0..8).collect();
        let allowed = [&own, &above, &all].into_iter().find(|cpus| !cpus.is_empty()).unwrap();
        let expected: BTreeSet<u32> = online.intersection(allowed).copied().collect();
        match Topology::from_sysfs(saved.root(), choice) {
            Ok(machine) => {
                prop_assert_eq!(checks::cpus_of(&machine), expected);
                checks::accounts_for(&machine, all);
                checks::machine(&machine);
                checks::restriction(&machine, &asked.into_iter().collect::<Vec<_>>());
            }
            Err(error) => {
                let nothing_left = matches!(error, TopologyError::NothingLeft { .. });
                prop_assert!(nothing_left && expected.is_empty(), "{}", error);
            }
        }
    }
}
