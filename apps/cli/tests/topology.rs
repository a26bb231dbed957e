//! `chiplet topology` as a user runs it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn chiplet(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chiplet"))
        .arg("topology")
        .args(arguments)
        .output()
        .expect("the command can be run")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&chiplet(arguments))).expect("the output is JSON")
}

/// Nothing on standard output, one message that holds `words` on standard error, status 2.
fn refused(arguments: &[&str], words: &[&str]) {
    let output = chiplet(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(
            message.contains(word),
            "{arguments:?}: no {word:?} in {message}"
        );
    }
}

/// A saved machine of two L3s with two cores each.
fn save_machine(root: &Path) {
    let write = |name: String, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for cpu in 0..4 {
        let base = format!("sys/devices/system/cpu/cpu{cpu}");
        write(
            format!("{base}/topology/core_cpus"),
            &format!("{:x}\n", 1 << cpu),
        );
        write(format!("{base}/topology/physical_package_id"), "0\n");
        write(format!("{base}/cache/index3/level"), "3\n");
        write(format!("{base}/cache/index3/size"), "16384K\n");
        write(
            format!("{base}/cache/index3/shared_cpu_map"),
            if cpu < 2 { "3\n" } else { "c\n" },
        );
    }
    write("sys/devices/system/cpu/online".to_owned(), "0-3\n");
}

#[test]
fn this_machine_is_shown_to_a_person_and_to_a_program() {
    let text = stdout(&chiplet(&[]));
    assert!(
        text.contains("domain 0") && text.contains("workers: at most"),
        "{text}"
    );
    let machine = json(&["--json"]);
    assert!(machine["worker_limit"].as_u64().unwrap() >= 1);
    assert!(!machine["domains"].as_array().unwrap().is_empty());
}

#[test]
fn the_json_of_a_saved_machine_is_exactly_this() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    let path = root.path().to_str().unwrap();
    let domain = |id: u32, cores: [[u32; 1]; 2]| serde_json::json!({ "id": id, "cache_bytes": 16 << 20, "node": 0, "package": 0, "cores": cores, "speed": 1.0 });
    let expected = serde_json::json!({
        "source": format!("saved /sys and /proc in {path}"),
        "level": "L3",
        "reason": "L3 is the outermost cache that splits the machine, into 2 parts of 2 cores",
        "domains": [domain(0, [[0], [1]]), domain(1, [[2], [3]])],
        "worker_limit": 4,
        "warnings": [],
        "memory": [],
        "numa_balancing": null,
    });
    assert_eq!(json(&["--sysfs", path, "--json"]), expected);
}

/// Adds files of the memory of nodes: (node, MiB in all, MiB free).
fn save_memory(root: &Path, nodes: &[(u32, u64, u64)], balancing: &str) {
    for (node, total, free) in nodes {
        let folder = root.join(format!("sys/devices/system/node/node{node}"));
        std::fs::create_dir_all(&folder).unwrap();
        let line = |name, mib: u64| format!("Node {node} {name}: {} kB\n", mib << 10);
        let text = line("MemTotal", *total) + &line("MemFree", *free);
        std::fs::write(folder.join("meminfo"), text).unwrap();
    }
    let kernel = root.join("proc/sys/kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    std::fs::write(kernel.join("numa_balancing"), balancing).unwrap();
}

#[test]
fn the_memory_of_each_node_is_shown_with_what_balancing_means() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    let path = root.path().to_str().unwrap();
    let text = || stdout(&chiplet(&["--sysfs", path]));
    assert!(!text().contains("memory:"), "nothing was saved");
    save_memory(root.path(), &[(0, 65_536, 41_000)], "1\n");
    let one = text();
    assert!(
        one.contains("  NUMA node 0  64 GiB, 39 GiB free\n"),
        "{one}"
    );
    assert!(
        !one.contains("balancing"),
        "there is nothing to balance: {one}"
    );
    save_memory(root.path(), &[(1, 512, 108)], "1\n");
    let two = text();
    assert!(
        two.contains("  NUMA node 1  512 MiB, 100 MiB free\n"),
        "{two}"
    );
    assert!(
        two.contains("automatic NUMA balancing: on: ") && two.contains("MemoryPolicy::on"),
        "{two}"
    );
    assert!(two.lines().all(|line| line.len() <= 120), "{two}");
    let machine = json(&["--json", "--sysfs", path, "--domains", "0-1,2-3"]);
    let expected = serde_json::json!([
        { "node": 0, "total_bytes": 64_u64 << 30, "free_bytes": (41_000_u64 - 1024) << 20 },
        { "node": 1, "total_bytes": 512 << 20, "free_bytes": 100 << 20 },
    ]);
    assert_eq!(machine["memory"], expected);
    assert_eq!(machine["numa_balancing"], true);
    for (setting, words) in [("0", "off: "), ("?", "not there: ")] {
        save_memory(root.path(), &[], setting);
        let text = text();
        assert!(text.contains(&format!("balancing: {words}")), "{text}");
    }
}

#[test]
fn damaged_files_of_memory_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    save_memory(root.path(), &[(0, 64, 32), (3, 64, 32)], "yes");
    let path = root.path().to_str().unwrap();
    let file = root.path().join("sys/devices/system/node/node0/meminfo");
    for damaged in [&b""[..], b"\xff\xfe\0", b"Node 0 MemTotal: many kB\n"] {
        std::fs::write(&file, damaged).unwrap();
        let machine = json(&["--json", "--sysfs", path]);
        let memory = machine["memory"].as_array().unwrap();
        assert_eq!(
            (memory.len(), &memory[0]["node"]),
            (1, &serde_json::json!(3))
        );
        assert!(machine["numa_balancing"].is_null());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_copied_and_the_answer_has_each_size() {
    let text = stdout(&chiplet(&["--copy", "--copy-up-to", "64"]));
    for part in ["16 MiB", "64 MiB", "GB/s", "small pages", "moved"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains("256 MiB"), "{text}");
    let measured = json(&["--copy", "--copy-up-to", "16", "--json"]);
    let copies = measured["copies"].as_array().unwrap();
    assert!(!copies.is_empty());
    for copy in copies {
        assert_eq!(copy["bytes"], 16 << 20);
        assert!(copy["small"]["milliseconds"].as_f64().unwrap() > 0.0);
        assert!(copy["huge"]["gb_per_s"].as_f64().unwrap() > 0.0);
        let same = copy["from"] == copy["to"];
        assert!(!same || copy["moved"].is_null(), "{copy}");
    }
}

#[test]
fn copying_is_for_this_machine_and_its_bound_for_copying() {
    refused(&["--copy", "--sysfs", "a"], &["--copy", "--sysfs"]);
    refused(&["--copy", "--probe"], &["--copy", "--probe"]);
    refused(&["--copy-up-to", "64"], &["--copy"]);
    refused(&["--copy", "--copy-up-to", "15"], &["15", "16.."]);
}

#[test]
fn a_saved_machine_is_shown_with_its_neighbours() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    let text = stdout(&chiplet(&["--sysfs", root.path().to_str().unwrap()]));
    for part in [
        "2 domains, 4 cores, 4 cpus",
        "16 MiB",
        "cpus 2-3",
        "same node 0",
        "taken away: nothing",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn folders_that_hold_no_machine_are_refused() {
    let root = tempfile::tempdir().unwrap();
    refused(
        &["--sysfs", root.path().to_str().unwrap()],
        &["hwloc-gather-topology"],
    );
    refused(&["--sysfs", "/nonexistent", "--json"], &["/nonexistent"]);
}

#[test]
fn a_level_that_the_machine_lacks_is_refused() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    refused(
        &["--sysfs", root.path().to_str().unwrap(), "--level", "l2"],
        &["L2", "L3", "auto"],
    );
    refused(&["--level", "l4"], &["l4", "auto"]);
}

#[test]
fn two_machines_at_once_are_refused() {
    refused(&["--sysfs", "a", "--xml", "b"], &["--sysfs", "--xml"]);
    refused(&["--sysfs", "a", "--probe"], &["--sysfs", "--probe"]);
}

#[test]
fn given_domains_are_shown_or_refused_by_what_is_wrong() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    let path = root.path().to_str().unwrap();
    let machine = json(&["--json", "--sysfs", path, "--domains", "0+2,1+3"]);
    assert_eq!(machine["level"], "Given");
    let cores: Vec<&Value> = machine["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["cores"])
        .collect();
    assert_eq!(
        cores,
        [
            &serde_json::json!([[0], [2]]),
            &serde_json::json!([[1], [3]])
        ]
    );
    for (list, words) in [
        ("0-2,2-3", "cpu 2"),
        ("0-1,7", "no cpu 7"),
        ("0-1,,3", "domain 1 has no cpu"),
        ("0-1;2-3", "0-7,8-15"),
    ] {
        refused(&["--sysfs", path, "--domains", list], &[words]);
    }
    refused(
        &["--domains", "0", "--level", "l3"],
        &["--domains", "--level"],
    );
}

#[test]
fn a_guest_whose_l3s_are_made_up_is_one_domain_unless_told_otherwise() {
    let root = tempfile::tempdir().unwrap();
    save_machine(root.path());
    for cpu in 0..4 {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_map");
        std::fs::write(root.path().join(file), format!("{:x}\n", 1 << cpu)).unwrap();
    }
    let path = root.path().to_str().unwrap();
    let domains = |more: &[&str]| {
        let machine = json(&[&["--json", "--sysfs", path], more].concat());
        let warnings = machine["warnings"].as_array().unwrap().len();
        (machine["domains"].as_array().unwrap().len(), warnings)
    };
    assert_eq!(domains(&[]), (4, 0));
    let cpuinfo = root.path().join("proc/cpuinfo");
    std::fs::create_dir_all(cpuinfo.parent().unwrap()).unwrap();
    std::fs::write(cpuinfo, "flags : fpu hypervisor\n").unwrap();
    assert_eq!(domains(&[]), (1, 1));
    assert_eq!(domains(&["--level", "l3"]), (4, 0));
    assert_eq!(domains(&["--virtual-machine", "no"]), (4, 0));
    assert_eq!(domains(&["--domains", "0-1,2-3"]), (2, 0));
    refused(&["--virtual-machine", "maybe"], &["yes or no"]);
}

#[test]
fn cores_are_measured_and_the_answer_says_what_to_do() {
    let text = stdout(&chiplet(&["--probe"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("nanoseconds"), "{text}");
    let answers = [
        "--domains",
        "nothing to be done",
        "told apart",
        "it takes four",
        "idle",
    ];
    assert!(answers.iter().any(|answer| text.contains(answer)), "{text}");
    let found = json(&["--probe", "--json"]);
    let rows = found["nanoseconds"].as_array().unwrap();
    assert_eq!(rows.len(), found["cpus"].as_array().unwrap().len());
    assert!(rows[0][0].is_null());
    assert_eq!(
        rows[0],
        serde_json::json!(rows.iter().map(|row| &row[0]).collect::<Vec<_>>())
    );
}

#[test]
fn the_help_tells_what_a_domain_is_and_gives_examples() {
    let text = stdout(&chiplet(&["--help"]));
    for part in ["CCD", "Examples:", "worker_limit", "Exit status"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[cfg(feature = "hwloc")]
mod hwloc {
    use super::{chiplet, json, refused, stdout};

    #[test]
    fn a_synthetic_machine_is_shown() {
        let machine = json(&[
            "--json",
            "--synthetic",
            "package:2 l3:6(size=32MiB) core:8 pu:2",
        ]);
        assert_eq!(machine["domains"].as_array().unwrap().len(), 12);
        assert_eq!(
            machine["domains"][11]["cores"][7],
            serde_json::json!([190, 191])
        );
        assert_eq!(machine["worker_limit"], 96);
        let by_l2 = stdout(&chiplet(&[
            "--synthetic",
            "l3:2 l2:4 core:1 pu:1",
            "--level",
            "l2",
        ]));
        assert!(by_l2.starts_with("8 domains"), "{by_l2}");
    }

    #[test]
    fn a_synthetic_machine_may_be_a_virtual_one() {
        let guest = ["--synthetic", "pack:8 l3:1 core:1 pu:1"];
        let shown = |more: &[&str]| stdout(&chiplet(&[&guest, more].concat()));
        assert!(shown(&[]).starts_with("8 domains"));
        let text = shown(&["--virtual-machine", "yes"]);
        assert!(
            text.starts_with("1 domain,") && text.contains("warning:"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 160), "{text}");
    }

    #[test]
    fn bad_synthetic_descriptions_are_refused() {
        for spec in ["", "nonsense", "core:0", "core:70000 pu:70000"] {
            refused(
                &["--json", "--synthetic", spec],
                &["synthetic", "an example"],
            );
        }
    }

    #[test]
    fn bad_xml_is_refused_with_one_message_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.xml");
        let path = file.to_str().unwrap();
        refused(&["--xml", path], &["cannot read", path]);
        let empty = r#"<topology version="2.0"><object type="Machine" os_index="0"/></topology>"#;
        for text in ["", "<topology", "<topology/>", empty] {
            std::fs::write(&file, text).unwrap();
            refused(&["--xml", path], &[path]);
            let lines = String::from_utf8(chiplet(&["--xml", path]).stderr).unwrap();
            assert_eq!(lines.lines().count(), 1, "{text:?}: {lines}");
        }
    }
}
