//! Tests of the server, in one program: `cargo test --test it session::` runs those of a file.
//!
//! Apart from it is `process`, whose tests change or measure their whole process.

mod admin_port;
#[cfg(target_os = "linux")]
mod amplified;
mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod connections;
#[cfg(target_os = "linux")]
mod counted_memory;
mod damaged;
mod few_files;
mod filters;
mod leftovers;
mod liveness;
mod memory_limit;
mod operation;
mod pages;
mod quantized;
mod raw_calls;
mod sample;
mod saved_indexes;
mod scheduling;
mod security;
mod session;
#[cfg(target_os = "linux")]
mod slow_disk;
mod strangers;
