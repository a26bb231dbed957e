//! `chiplet simulate` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chiplet"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the command was built with this test")
}

/// Small tables that two domains hold together.
const WORKLOAD: &str = "name = 'small'\ntable_skew = 0.5\n[[tables]]\nkind = 'hnsw'\ncount = 6\nrows = [1100, 2000]\n\
                        dims = [64]\n";

fn run(folder: &Path, name: &str) -> (String, String) {
    let (workload, json) = (folder.join("small.toml"), folder.join(name));
    let page = folder.join("page.html");
    std::fs::write(&workload, WORKLOAD).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let output = simulate(&[
        "--machine",
        "rome-7k62",
        "--domains",
        "1,2",
        "--loads",
        "50",
        "--queries",
        "2000",
        "--workload",
        &path(&workload),
        "--json",
        &path(&json),
        "--report",
        &path(&page),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(std::fs::read_to_string(page).unwrap().contains("modelled"));
    let text = String::from_utf8(output.stdout).unwrap();
    (text, std::fs::read_to_string(json).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (text, first) = run(folder.path(), "first.json");
    let (_, second) = run(folder.path(), "second.json");
    assert!(first == second);
    assert!(text.starts_with("modelled: small on rome-7k62"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(report["modelled"], true);
    // Four strategies, saturated and at one load, on one and on two domains.
    assert_eq!(report["runs"].as_array().unwrap().len(), 16);
}

#[test]
fn what_cannot_be_used_is_named() {
    for (arguments, named) in [
        (["--machine", "epyc"], "genoa-9654"),
        (["--workload", "nothing.toml"], "paper-hnsw"),
        (["--domains", "13"], "1 to 12"),
        (["--strategy", "ccd"], "ccd-aware"),
        (["--size", "0"], "--size"),
    ] {
        let arguments = [&arguments[..], &["--tables", "1", "--queries", "100"]].concat();
        let output = simulate(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
