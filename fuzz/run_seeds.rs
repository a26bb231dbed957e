//! Runs a fuzz target's seeds through its check, for the crates' own tests (`#[path]` in their `tests/it/seeds.rs`).

use std::path::Path;

/// Gives each seed of `target` to `input`, the one that is under way told with a failure.
pub fn run(target: &str, input: fn(&[u8])) {
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
