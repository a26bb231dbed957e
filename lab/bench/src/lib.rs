//! What chiplet's programs use to measure, in one crate: of `lab`, programs in `apps` name this one alone.
//!
//! | module | holds | feature |
//! |---|---|---|
//! | [`workload`] | data sets, traffic, load, recall, latency | |
//! | [`counters`] | what the processor counted | `counters` |
//! | [`baselines`] | pools that know no domains, and the names of all strategies | `compare` |
//! | [`charts`] | pages and charts | `compare` |
//! | [`hwloc`], [`probe`] | machines of files; cores that are near each other | `compare` |

#[cfg(feature = "counters")]
#[allow(missing_docs, reason = "counters have their names")]
pub mod counters;

#[cfg(feature = "compare")]
pub use chiplet_baselines as baselines;
#[cfg(feature = "compare")]
pub use chiplet_charts as charts;
#[cfg(feature = "compare")]
pub use chiplet_hwloc as hwloc;
#[cfg(feature = "compare")]
pub use chiplet_probe as probe;
pub use chiplet_workload as workload;
