//! What is read of NUMA memory, of saved machines and of this one.

use crate::common::{Cpu, Saved, epyc};
use chiplet_topology::{NodeMemory, NumaMemory, numa_balancing, room_on};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A machine with two nodes of cpus and files of their memory: 64 and 32 MiB, of which 40 and 20 are free.
fn two_nodes() -> Saved {
    let row = |cpu| Cpu {
        cpu,
        core: cpu,
        l2: None,
        l3: None,
        die: 0,
        package: cpu,
        node: cpu,
    };
    let saved = Saved::new(&[row(0), row(1)]);
    meminfo(&saved, 0, &[("MemTotal", 64), ("MemFree", 40)]);
    meminfo(&saved, 1, &[("MemTotal", 32), ("MemFree", 20)]);
    saved
}

fn file_of(node: u32) -> String {
    format!("sys/devices/system/node/node{node}/meminfo")
}

/// Writes a node's file; figures in MiB.
fn meminfo(saved: &Saved, node: u32, figures: &[(&str, u64)]) {
    let line = |(name, mib): &(&str, u64)| format!("Node {node} {name}:  {} kB", mib << 10);
    let lines: Vec<String> = figures.iter().map(line).collect();
    saved.write(&file_of(node), &lines.join("\n"));
}

/// Bytes of each node: all and free.
fn nodes(saved: &Saved) -> Vec<(u32, u64, u64)> {
    let memory = NumaMemory::read(saved.root());
    let row = |node: &NodeMemory| (node.node, node.total_bytes, node.free_bytes);
    memory.nodes().iter().map(row).collect()
}

fn room(saved: &Saved, nodes: &[u32]) -> Option<u64> {
    NumaMemory::read(saved.root()).room_on(nodes)
}

#[test]
fn each_node_tells_its_memory_and_room_is_their_sum() {
    let saved = two_nodes();
    // Less the 1/64 that the kernel is left.
    let expected = [(0, 64 * MIB, 39 * MIB), (1, 32 * MIB, 20 * MIB - MIB / 2)];
    assert_eq!(nodes(&saved), expected);
    assert_eq!(room(&saved, &[0]), Some(39 * MIB));
    assert_eq!(room(&saved, &[1]), Some(20 * MIB - MIB / 2));
    let both = Some(59 * MIB - MIB / 2);
    assert_eq!(room(&saved, &[0, 1]), both);
    assert_eq!(room(&saved, &[1, 0, 0, 1]), both, "each counts once");
    assert_eq!(room(&saved, &[]), both, "anywhere");
    assert_eq!(room(&saved, &[0, 2]), None, "there is no node 2");
}

#[test]
fn file_cache_counts_unless_it_is_mapped_and_what_the_kernel_keeps_does_not() {
    let saved = two_nodes();
    let mut figures = vec![
        ("MemTotal", 64),
        ("MemFree", 10),
        ("Active(anon)", 1),
        ("Inactive(anon)", 2),
        ("Active(file)", 8),
        ("Inactive(file)", 4),
        ("FilePages", 13),
    ];
    meminfo(&saved, 0, &figures);
    assert_eq!(room(&saved, &[0]), Some(21 * MIB));
    figures.push(("Mapped", 5));
    meminfo(&saved, 0, &figures);
    assert_eq!(room(&saved, &[0]), Some(16 * MIB));
    saved.write("proc/sys/vm/min_free_kbytes", "2048");
    assert_eq!(room(&saved, &[0]), Some(14 * MIB));
    // Shared memory that is mapped is no file cache.
    figures.push(("Mapped", 5));
    figures[4].1 = 0;
    meminfo(&saved, 0, &figures);
    assert_eq!(room(&saved, &[0]), Some(7 * MIB));
    saved.write("proc/sys/vm/min_free_kbytes", "1048576");
    assert_eq!(room(&saved, &[0]), Some(0));
}

#[test]
fn a_node_without_cpus_or_without_memory_is_a_node() {
    let saved = two_nodes();
    meminfo(&saved, 4, &[("MemTotal", 128), ("MemFree", 128)]);
    meminfo(&saved, 1, &[("MemTotal", 0), ("MemFree", 0)]);
    assert_eq!(nodes(&saved)[1..], [(1, 0, 0), (4, 128 * MIB, 126 * MIB)]);
}

#[test]
fn a_kernel_that_knows_no_nodes_has_one() {
    let saved = Saved::new(&epyc(1));
    std::fs::remove_dir_all(saved.root().join("sys/devices/system/node")).unwrap();
    assert_eq!(nodes(&saved), []);
    assert_eq!(room(&saved, &[]), None);
    let text = "MemTotal:  65536 kB\nMemFree:  32768 kB\nMemAvailable:  65536 kB";
    saved.write("proc/meminfo", text);
    assert_eq!(nodes(&saved), [(0, 64 * MIB, 31 * MIB)]);
    assert_eq!(room(&saved, &[0]), Some(31 * MIB));
}

#[test]
fn a_machine_that_was_saved_without_its_memory_tells_nothing() {
    let saved = Saved::new(&epyc(1));
    assert_eq!(nodes(&saved), []);
    assert_eq!(room(&saved, &[0]), None);
    assert_eq!(NumaMemory::read(saved.root()).balancing(), None);
    assert_eq!(NumaMemory::read("/nonexistent"), NumaMemory::default());
}

#[test]
fn damaged_files_of_a_node_are_left_out() {
    let saved = two_nodes();
    for text in [
        "",
        "\0\0\0",
        "Node 1 MemTotal: 32768 kB",
        "Node 1 MemFree: 32768 kB",
        "Node 1 MemTotal: 32768\nNode 1 MemFree: 32768",
        "Node 1 MemTotal: -1 kB\nNode 1 MemFree: 1 kB",
        "Node 1 MemTotal: 99999999999999999999 kB\nNode 1 MemFree: 1 kB",
        "Node 1 MemTotal: 18446744073709551615 kB\nNode 1 MemFree: 1 kB",
        ":\n: kB\nMemTotal MemFree",
    ] {
        saved.write(&file_of(1), text);
        assert_eq!(nodes(&saved).len(), 1, "{text:?}");
        assert_eq!(room(&saved, &[1]), None, "{text:?}");
        assert_eq!(room(&saved, &[0]), Some(39 * MIB));
    }
    // More is free than there is.
    meminfo(&saved, 1, &[("MemTotal", 32), ("MemFree", 500)]);
    assert_eq!(room(&saved, &[1]), Some(32 * MIB));
    // A folder where the file is to be.
    std::fs::remove_file(saved.root().join(file_of(1))).unwrap();
    std::fs::create_dir(saved.root().join(file_of(1))).unwrap();
    assert_eq!(nodes(&saved).len(), 1);
}

#[test]
fn a_group_of_v2_and_those_above_it_bound_the_room() {
    let saved = two_nodes();
    saved.write("proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0");
    saved.write("proc/self/cgroup", "0::/pod/app");
    saved.write("sys/fs/cgroup/cgroup.controllers", "memory cpuset");
    let app = |file: &str, text: &str| saved.write(&format!("sys/fs/cgroup/pod/app/{file}"), text);
    app("memory.max", "max");
    app("memory.current", "1048576");
    assert_eq!(room(&saved, &[0]), Some(39 * MIB));
    app("memory.max", &(10 * MIB).to_string());
    assert_eq!(room(&saved, &[0]), Some(9 * MIB));
    saved.write("sys/fs/cgroup/pod/memory.max", &(8 * MIB).to_string());
    saved.write("sys/fs/cgroup/pod/memory.current", &(5 * MIB).to_string());
    assert_eq!(room(&saved, &[0, 1]), Some(3 * MIB));
    // Of that 4 MiB are cached files, one of them mapped.
    let stat = format!(
        "anon 1\nfile_mapped {MIB}\ninactive_anon 7\ninactive_file {}\nactive_file {MIB}\nmisc",
        3 * MIB
    );
    saved.write("sys/fs/cgroup/pod/memory.stat", &stat);
    assert_eq!(room(&saved, &[0]), Some(6 * MIB));
    // A group may hold more than it was allowed later.
    app("memory.max", "1000");
    assert_eq!(room(&saved, &[0]), Some(0));
    // What is used is not told: the limit is what is known.
    app("memory.max", &(2 * MIB).to_string());
    app("memory.current", "?");
    assert_eq!(room(&saved, &[0]), Some(2 * MIB));
    app("memory.max", "?");
    assert_eq!(room(&saved, &[0]), Some(6 * MIB));
}

#[test]
fn a_group_of_v1_bounds_the_room_with_all_below_it() {
    let saved = two_nodes();
    let mount = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0";
    saved.write("proc/mounts", mount);
    saved.write("proc/self/cgroup", "5:memory:/job");
    let job =
        |file: &str, text: &str| saved.write(&format!("sys/fs/cgroup/memory/job/{file}"), text);
    job("memory.limit_in_bytes", "9223372036854771712");
    job("memory.usage_in_bytes", "1048576");
    assert_eq!(room(&saved, &[0]), Some(39 * MIB));
    job("memory.limit_in_bytes", &(16 * MIB).to_string());
    job("memory.usage_in_bytes", &(12 * MIB).to_string());
    assert_eq!(room(&saved, &[0]), Some(4 * MIB));
    let stat = format!(
        "active_file 0\ninactive_file 0\nmapped_file 0\ntotal_active_file {}\ntotal_inactive_file {MIB}\n\
         total_mapped_file {MIB}",
        5 * MIB
    );
    job("memory.stat", &stat);
    assert_eq!(room(&saved, &[0]), Some(9 * MIB));
}

#[test]
fn a_node_outside_the_cpuset_has_no_room() {
    let saved = two_nodes();
    saved.write("proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0");
    saved.write("proc/self/cgroup", "0::/pod");
    saved.write("sys/fs/cgroup/cgroup.controllers", "cpuset");
    saved.write("sys/fs/cgroup/pod/cpuset.mems.effective", "0");
    assert_eq!(room(&saved, &[0, 1]), Some(39 * MIB));
    assert_eq!(room(&saved, &[1]), Some(0));
    assert_eq!(nodes(&saved).len(), 2, "they are there all the same");
    // Not a set of nodes: not known.
    saved.write("sys/fs/cgroup/pod/cpuset.mems.effective", "zero");
    assert_eq!(room(&saved, &[1]), Some(20 * MIB - MIB / 2));
}

#[test]
fn numa_balancing_is_on_in_each_of_its_modes() {
    let saved = two_nodes();
    for (text, expected) in [
        ("0", Some(false)),
        ("1", Some(true)),
        ("2", Some(true)),
        ("3", Some(true)),
        ("", None),
        ("on", None),
    ] {
        saved.write("proc/sys/kernel/numa_balancing", text);
        let memory = NumaMemory::read(saved.root());
        assert_eq!(memory.balancing(), expected, "{text:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_tells() {
    let memory = NumaMemory::read("/");
    let nodes: Vec<u32> = memory.nodes().iter().map(|node| node.node).collect();
    assert!(!nodes.is_empty());
    assert!(memory.nodes().iter().any(|node| node.total_bytes > 0));
    let all: u64 = memory.nodes().iter().map(|node| node.total_bytes).sum();
    assert!(room_on(&nodes).unwrap() <= all);
    assert_eq!(room_on(&[u32::MAX]), None);
    assert_eq!(numa_balancing(), memory.balancing());
}

/// A line as kernels write them, or nearly.
fn line() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "MemTotal",
        "MemFree",
        "Active(file)",
        "Inactive(file)",
        "Mapped",
        "Other",
    ]);
    let known = (name, any::<u64>(), 0..64_u32, any::<bool>());
    let known = known.prop_map(|(name, number, shift, unit)| {
        let unit = if unit { " kB" } else { "" };
        format!("Node 0 {name}: {}{unit}", number >> shift)
    });
    prop_oneof![9 => known, 1 => "[ -~]{0,30}"]
}

proptest! {
    #[test]
    fn whatever_the_files_hold_there_is_never_more_room_than_memory(
        lines in prop::collection::vec(line(), 0..12),
        limit in any::<u64>(),
        group in "[ -~\n]{0,80}",
    ) {
        let saved = Saved::new(&[]);
        saved.write(&file_of(0), &lines.join("\n"));
        saved.write("proc/mounts", "none /group cgroup2 rw 0 0");
        saved.write("group/memory.max", &limit.to_string());
        saved.write("group/memory.current", &group);
        saved.write("group/memory.stat", &group);
        let memory = NumaMemory::read(saved.root());
        for node in memory.nodes() {
            prop_assert!(node.free_bytes <= node.total_bytes);
            prop_assert!(memory.room_on(&[0]).unwrap() <= node.free_bytes.min(limit));
        }
        prop_assert_eq!(memory.room_on(&[0]).is_some(), memory.nodes().len() == 1);
    }
}
