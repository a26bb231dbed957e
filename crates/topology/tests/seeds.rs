//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.
#![cfg(target_os = "linux")]

#[path = "common/checks.rs"]
mod checks;
mod common;
#[path = "common/inputs.rs"]
mod inputs;

use std::path::Path;

fn run(target: &str, input: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut seeds: Vec<_> = std::fs::read_dir(folder.join(target))
        .expect("each target has seeds")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    for seed in seeds {
        // Captured, and so told only with a failure.
        println!("{}", seed.display());
        input(&std::fs::read(&seed).expect("a seed can be read"));
    }
}

#[test]
fn cpu_sets() {
    run("cpu_sets", inputs::cpu_sets);
}

#[test]
fn sysfs() {
    run("sysfs", inputs::sysfs);
}

#[test]
fn cgroup() {
    run("cgroup", inputs::cgroup);
}
