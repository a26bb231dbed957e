//! Tests of all readers of machines, in one program: `cargo test --test it large::` runs those of a file.

#[path = "../common/checks.rs"]
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod given_domains;
#[path = "../common/inputs.rs"]
#[cfg(target_os = "linux")]
mod inputs;
mod invariants;
mod large;
mod numa_memory;
#[cfg(target_os = "linux")]
mod seeds;
#[cfg(target_os = "linux")]
mod strange_trees;
mod sysfs_trees;
mod this_machine;
mod virtual_machines;
