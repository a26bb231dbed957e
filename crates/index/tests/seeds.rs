//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.

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
fn hnswlib() {
    run("hnswlib", inputs::hnswlib);
}

#[test]
fn hnsw_rs_dump() {
    run("hnsw_rs_dump", inputs::hnsw_rs_dump);
}

#[test]
fn table_file() {
    run("table_file", inputs::table_file);
}
