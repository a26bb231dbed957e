//! What a vector-search benchmark needs besides the system under test: data, truth, traffic, load and latency.
//!
//! - [`dataset`]: vectors from the usual files (`.fvecs`, `.bvecs`, `.fbin`, `.u8bin`, `.npy`, and HDF5 with
//!   the feature `hdf5`), from the repository's GloVe sample, or synthetic.
//! - [`truth`]: exact neighbours, kept on disk if wanted, and recall against them.
//! - [`traffic`]: seeded streams of arrivals, skewed over tables and over queries, whose hot set may flip.
//! - [`load`]: sends such a stream in real time, open loop.
//! - [`latency`]: histograms of what came back, and their percentiles.
//! - [`fairness`]: how evenly that was shared out.
//!
//! Two rules hold throughout. **Same seed, same stream**: whatever is random is drawn from a named,
//! portable generator (ChaCha8), so two strategies can be compared on the very same queries. **No
//! coordinated omission**: a request's latency counts from the time at which it should have been sent, so
//! a system that stalls cannot hide the requests it kept from being sent.
//!
//! The crate knows nothing of executors or indexes; the closure that sends a query is the whole contract.

pub mod dataset;
pub mod fairness;
pub mod latency;
pub mod load;
mod metric;
pub mod traffic;
pub mod truth;
