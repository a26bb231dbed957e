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
    let domain = |id: u32, cores: [[u32; 1]; 2]| serde_json::json!({ "id": id, "cache_bytes": 16 << 20, "node": 0, "package": 0, "cores": cores });
    let expected = serde_json::json!({
        "source": format!("saved /sys and /proc in {path}"),
        "level": "L3",
        "reason": "L3 is the outermost cache that splits the machine, into 2 parts of 2 cores",
        "domains": [domain(0, [[0], [1]]), domain(1, [[2], [3]])],
        "worker_limit": 4,
    });
    assert_eq!(json(&["--sysfs", path, "--json"]), expected);
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
