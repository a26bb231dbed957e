//! Tests of the workloads, in one program: `cargo test --test it readers::` runs those of a file.

mod committed_sample;
#[cfg(feature = "hdf5")]
mod hdf5;
#[path = "../common/inputs.rs"]
mod inputs;
mod readers;
mod seeds;
mod traffic;
mod truth_cache;
mod vector_set;
