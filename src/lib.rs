//! Vector search where the data is already in cache.
//!
//! `chiplet` is an executor for HNSW and IVF searches on CPUs with several last-level caches (AMD EPYC: one L3
//! for each CCD). It keeps each table's queries on the CCD whose L3 holds the table, splits IVF queries over
//! that CCD's cores, moves tables when traffic shifts, and lets an idle CCD help another only when that costs
//! less than it saves. On a machine with a single L3 it is a plain thread pool with bounded queues.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use chiplet::index::{FlatTable, Metric};
//! use chiplet::{Executor, Query, Topology};
//!
//! // `Executor::builder().build()` detects the machine; here it is made up, to run anywhere.
//! let executor = Executor::builder().topology(Topology::uniform(2, 2, 32 << 20)).build()?;
//! let points = FlatTable::build([0.0, 0.0, 1.0, 0.0, 5.0, 5.0], 2, Metric::L2)?;
//! let table = executor.add_table("points", points);
//!
//! let hits = executor.search(table, Query::new([0.9, 0.1]).top(2)).wait()?;
//! assert_eq!(hits[0].id, 1);
//! let sum = executor.spawn(table, || 1 + 1).wait()?; // any closure, routed the same way
//! assert_eq!(sum, 2);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Ticket`] is a future that any runtime can await; [`Ticket::wait`] blocks a plain thread.
//!
//! # Where to look
//!
//! * [`Executor`]: tables, submitting, counters, shutdown. [`Builder`]: cores, bounds, settings of placement,
//!   splitting and stealing.
//! * [`QueryLimits`], [`TableOptions`], [`Class`]: what one query may ask for, and who comes before whom.
//!   [`Ticket::with_report`]: how one query was served.
//! * [`index`]: HNSW graphs, exact search, and inverted lists of Faiss (feature `faiss`) as tables. Your own index
//!   implements [`Table`], and [`SplitTable`] if its queries can be cut.
//! * [`Context::par_map`]: a closure's or your own table's work on all idle workers of the domain.
//! * [`Topology`]: the machine as a value. The crate `chiplet-topology` has more of it, for tools.
//! * [`docs::service`]: beside a runtime, with back-pressure, metrics, spans, many tables, and an orderly end.
//! * [`docs`]: how it works, and what it does not do.
//!
//! # Features
//!
//! | feature | gives | needs |
//! | --- | --- | --- |
//! | `hwloc` | detection through hwloc beside the Linux reader | libhwloc 2.1+ (Debian: libhwloc-dev, libudev-dev) |
//! | `serde` | settings can be read and written, snapshots written | nothing |
//! | `tracing` | a span for each task, whose parent is the span that is current at the submit | nothing |
//! | `metrics` | `MetricsExport`: all figures for any exporter of the crate [`metrics`](https://docs.rs/metrics) | nothing |
//! | `hnsw_rs` | graphs built with the hnsw_rs crate as an [`index::HnswTable`](chiplet_index), which else builds its own | nothing |
//! | `faiss` | [`index::IvfTable`](chiplet_index) over Faiss, which is built with it | cmake 3.24+, a C++ compiler, OpenBLAS |
//!
//! Features only add. Without any no C library is needed.

#[cfg(feature = "metrics")]
pub use chiplet_executor::MetricsExport;
pub use chiplet_executor::{
    Block, BuildError, Builder, Class, Error, Executor, OfTable, PlannerConfig, QueryLimits,
    QueryParameter, Refused, Report, SplitConfig, StealConfig, StealLevel, SubmitError, TableError,
    TableId, TableOptions, Ticket,
};
pub use chiplet_index as index;
pub use chiplet_policy::TriggerConfig;
pub use chiplet_table as table;
pub use chiplet_table::{Context, Filter, Neighbor, Probe, Query, SearchError, SplitTable, Table};
pub use chiplet_topology as topology;
pub use chiplet_topology::pin::Pin;
pub use chiplet_topology::{DomainId, Topology};

/// How an executor ends: [`Executor::shutdown`].
pub mod shutdown {
    pub use chiplet_executor::{Shutdown, ShutdownReport, Stopping};
}

/// What an executor tells of itself: [`Executor::snapshot`], and where its tables are at home.
pub mod snapshot {
    pub use chiplet_executor::{
        Counts, DomainSnapshot, Home, Homes, Latencies, Placement, Rates, RemapEvent, RemapReason,
        Snapshot, Steals, TableMove, TableSnapshot, WorkerInfo,
    };
}

/// Claims on more than one answer: of batches, blocks, searches of several tables, and with a [`Report`].
pub mod ticket {
    pub use chiplet_executor::{Answers, BlockAnswers, MultiSearch, MultiSearchPart, WithReport};
}

/// The project's documents.
///
/// # Other pages
///
/// They are about measuring more than about using the library. The package has them in its folder `docs`.
///
/// | page | about |
/// | --- | --- |
/// | `advisor.md` | other programs on NUMA nodes: `chiplet advise` and `chiplet balance` |
/// | `demo.md` | what `make demo` does |
/// | `deployment.md` | ways to deploy a service |
/// | `emulated-caches.md` | the shipped executor on modelled cores |
/// | `keyed-rows.md` | values by key, beside maps and stores |
/// | `learning.md` | what models learn of the gain by binding |
/// | `measuring.md` | measuring your machine |
/// | `paper.md` | the claims of arXiv 2605.10090, beside figures of our own |
/// | `performance.md` | figures |
/// | `row-formats.md` | how a graph keeps its rows |
/// | `simulation.md` | the simulator, and what it says |
/// | `validation.md` | the simulator beside emulated caches and real runs |
pub mod docs {
    // In a checkout pages link each other's files. Here they are not files: of two definitions of a link the first counts.
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/correctness.md")]
    pub mod correctness {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/design.md")]
    pub mod design {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/limitations.md")]
    pub mod limitations {}
    #[doc = include_str!("../docs/service.md")]
    pub mod service {}
    #[doc = include_str!("../docs/topology.md")]
    pub mod topology {}
}

/// Runs the README's code as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
