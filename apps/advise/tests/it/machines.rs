//! What is read of saved machines: one of Intel with two L3s, one of AMD with twelve, and some that are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::common::{Mon, Saved, group};
use chiplet_advise::{
    Advice, AdviceConfig, Cycles, Features, Host, HostError, Known, Missing, Reading, RemoteBy,
    Resource, Snapshot, Survey, Vendor, assess,
};

const WINDOW: Duration = Duration::from_secs(10);
const SEARCH: &str = "/system.slice/search.service";
const BATCH: &str = "/system.slice/batch.service";
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Two groups, and their monitoring groups. Search runs on node 1 and has three quarters of its memory on node 0. The
/// second moment is ten seconds after the first.
fn intel(later: bool) -> Saved {
    let saved = Saved::new("GenuineIntel", 1);
    write_intel(&saved, later);
    saved
}

fn write_intel(saved: &Saved, later: bool) {
    let at = |before: u64, after: u64| if later { after } else { before };
    let used = at(5_000_000, 35_000_000);
    let stat = format!(
        "usage_usec {used}\nuser_usec 1\nnr_throttled 2\nthrottled_usec {}",
        at(0, 10_000_000)
    );
    let numa = format!(
        "anon N0={} N1={}\nfile N0={} N1=0\nfile_mapped N0=0 N1=0",
        3 * GIB,
        GIB,
        4 * GIB
    );
    saved.group_files(
        SEARCH,
        &[
            ("cpu.stat", &stat),
            ("cpu.max", "320000 100000"),
            ("cpuset.cpus", "4-7"),
            ("cpuset.cpus.effective", "4-7"),
            ("cpuset.mems.effective", "0-1"),
            ("memory.numa_stat", &numa),
            ("cgroup.procs", "100\n101"),
            ("cgroup.threads", "100\n101\n102"),
        ],
    );
    let used = format!("usage_usec {}", at(0, 10_000_000));
    saved.group_files(BATCH, &[("cpu.stat", &used), ("cgroup.procs", "200")]);
    let mon = |l3, total, local, occupancy| Mon {
        l3,
        total,
        local,
        occupancy,
    };
    let all = at(1_000, 41_000_001_000);
    saved.monitor(
        "",
        &[1, 2],
        &[mon(0, all, 7, 9 * MIB), mon(1, all, 7, 9 * MIB)],
    );
    // Of 20 GB that search reads 5 are local.
    let (total, local) = (at(500, 20_000_000_500), at(70, 5_000_000_070));
    let search = [mon(0, 3, 3, MIB), mon(1, total, local, 2 * MIB)];
    saved.monitor("mon_groups/search", &[100, 101, 102], &search);
    // Batch is on both.
    let total = at(0, 16_000_000_000);
    let batch = [
        mon(0, total, total, 12 * MIB),
        mon(1, total, total, 15 * MIB),
    ];
    saved.monitor("bulk/mon_groups/batch", &[200], &batch);
    let none = [mon(0, 0, 0, 0), mon(1, 0, 0, 0)];
    saved.monitor("bulk", &[201], &none);
    saved.write("sys/fs/resctrl/info/L3_MON/num_rmids", "176");
    saved.ticks(8, |cpu| match cpu < 4 {
        true => (at(100, 300), at(100, 900)),
        false => (at(100, 900), at(100, 300)),
    });
}

#[test]
fn an_intel_machine_tells_everything_but_cycles() {
    let (before, after) = (intel(false), intel(true));
    let (then, now) = (
        Host::open(before.root()).unwrap(),
        Host::open(after.root()).unwrap(),
    );
    assert_eq!((now.vendor(), now.is_virtual()), (Vendor::Intel, false));
    let cpus: Vec<usize> = now.nodes().iter().map(|node| node.cpus.len()).collect();
    assert_eq!(cpus, [4, 4]);
    assert_eq!(now.nodes()[1].memory, Some(64 * GIB));
    assert_eq!(now.nodes()[1].memory_left, Some(31 * GIB));
    let names: Vec<String> = now.groups().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["/", "/system.slice", BATCH, SEARCH]);

    let (then, now) = (
        then.look(&group(SEARCH)).unwrap(),
        now.look(&group(SEARCH)).unwrap(),
    );
    assert_eq!(now.cpus, BTreeSet::from([4, 5, 6, 7]));
    assert_eq!(now.cpus_by_node, BTreeMap::from([(1, 4)]));
    assert_eq!(now.memory_nodes, BTreeSet::from([0, 1]));
    assert_eq!(now.processes, BTreeSet::from([100, 101]));
    assert_eq!(now.cache, Ok(BTreeMap::from([(0, MIB), (1, 2 * MIB)])));
    assert_eq!(now.quota, Some(3.2));
    assert_eq!(then.busy(&now, WINDOW), Some(3.0));
    // It used 3 and was held back 1.
    assert_eq!(then.quota_used(&now, WINDOW), Some(1.25));

    let window = then.until(&now, WINDOW);
    assert_eq!(
        (window.bytes, window.local_bytes),
        (Ok(20_000_000_000), Ok(5_000_000_000))
    );
    let features = Features::of(&window);
    assert_eq!(features.mbw, Reading::Value(2e9));
    assert_eq!(features.npmr, Reading::Value(0.5));
    assert_eq!(
        (features.rmbr, features.remote_by),
        (Reading::Value(0.75), Some(RemoteBy::Bandwidth))
    );
    assert_eq!(features.msr, Reading::Missing(Missing::NoCycles));
}

#[test]
fn nodes_are_not_taken_for_idle_where_nobody_tells_how_busy_they_are() {
    let (saved, later) = (intel(false), intel(true));
    let look = |saved: &Saved| Snapshot::take(&Host::open(saved.root()).unwrap(), &[]).unwrap();
    let (before, after) = (look(&saved), look(&later));
    let unknown = |before: &Snapshot, after: &Snapshot| {
        let error = Survey::new(before.clone(), after.clone(), WINDOW).unwrap_err();
        matches!(error, HostError::BusyUnknown { node: 0 })
    };
    assert!(unknown(&before, &before), "no tick has passed");
    assert!(unknown(&after, &before), "a cpu went offline: less in all");
    fs::remove_file(later.path("proc/stat")).unwrap();
    assert!(unknown(&before, &look(&later)));
}

#[test]
fn a_survey_finds_the_misplaced_group_and_who_takes_the_bandwidth() {
    let saved = intel(false);
    let host = Host::open(saved.root()).unwrap();
    let groups = host.groups();
    let before = Snapshot::take(&host, &groups).unwrap();
    write_intel(&saved, true);
    let after = Snapshot::take(&host, &groups).unwrap();
    let survey = Survey::new(before, after, WINDOW).unwrap();
    let search = group(SEARCH);
    let mut known = Known::default();
    let advice = |known: &Known| {
        let subject = survey.subject(&search, known).unwrap();
        assess(
            &subject,
            &survey.rooms(&search, known),
            &AdviceConfig::new(),
        )
    };
    // Nobody counted cycles or measured latencies.
    let Advice::CannotPredict { missing } = advice(&known).advice else {
        panic!("a guess");
    };
    let why: Vec<Missing> = missing.iter().map(|(_, why)| *why).collect();
    assert_eq!(why, [Missing::NoCycles, Missing::NoLatencies]);

    known.lambda = Some(1.8);
    let cycles = Cycles {
        stalled: 4,
        unhalted: 10,
    };
    known.cycles.insert(search.clone(), Ok(cycles));
    let found = advice(&known);
    let Advice::Bind { node, gain, terms } = found.advice else {
        panic!("{found:?}");
    };
    assert_eq!((node, terms.q, terms.rmbr), (0, 0.25, 0.75));
    // 0.4 * 0.5 * 0.8 / 1.6
    assert!((gain - 0.1).abs() < 1e-9, "{gain}");
    // Batch leaves 4 of the 16 MiB of the L3, and search fills 3.
    assert_eq!(found.short, []);

    // Node 0 gives 5 GB/s, and 4.1 are taken, most of them by batch.
    known.bandwidth = BTreeMap::from([(0, 5e9), (1, 5e9)]);
    let found = advice(&known);
    assert!(matches!(found.advice, Advice::Nothing { .. }), "{found:?}");
    let [short] = &found.short[..] else {
        panic!("{found:?}");
    };
    assert_eq!((short.node, short.of), (0, Resource::Bandwidth));
    assert_eq!(short.neighbour.as_deref(), Some(BATCH));
    let words = short.to_string();
    assert!(
        words.contains(BATCH) && words.contains("2.0 GB/s needed, 0.9 GB/s left"),
        "{words}"
    );

    let needs = survey.needs(&search).unwrap();
    assert_eq!((needs.cpus, needs.memory), (3.2, 8 * GIB));
    let services = [
        (search.clone(), "search".to_owned()),
        (group(BATCH), "batch".to_owned()),
    ];
    let observed = survey.observed(&services, &known, &AdviceConfig::new());
    let levels: Vec<(f64, f64)> = observed
        .nodes
        .iter()
        .map(|node| (node.busy, node.quota_left))
        .collect();
    // Idle for 800 of 1,000 ticks, and for 200; search's 3.2 are claimed on node 1.
    assert_eq!(levels[0].0, 0.8);
    assert!((levels[1].0 - 3.2).abs() < 1e-9 && (levels[1].1 - 0.8).abs() < 1e-9);
    assert_eq!(observed.instances[0].bound, Some(1));
    assert!((observed.instances[0].gains[&0] - 0.1).abs() < 1e-9);
    assert_eq!(observed.instances[0].memory, 0);
    let moving = survey.observed(&services, &known, &AdviceConfig::new().move_memory(true));
    assert_eq!(moving.instances[0].memory, 4 * GIB);
    assert_eq!(observed.instances[1].bound, None);
    assert!(observed.instances[1].gains.is_empty());
}

#[test]
fn an_amd_machine_of_twelve_ccds_sums_them_and_has_no_local_bytes() {
    let moment = |later: u64| {
        let saved = Saved::new("AuthenticAMD", 6);
        saved.group_files(
            "/kubepods.slice/pod1",
            &[
                ("cgroup.procs", "7"),
                ("cpuset.cpus.effective", "0-23"),
                (
                    "memory.numa_stat",
                    "anon N0=100 N1=300\nfile N0=0 N1=0\nfile_mapped N0=0 N1=0",
                ),
            ],
        );
        let mons: Vec<Mon> = (0..12)
            .map(|l3| Mon {
                l3,
                total: 1_000 + later * u64::from(l3) * 1_000_000,
                // What AMD's counter says is no matter.
                local: 5,
                occupancy: u64::from(l3 < 6) * MIB,
            })
            .collect();
        saved.monitor("mon_groups/pod1", &[7], &mons);
        saved.monitor("", &[1], &mons);
        saved.ticks(48, |_| (later, later));
        saved
    };
    let (before, after) = (moment(0), moment(1));
    let (then, now) = (
        Host::open(before.root()).unwrap(),
        Host::open(after.root()).unwrap(),
    );
    assert_eq!(now.vendor(), Vendor::Amd);
    assert_eq!(
        now.cache_bytes(),
        BTreeMap::from([(0, 6 * 16 * MIB), (1, 6 * 16 * MIB)])
    );
    // L3s 0 to 5 are node 0's.
    let snapshot = |host: &Host| Snapshot::take(host, &[]).unwrap();
    let (earlier, later) = (snapshot(&then), snapshot(&now));
    let known = Known {
        bandwidth: BTreeMap::from([(0, 1e8), (1, 1e8)]),
        ..Known::default()
    };
    let survey = Survey::new(earlier, later, WINDOW).unwrap();
    let observed = survey.observed(&[], &known, &AdviceConfig::new());
    let left: Vec<_> = observed.nodes.iter().map(|node| node.bandwidth).collect();
    assert_eq!(left, [Some((1e8, 1e8 - 1.5e6)), Some((1e8, 1e8 - 5.1e6))]);
    let pod = group("/kubepods.slice/pod1");
    let (then, now) = (then.look(&pod).unwrap(), now.look(&pod).unwrap());
    assert_eq!(now.cache, Ok(BTreeMap::from([(0, 6 * MIB), (1, 0)])));
    let window = then.until(&now, WINDOW);
    assert_eq!(window.bytes, Ok(66_000_000));
    assert_eq!(window.local_bytes, Err(Missing::LocalNotBelieved));
    let features = Features::of(&window);
    assert_eq!(features.mbw, Reading::Value(6.6e6));
    // By pages, and it says so.
    assert_eq!(
        (features.rmbr, features.remote_by),
        (Reading::Value(0.75), Some(RemoteBy::Pages))
    );
    assert_eq!(features.not_counted, Some(Missing::LocalNotBelieved));
    assert_eq!(
        then.bytes_by_node(&now),
        Some(BTreeMap::from([(0, 15_000_000), (1, 51_000_000)]))
    );
}

#[test]
fn counters_that_cannot_be_had_have_their_reasons() {
    let saved = intel(true);
    let look = || {
        Host::open(saved.root())
            .unwrap()
            .look(&group(SEARCH))
            .unwrap()
    };
    let bytes = || look().until(&look(), WINDOW).bytes;
    assert_eq!(bytes(), Ok(0));
    let file = "sys/fs/resctrl/mon_groups/search/mon_data/mon_L3_01/mbm_total_bytes";
    saved.write(file, "Unavailable");
    assert_eq!(bytes(), Err(Missing::Unavailable));
    let before = look();
    fs::remove_file(saved.path(file)).unwrap();
    assert_eq!(bytes(), Err(Missing::NotCounted));
    saved.write(file, "1");
    assert_eq!(
        before.until(&look(), WINDOW).bytes,
        Err(Missing::Unavailable)
    );
    let before = look();
    saved.write(file, "0");
    assert_eq!(before.until(&look(), WINDOW).bytes, Err(Missing::WentBack));
    // A thread of somebody else's is in its monitoring group.
    saved.write(
        "sys/fs/resctrl/mon_groups/search/tasks",
        "100\n101\n102\n300",
    );
    assert_eq!(bytes(), Err(Missing::NotMonitored));
    saved.group_files(SEARCH, &[("cgroup.procs", ""), ("cgroup.threads", "")]);
    assert_eq!(bytes(), Err(Missing::NoTasks));
    fs::remove_dir_all(saved.path("sys/fs/resctrl")).unwrap();
    assert_eq!(bytes(), Err(Missing::NoResctrl));
    let flags = "processor: 0\nvendor_id: GenuineIntel\nflags: fpu hypervisor";
    saved.write("proc/cpuinfo", flags);
    let virtual_machine = look().until(&look(), WINDOW).cycles;
    assert_eq!(virtual_machine, Err(Missing::VirtualMachine));
}

#[test]
fn a_group_without_a_cpuset_has_the_one_above() {
    let saved = intel(true);
    saved.group_files(&format!("{SEARCH}/workers"), &[("cgroup.procs", "104")]);
    let host = Host::open(saved.root()).unwrap();
    let workers = host.look(&group(&format!("{SEARCH}/workers"))).unwrap();
    assert_eq!(workers.cpus, BTreeSet::from([4, 5, 6, 7]));
    assert_eq!((workers.cpu, workers.memory), (None, None));
    // A group's processes are also those of groups below it.
    let search = host.look(&group(SEARCH)).unwrap();
    assert_eq!(search.processes, BTreeSet::from([100, 101, 104]));
    let batch = host.look(&group(BATCH)).unwrap();
    assert_eq!(batch.cpus_by_node, BTreeMap::from([(0, 4), (1, 4)]));
}

#[test]
fn processes_have_groups() {
    let saved = intel(true);
    saved.write("proc/100/cgroup", &format!("0::{SEARCH}"));
    saved.write("proc/101/cgroup", "0::/../../other");
    let host = Host::open(saved.root()).unwrap();
    assert_eq!(host.group_of(100).unwrap(), group(SEARCH));
    for pid in [101, 102] {
        assert!(matches!(
            host.group_of(pid),
            Err(HostError::NoSuchProcess { .. })
        ));
    }
    let none = host.look(&group("/nobody"));
    assert!(matches!(none, Err(HostError::NoSuchGroup { .. })));
}

#[test]
fn version_1_and_mixtures_are_refused_with_the_way_out() {
    let saved = intel(true);
    let says = || Host::open(saved.root()).unwrap_err().to_string();
    saved.write("proc/self/cgroup", "5:cpuset:/\n1:name=systemd:/\n0::/");
    assert!(
        says().contains("version 1 has the controllers cpuset; boot with systemd.unified"),
        "{}",
        says()
    );
    fs::rename(saved.path("sys/fs/cgroup"), saved.path("sys/fs/old")).unwrap();
    saved.write("sys/fs/cgroup/unified/cgroup.controllers", "");
    assert!(matches!(
        Host::open(saved.root()),
        Err(HostError::CgroupMixed { .. })
    ));
    fs::remove_dir_all(saved.path("sys/fs/cgroup")).unwrap();
    saved.write("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7");
    assert!(matches!(Host::open(saved.root()), Err(HostError::CgroupV1)));
    saved.write("proc/self/cgroup", "0::/");
    fs::remove_dir_all(saved.path("sys/fs/cgroup")).unwrap();
    assert!(matches!(
        Host::open(saved.root()),
        Err(HostError::NoCgroups)
    ));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        Host::open(empty.path()),
        Err(HostError::NotAMachine { .. })
    ));
}

#[test]
fn a_machine_without_nodes_is_one() {
    let saved = intel(true);
    fs::remove_dir_all(saved.path("sys/devices/system/node")).unwrap();
    saved.write("proc/meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB");
    let host = Host::open(saved.root()).unwrap();
    let [node] = host.nodes() else {
        panic!("{:?}", host.nodes());
    };
    assert_eq!((node.node, node.cpus.len(), node.memory), (0, 8, Some(MIB)));
}

/// Whatever machine the tests run on.
#[test]
fn this_machine_is_read_or_refused_with_a_reason() {
    let host = match Host::open("/") {
        Ok(host) => host,
        Err(error) => {
            println!("refused: {error}");
            return;
        }
    };
    assert!(host.nodes().iter().any(|node| !node.cpus.is_empty()));
    let own = host.group_of(std::process::id()).unwrap();
    let groups = host.groups();
    println!(
        "{} groups, {} nodes, own group {own}",
        groups.len(),
        host.nodes().len()
    );
    if groups.contains(&own) {
        let look = host.look(&own).unwrap();
        assert!(look.processes.contains(&std::process::id()));
        assert!(!look.cpus.is_empty());
    }
}
