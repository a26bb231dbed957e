//! What chiplet's programs use to measure, in one crate: of `lab`, programs in `apps` name this one alone.
//!
//! | module | holds | feature |
//! |---|---|---|
//! | [`workload`] | data sets, traffic, load, recall, latency | |
//! | [`output`] | results, files, progress bars | `program` |
//! | [`counters`] | what the processor counted | `counters` |
//! | [`report`], [`stats`] | what a comparison found, and its middle and ends | `compare` |
//! | [`modes`] | ways to deploy a service | `compare` |
//! | [`baselines`] | pools that know no domains, and the names of all strategies | `compare` |
//! | [`recipes`] | workloads as they are written down | `compare` |
//! | [`charts`] | pages and charts | `compare` |
//! | [`hwloc`], [`probe`] | machines of files; cores that are near each other | `compare` |

#[cfg(feature = "counters")]
#[allow(missing_docs, reason = "counters have their names")]
pub mod counters;
#[cfg(feature = "compare")]
pub mod modes;
#[cfg(feature = "program")]
pub mod output;
#[cfg(feature = "compare")]
#[allow(missing_docs, reason = "fields have their names, with units")]
pub mod report;
#[cfg(feature = "compare")]
pub mod stats;

#[cfg(feature = "compare")]
pub use chiplet_baselines as baselines;
#[cfg(feature = "compare")]
pub use chiplet_charts as charts;
#[cfg(feature = "compare")]
pub use chiplet_hwloc as hwloc;
#[cfg(feature = "compare")]
pub use chiplet_probe as probe;
#[cfg(feature = "compare")]
pub use chiplet_recipes as recipes;
pub use chiplet_workload as workload;
