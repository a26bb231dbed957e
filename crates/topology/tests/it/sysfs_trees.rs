//! What the pure-Rust reader makes of small saved machines, each with one thing that real ones have.

use crate::common::{Cpu, Saved, epyc, mask};
use chiplet_topology::{
    Distance, DomainId, Level, LevelChoice, Quota, Restriction, Topology, TopologyError,
    cpuset_groups, memory_limit,
};

fn read(saved: &Saved) -> Topology {
    Topology::from_sysfs(saved.root(), LevelChoice::Auto).expect("the tree is sound")
}

fn cpus(machine: &Topology) -> Vec<Vec<u32>> {
    machine
        .domains()
        .iter()
        .map(|domain| domain.cpus())
        .collect()
}

#[test]
fn each_ccd_of_an_epyc_is_a_domain_of_smt_cores() {
    let machine = read(&Saved::new(&epyc(2)));
    assert_eq!(machine.level(), Level::L3);
    assert_eq!(
        cpus(&machine),
        [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]
    );
    assert_eq!(machine.domains()[0].cores[1].cpus, [1, 9]);
    assert_eq!(machine.domains()[1].cache_bytes, 32 << 20);
    assert_eq!(machine.worker_limit(), 8);
    assert_eq!(machine.restrictions(), []);
    assert!(!machine.is_this_machine());
}

#[test]
fn offline_cpus_are_told_and_not_used() {
    let saved = Saved::new(&epyc(2));
    saved.write("sys/devices/system/cpu/online", "1-9,11-15");
    let machine = read(&saved);
    assert_eq!(machine.restrictions(), [Restriction::Offline(vec![0, 10])]);
    assert_eq!(machine.domains()[0].cores[0].cpus, [1, 9]);
    assert_eq!(machine.domains()[0].cores.len(), 4);
    assert_eq!(machine.domains()[0].cores[3].cpus, [8]);
}

#[test]
fn a_machine_without_the_list_of_online_cpus_is_asked_cpu_by_cpu() {
    let saved = Saved::new(&epyc(1));
    std::fs::remove_file(saved.root().join("sys/devices/system/cpu/online")).unwrap();
    saved.write("sys/devices/system/cpu/cpu7/online", "0");
    assert_eq!(read(&saved).restrictions(), [Restriction::Offline(vec![7])]);
}

/// A container of cgroup v2, whose group is `/pod/app`.
fn in_cgroup_v2(saved: &Saved) {
    saved.write("proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0");
    saved.write("proc/self/cgroup", "0::/pod/app");
    saved.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory");
}

#[test]
fn a_cgroup_v2_cpuset_leaves_partial_domains_with_their_whole_cache() {
    let saved = Saved::new(&epyc(3));
    in_cgroup_v2(&saved);
    saved.write("sys/fs/cgroup/pod/app/cpuset.cpus.effective", "2-3,8-11");
    let machine = read(&saved);
    assert_eq!(cpus(&machine), [vec![2, 3], vec![8, 9, 10, 11]]);
    assert_eq!(machine.domains()[0].cache_bytes, 32 << 20);
    assert_eq!(machine.domains()[1].id, DomainId(1));
    let taken = [0, 1].into_iter().chain(4..8).chain(12..24).collect();
    assert_eq!(machine.restrictions(), [Restriction::Cpuset(taken)]);
}

#[test]
fn cores_ascend_also_where_one_has_lost_its_first_cpu() {
    let saved = Saved::new(&epyc(1));
    in_cgroup_v2(&saved);
    // Of the cores 0+4, 1+5, 2+6 and 3+7.
    saved.write("sys/fs/cgroup/pod/app/cpuset.cpus.effective", "1-2,4,6");
    let cores = |machine: &Topology| -> Vec<Vec<u32>> {
        let cores = machine.domains()[0].cores.iter();
        cores.map(|core| core.cpus.clone()).collect()
    };
    let machine = read(&saved);
    assert_eq!(cores(&machine), [vec![1], vec![2, 6], vec![4]]);
    let restricted = machine.restricted_to(&[4, 6]).unwrap();
    assert_eq!(cores(&restricted), [[4], [6]]);
    let restricted = machine.restricted_to(&[1, 4, 6]).unwrap();
    assert_eq!(cores(&restricted), [[1], [4], [6]]);
}

#[test]
fn a_group_without_a_cpuset_has_that_of_the_group_above() {
    let saved = Saved::new(&epyc(2));
    in_cgroup_v2(&saved);
    saved.write("sys/fs/cgroup/pod/app/cgroup.procs", "1");
    saved.write("sys/fs/cgroup/pod/cpuset.cpus.effective", "0-3");
    assert_eq!(cpus(&read(&saved)), [[0, 1, 2, 3]]);
}

#[test]
fn a_group_deeper_than_any_path_is_taken_for_the_root() {
    let saved = Saved::new(&epyc(2));
    in_cgroup_v2(&saved);
    saved.write("sys/fs/cgroup/cpuset.cpus.effective", "0-3");
    // Walked up name by name, this would take a hundred billion bytes of paths.
    saved.write("proc/self/cgroup", &format!("0::{}", "/a".repeat(400_000)));
    assert_eq!(cpus(&read(&saved)), [[0, 1, 2, 3]]);
}

#[test]
fn a_mount_outside_the_tree_is_not_followed() {
    let saved = Saved::new(&epyc(2));
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("cpus"), "0-3").unwrap();
    let climb = "/..".repeat(saved.root().components().count());
    let point = format!("{climb}{}", outside.path().display());
    saved.write("proc/mounts", &format!("none {point} cpuset rw 0 0"));
    assert_eq!(read(&saved).restrictions(), []);
}

#[test]
fn of_thousands_of_mounts_the_first_count() {
    let saved = Saved::new(&epyc(2));
    let mounts = |first: usize| -> String {
        let line = |at| format!("none /mnt/{at} cpuset rw 0 0\n");
        (first..first + 10_000).map(line).collect()
    };
    saved.write("mnt/100/cpus", "0-3");
    saved.write("proc/mounts", &mounts(0));
    assert_eq!(cpus(&read(&saved)), [[0, 1, 2, 3]]);
    // For each of which the process's group would be read.
    saved.write("proc/mounts", &mounts(101));
    saved.write("mnt/10000/cpus", "0-3");
    assert_eq!(read(&saved).cpu_count(), 16);
}

#[test]
fn a_cgroup_v1_cpuset_counts_also_where_the_mount_shows_only_the_container() {
    let saved = Saved::new(&epyc(2));
    saved.write(
        "proc/self/mountinfo",
        "33 31 0:30 /docker/abc /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset",
    );
    saved.write("proc/self/cgroup", "3:cpuset:/docker/abc");
    saved.write("sys/fs/cgroup/cpuset/cpuset.cpus", "4,12");
    let machine = read(&saved);
    assert_eq!(cpus(&machine), [[4, 12]]);
    assert_eq!(machine.worker_limit(), 1);
}

#[test]
fn the_tightest_quota_on_the_way_to_the_root_caps_the_workers() {
    let saved = Saved::new(&epyc(2));
    in_cgroup_v2(&saved);
    saved.write("sys/fs/cgroup/pod/app/cpu.max", "max 100000");
    saved.write("sys/fs/cgroup/pod/cpu.max", "270000 100000");
    saved.write("sys/fs/cgroup/cpu.max", "400000 100000");
    let machine = read(&saved);
    let quota = Quota {
        quota_us: 270_000,
        period_us: 100_000,
    };
    assert_eq!(machine.restrictions(), [Restriction::Quota(quota)]);
    assert_eq!(machine.worker_limit(), 2);
    assert_eq!(
        machine.core_count(),
        8,
        "a quota takes time away, not cores"
    );
}

#[test]
fn a_cgroup_v1_quota_under_one_cpu_leaves_one_worker() {
    let saved = Saved::new(&epyc(2));
    saved.write(
        "proc/mounts",
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0",
    );
    saved.write("proc/self/cgroup", "5:cpu,cpuacct:/job");
    saved.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "40000");
    saved.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
    saved.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
    assert_eq!(read(&saved).worker_limit(), 1);
}

#[test]
fn the_least_memory_on_the_way_to_the_root_counts() {
    let saved = Saved::new(&epyc(2));
    assert_eq!(memory_limit(saved.root()), None);
    in_cgroup_v2(&saved);
    assert_eq!(memory_limit(saved.root()), None);
    saved.write("sys/fs/cgroup/pod/app/memory.max", "max");
    assert_eq!(memory_limit(saved.root()), None);
    saved.write("sys/fs/cgroup/pod/memory.max", "1000000");
    saved.write("sys/fs/cgroup/memory.max", "4000000");
    assert_eq!(memory_limit(saved.root()), Some(1_000_000));
    let v1 = Saved::new(&epyc(2));
    v1.write(
        "proc/mounts",
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0",
    );
    v1.write("proc/self/cgroup", "5:memory:/job");
    v1.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000");
    assert_eq!(memory_limit(v1.root()), Some(3_000_000));
}

#[test]
fn groups_with_cpusets_are_told_from_the_own_one_upwards() {
    let saved = Saved::new(&epyc(2));
    assert_eq!(cpuset_groups(saved.root()), None);
    let paths = |names: &[&str]| names.iter().map(|name| saved.root().join(name)).collect();
    in_cgroup_v2(&saved);
    let groups = [
        "sys/fs/cgroup/pod/app",
        "sys/fs/cgroup/pod",
        "sys/fs/cgroup",
    ];
    saved.write("sys/fs/cgroup/pod/app/cgroup.procs", "");
    assert_eq!(cpuset_groups(saved.root()), Some((2, paths(&groups))));

    // Beside v2 without the controller, as systemd's hybrid hierarchy has them.
    let saved = Saved::new(&epyc(2));
    let paths = |names: &[&str]| names.iter().map(|name| saved.root().join(name)).collect();
    saved.write(
        "proc/mounts",
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0",
    );
    saved.write("proc/self/cgroup", "3:cpuset:/job\n0::/");
    saved.write("sys/fs/cgroup/unified/cgroup.controllers", "memory");
    saved.write("sys/fs/cgroup/cpuset/job/cpuset.cpus", "0-3");
    let groups = ["sys/fs/cgroup/cpuset/job", "sys/fs/cgroup/cpuset"];
    assert_eq!(cpuset_groups(saved.root()), Some((1, paths(&groups))));
}

#[test]
fn sparse_cpu_numbers_keep_their_names() {
    let mut rows = epyc(2);
    for row in &mut rows {
        row.cpu = row.cpu * 70 + 5;
    }
    let machine = read(&Saved::new(&rows));
    assert_eq!(machine.domains()[1].cores[0].cpus, [285, 845]);
    assert_eq!(machine.cpu_count(), 16);
}

#[test]
fn a_hybrid_desktop_under_one_l3_is_one_domain() {
    // Two P-cores with SMT and an L2 each, one cluster of four E-cores with one L2.
    let row = |cpu, core, l2| Cpu {
        cpu,
        core,
        l2: Some(l2),
        l3: Some((0, 24 << 10)),
        die: 0,
        package: 0,
        node: 0,
    };
    let mut rows: Vec<Cpu> = (0..4)
        .map(|cpu| row(cpu, cpu / 2, (cpu / 2, 1280)))
        .collect();
    rows.extend((4..8).map(|cpu| row(cpu, cpu, (9, 2048))));
    let saved = Saved::new(&rows);
    let machine = read(&saved);
    assert_eq!(
        (
            machine.level(),
            machine.domains().len(),
            machine.core_count()
        ),
        (Level::L3, 1, 6)
    );

    let by_l2 = Topology::from_sysfs(saved.root(), LevelChoice::L2).unwrap();
    assert_eq!(cpus(&by_l2), [vec![0, 1], vec![2, 3], vec![4, 5, 6, 7]]);
    assert_eq!(by_l2.domains()[2].cache_bytes, 2 << 20);
}

/// Eight cores in two clusters with an L2 each.
fn two_clusters() -> Saved {
    let row = |cpu| Cpu {
        cpu,
        core: cpu,
        l2: Some((cpu / 4, 2048)),
        l3: None,
        die: 0,
        package: 0,
        node: 0,
    };
    Saved::new(&(0..8).map(row).collect::<Vec<_>>())
}

fn speeds(saved: &Saved) -> Vec<f64> {
    let machine = read(saved);
    let speed = |domain: &chiplet_topology::Domain| (domain.speed() * 100.0).round() / 100.0;
    machine.domains().iter().map(speed).collect()
}

#[test]
fn cores_count_by_the_capacity_that_the_kernel_tells() {
    let saved = two_clusters();
    assert_eq!(speeds(&saved), [1.0, 1.0]);
    for cpu in 0..8 {
        // An Arm machine of two kinds, of which none need be of 1024.
        let capacity = if cpu < 4 { "512" } else { "800" };
        saved.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"),
            capacity,
        );
    }
    assert_eq!(speeds(&saved), [0.64, 1.0]);
    assert!(read(&saved).to_string().contains("4 cores of speed 0.64"));
    // If it is not told of all, it is not known.
    std::fs::remove_file(
        saved
            .root()
            .join("sys/devices/system/cpu/cpu3/cpu_capacity"),
    )
    .unwrap();
    assert_eq!(speeds(&saved), [1.0, 1.0]);
}

#[test]
fn cores_of_an_intel_hybrid_count_by_the_frequency_of_their_kind() {
    let saved = two_clusters();
    for cpu in 0..8 {
        // One of the fast kind is favoured.
        let frequency = match cpu {
            2 => "5800000",
            0..4 => "5400000",
            _ => "4350000",
        };
        let file = "cpufreq/cpuinfo_max_freq";
        saved.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/{file}"),
            frequency,
        );
    }
    assert_eq!(speeds(&saved), [1.0, 1.0], "frequencies alone mean nothing");
    saved.write("sys/devices/cpu_core/cpus", "0-3");
    assert_eq!(speeds(&saved), [1.0, 1.0], "one kind only");
    saved.write("sys/devices/cpu_atom/cpus", "4-7");
    assert_eq!(speeds(&saved), [1.0, 0.75]);
    let capacities = |machine: &Topology| -> Vec<u32> {
        let cores = machine.domains().iter().flat_map(|domain| &domain.cores);
        cores.map(|core| core.capacity).collect()
    };
    let machine = read(&saved);
    assert_eq!(
        capacities(&machine),
        [1024, 1024, 1024, 1024, 768, 768, 768, 768]
    );
    let restricted = machine.restricted_to(&[3, 4]).unwrap();
    assert_eq!(capacities(&restricted), [1024, 768]);
    let given = machine.with_domains(&"2-5".parse().unwrap()).unwrap();
    assert_eq!(given.domains()[0].speed(), 0.875);
    saved.write("sys/devices/cpu_atom/cpus", "four to seven");
    let error = Topology::from_sysfs(saved.root(), LevelChoice::Auto).unwrap_err();
    assert!(error.to_string().contains("cpu_atom/cpus"), "{error}");
}

#[test]
fn cores_outside_the_l3_form_a_domain_of_their_own() {
    let mut rows = epyc(1);
    rows.extend((8..10).map(|cpu| Cpu {
        cpu,
        core: cpu,
        l2: Some((50, 2048)),
        l3: None,
        die: 0,
        package: 0,
        node: 0,
    }));
    let machine = read(&Saved::new(&rows));
    assert_eq!(machine.level(), Level::L3);
    assert_eq!(cpus(&machine), [vec![0, 1, 2, 3, 4, 5, 6, 7], vec![8, 9]]);
    assert_eq!(machine.domains()[1].cache_bytes, 2 << 20);
}

#[test]
fn l3s_may_differ_in_size() {
    let mut rows = epyc(2);
    for row in rows.iter_mut().filter(|row| row.l3 == Some((0, 32 << 10))) {
        row.l3 = Some((0, 96 << 10));
    }
    let sizes: Vec<u64> = read(&Saved::new(&rows))
        .domains()
        .iter()
        .map(|d| d.cache_bytes >> 20)
        .collect();
    assert_eq!(sizes, [96, 32]);
}

/// Zen 1: four CCXs of four cores, two to a die, each die a NUMA node.
fn zen1() -> Vec<Cpu> {
    (0..16)
        .map(|cpu| Cpu {
            cpu,
            core: cpu,
            l2: Some((cpu, 512)),
            l3: Some((cpu / 4, 8 << 10)),
            die: cpu / 8,
            package: 0,
            node: cpu / 8,
        })
        .collect()
}

#[test]
fn two_ccxs_of_a_die_are_told_apart_and_near() {
    let machine = read(&Saved::new(&zen1()));
    assert_eq!(machine.domains().len(), 4);
    let distances = [0, 1, 2, 3].map(|other| machine.distance(DomainId(0), DomainId(other)));
    assert_eq!(
        distances,
        [
            Distance::Same,
            Distance::SameDie,
            Distance::SamePackage,
            Distance::SamePackage
        ]
    );
    assert_eq!(
        machine.nearest(DomainId(3)).collect::<Vec<_>>(),
        [2, 0, 1].map(DomainId)
    );
}

#[test]
fn a_zen2_whose_kernel_tells_no_dies_pairs_its_ccxs_by_the_numbers_of_their_l3s() {
    let mut rows = zen1();
    for row in &mut rows {
        (row.die, row.node) = (0, 0);
        // One CCX is fused off: L3 numbers 0, 2, 3 and 4.
        row.l3 = row
            .l3
            .map(|(id, kib)| (if id == 0 { 0 } else { id + 1 }, kib));
    }
    let saved = Saved::new(&rows);
    saved.write(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49",
    );
    let machine = read(&saved);
    let near = |a, b| machine.distance(DomainId(a), DomainId(b));
    assert_eq!(near(0, 1), Distance::SameNode);
    assert_eq!(near(1, 2), Distance::SameDie);
    assert_eq!(near(2, 3), Distance::SameNode);
}

#[test]
fn private_l2s_without_an_l3_fall_back_to_the_numa_node() {
    let mut rows = zen1();
    rows.iter_mut().for_each(|row| row.l3 = None);
    let saved = Saved::new(&rows);
    let machine = read(&saved);
    assert_eq!((machine.level(), machine.domains().len()), (Level::Node, 2));
    assert_eq!(machine.domains()[1].cache_bytes, 0);

    let asked = Topology::from_sysfs(saved.root(), LevelChoice::L3);
    assert!(
        matches!(
            asked,
            Err(TopologyError::NoSuchLevel {
                asked: Level::L3,
                ..
            })
        ),
        "{asked:?}"
    );
}

#[test]
fn a_machine_that_tells_of_no_cache_and_no_node_is_one_domain() {
    let saved = Saved::new(&[]);
    for cpu in 0..4 {
        saved.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus"),
            &mask(std::iter::once(cpu)),
        );
    }
    saved.write("sys/devices/system/cpu/online", "0-3");
    let machine = read(&saved);
    assert_eq!(
        (machine.level(), cpus(&machine)),
        (Level::Machine, vec![vec![0, 1, 2, 3]])
    );
}

#[test]
fn an_l3_of_each_core_is_a_domain_of_one_core() {
    let mut rows = zen1();
    rows.iter_mut()
        .for_each(|row| row.l3 = Some((row.core, 32 << 10)));
    let machine = read(&Saved::new(&rows));
    assert_eq!((machine.level(), machine.domains().len()), (Level::L3, 16));
}

#[test]
fn shared_l2s_under_one_l3_are_the_domains() {
    let mut rows = zen1();
    for row in &mut rows {
        (row.l2, row.l3) = (Some((row.core / 4, 4096)), Some((0, 96 << 10)));
    }
    let machine = read(&Saved::new(&rows));
    assert_eq!((machine.level(), machine.domains().len()), (Level::L2, 4));
}

#[test]
fn a_folder_without_a_machine_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    for root in [folder.path(), &folder.path().join("missing")] {
        let error = Topology::from_sysfs(root, LevelChoice::Auto).unwrap_err();
        assert!(matches!(error, TopologyError::NotATree { .. }));
        assert!(
            error.to_string().contains("hwloc-gather-topology"),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_file_is_named() {
    let saved = Saved::new(&epyc(1));
    saved.write("sys/devices/system/cpu/online", "0-4294967295");
    let error = Topology::from_sysfs(saved.root(), LevelChoice::Auto).unwrap_err();
    assert!(matches!(error, TopologyError::Garbage { .. }));
    let message = error.to_string();
    assert!(
        message.contains("cpu/online") && message.contains("4294967295"),
        "{message}"
    );
}

#[test]
fn a_cpuset_without_any_cpu_of_the_machine_is_an_error() {
    let saved = Saved::new(&epyc(1));
    in_cgroup_v2(&saved);
    saved.write("sys/fs/cgroup/pod/app/cpuset.cpus.effective", "40-47");
    let error = Topology::from_sysfs(saved.root(), LevelChoice::Auto).unwrap_err();
    assert!(
        matches!(error, TopologyError::NothingLeft { .. }),
        "{error}"
    );
}
