//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.
#![cfg(feature = "hwloc")]

#[path = "../../topology/tests/common/checks.rs"]
#[allow(dead_code, reason = "the checks of topology's tests are more")]
mod checks;
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
fn hwloc_xml() {
    run("hwloc_xml", inputs::hwloc_xml);
}

#[test]
fn hwloc_synthetic() {
    run("hwloc_synthetic", inputs::hwloc_synthetic);
}
