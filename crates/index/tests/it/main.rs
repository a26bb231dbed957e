//! Tests of all tables, in one program: `cargo test --test it ivf::` runs those of a file.
//!
//! Apart from it is `stopped`, which counts the threads of its process.

mod adopt;
mod any;
#[path = "../common/mod.rs"]
mod common;
mod copied;
mod copies;
mod edge_cases;
mod faiss_file;
#[cfg(feature = "faiss")]
mod faiss_file_of_faiss;
mod files;
mod filters;
mod flat;
mod found;
mod hnsw;
mod hnsw_few_bits;
mod hnsw_fit;
mod hnsw_ranges;
mod hnsw_rows;
#[cfg(feature = "hnsw_rs")]
mod hnsw_rs;
mod hnswlib;
mod ids;
#[cfg(feature = "faiss")]
mod ivf;
#[cfg(feature = "faiss")]
mod ivf_build;
#[cfg(feature = "faiss")]
mod ivf_file;
mod ivf_full;
#[cfg(feature = "faiss")]
mod ivf_instructions;
#[cfg(feature = "faiss")]
mod ivf_mapped;
#[cfg(feature = "faiss")]
mod ivf_refined;
mod keyed;
#[cfg(all(feature = "faiss", target_os = "linux"))]
mod openmp;
mod refined;
mod save_keeps;
mod saving;
mod search_each;
mod seeds;
