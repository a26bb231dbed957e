//! Files with anything in them: errors or nothing, and never a panic.

#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::time::Duration;

use chiplet_advise::{Features, GroupPath, History, Host, Journal, Known, Snapshot, Survey};
use common::{Mon, Saved, group};
use proptest::prelude::*;

const GROUP: &str = "/a";

/// All files that are read, each with something that a kernel might write.
const FILES: [&str; 20] = [
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

fn machine() -> Saved {
    let saved = Saved::new("GenuineIntel", 1);
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
    saved.monitor("", &[1], &[mon(0), mon(1)]);
    saved.monitor("mon_groups/a", &[7], &[mon(0), mon(1)]);
    saved
}

/// Reads all that there is, twice, and makes of it what can be made.
fn read_all(saved: &Saved, before: &Snapshot) {
    let Ok(host) = Host::open(saved.root()) else {
        return;
    };
    let groups = host.groups();
    let _ = host.group_of(7);
    let Ok(after) = Snapshot::take(&host, &groups) else {
        return;
    };
    let survey = Survey::new(before, &after, Duration::from_secs(1));
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

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[a-zN0-9_]{1,12} [0-9]{1,24}",
        "(anon|file|file_mapped)( N[0-9]{1,11}=[0-9]{1,22}){0,3}",
        "cpu[0-9]{0,6}( [0-9]{1,21}){0,12}",
        "[0-9]{0,4}:[a-z,=]{0,9}:[/.a-z]{0,20}",
        "[0-9,:/-]{0,30}",
        "-?[0-9]{1,22}",
        "(Unavailable|Error|max|max [0-9]{1,5}|[0-9]{1,22} [0-9]{1,22})",
        "(flags|vendor_id)[\t ]*: [A-Za-z ]{0,20}",
    ];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n").into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// One or several files hold anything.
    #[test]
    fn no_file_makes_a_reader_panic(
        damage in prop::collection::vec((prop::sample::select(&FILES[..]), contents()), 1..4),
    ) {
        let saved = machine();
        let host = Host::open(saved.root()).unwrap();
        let before = Snapshot::take(&host, &host.groups()).unwrap();
        read_all(&saved, &before);
        for (name, bytes) in damage {
            saved.write_bytes(name, &bytes);
        }
        read_all(&saved, &before);
    }

    /// Also a journal that was a sound one.
    #[test]
    fn no_journal_makes_a_reader_panic(bytes in contents(), cut in 0_usize..400, put in 0_usize..400) {
        const SOUND: &str = concat!(
            r#"{"number":1,"unix_ms":5,"event":{"change":{"group":"/a","birth":":1","kind":{"bind":{"node":1}},"#,
            r#""service":null,"writes":[{"file":"cpuset.cpus","was":"\n","text":"4-7\n"}],"features":null,"predicted":0.1}}}"#,
            "\n", r#"{"number":2,"unix_ms":6,"event":{"done":{"change":1}}}"#, "\n",
            r#"{"number":3,"unix_ms":6,"event":{"rolled_back":{"changes":[1,9],"outcome":"gone"}}}"#, "\n",
        );
        let folder = common::folder();
        let path = folder.path().join("journal");
        fs::write(&path, SOUND).unwrap();
        prop_assert_eq!(History::read(&path).unwrap().records().count(), 1);
        let mut damaged = SOUND.as_bytes()[..cut.min(SOUND.len())].to_vec();
        let at = put.min(damaged.len());
        damaged.splice(at..at, bytes);
        fs::write(&path, &damaged).unwrap();
        let read = History::read(&path);
        prop_assert_eq!(read.is_ok(), Journal::open(&path).is_ok());
    }

    #[test]
    fn no_name_leads_out(name in "[a/.\\PC]{0,20}") {
        if let Ok(group) = name.parse::<GroupPath>() {
            let text = group.to_string();
            prop_assert!(text.starts_with('/') && !text.split('/').any(|part| part == ".."));
            prop_assert_eq!(text.parse::<GroupPath>().unwrap(), group);
        }
    }
}

#[test]
fn links_and_pipes_are_not_followed_or_waited_for() {
    let saved = machine();
    let folder = saved.path("sys/fs/cgroup/a");
    std::os::unix::fs::symlink("..", folder.join("circle")).unwrap();
    let pipe = folder.join("cpu.stat");
    fs::remove_file(&pipe).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let host = Host::open(saved.root()).unwrap();
    assert_eq!(host.groups(), [GroupPath::root(), group(GROUP)]);
    assert_eq!(host.look(&group(GROUP)).unwrap().cpu, None);
    assert!(host.look(&group("/a/circle")).is_err());
}
