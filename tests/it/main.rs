//! The library's tests, in one program: `cargo test --test it splitting::` runs those of a file.
//!
//! Apart from it are those that need a process of their own: `allocations`, `faults` and `soak`.

#[path = "../common/mod.rs"]
mod common;

mod abuse;
mod batches;
mod block_refusals;
mod blocking;
mod blocks;
mod classes;
mod containment;
mod context;
mod copying;
mod counts;
mod cpu_changes;
mod crowds;
mod deadlines;
mod genoa;
#[cfg(feature = "faiss")]
mod glove;
mod helping;
mod limits;
#[cfg(feature = "metrics")]
mod metrics;
mod par_map;
mod placing;
mod promises;
mod readme;
mod refined;
mod replacing;
mod reports;
mod shards;
mod shutdown;
mod spilling;
mod splitting;
mod stress;
mod waiting;
