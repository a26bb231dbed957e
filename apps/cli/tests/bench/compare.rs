//! `chiplet compare` on what `chiplet bench` wrote.

use std::path::Path;
use std::process::{Command, Output};

use super::{bench, check_refused};

fn compare(first: &Path, second: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chiplet"))
        .arg("compare")
        .args([first, second])
        .output()
        .expect("the command can be run")
}

#[test]
fn two_runs_are_put_side_by_side_from_json_and_from_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (json, page) = (file("a.json"), file("b.html"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let strategies = ["--strategy", "rayon,ccd-aware"];
    let first = bench(
        folder.path(),
        &[&strategies[..], &["--json", &path(&json)]].concat(),
    );
    assert!(first.status.success(), "{first:?}");
    let more = [
        "--rows",
        "300",
        "--no-sweep",
        "--strategy",
        "rayon,ccd-aware,global-steal",
    ];
    let second = bench(
        folder.path(),
        &[&more[..], &["--report", &path(&page)]].concat(),
    );
    assert!(second.status.success(), "{second:?}");

    let output = compare(&json, &page);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for said in [
        "A: a.json",
        "B: b.html",
        "workload: what differs",
        "generator: no difference",
        "ratio to rayon in the same run",
        "only in B: global-steal",
    ] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    let rows = text
        .lines()
        .find(|line| line.trim_start().starts_with("rows "));
    let rows = rows.expect("the tables differ in their rows");
    assert!(rows.contains("A: 200") && rows.contains("B: 300"), "{rows}");

    // A run beside itself differs in nothing.
    let same = compare(&json, &json);
    let text = String::from_utf8(same.stdout).unwrap();
    assert!(text.contains("machine: no difference"), "{text}");
    assert!(
        !text.contains("higher in B") && !text.contains("lower in B"),
        "{text}"
    );
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    let refused = |words: &[&str]| check_refused(&["compare"], &compare(&file, &file), words);
    refused(&["notes.txt cannot be read"]);
    std::fs::write(&file, "some text").unwrap();
    refused(&["notes.txt is no report", "--json"]);
    std::fs::write(&file, "{\"date\": 3}").unwrap();
    refused(&["notes.txt is no report of this version", "again"]);
}
