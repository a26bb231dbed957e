//! Vector search on CPUs with several L3 caches: tables, and an executor that keeps each table's queries on one L3.
//!
//! * A **table** is an index: a graph, inverted lists, or exact search ([`index`]), or your own type that implements
//!   [`Table`].
//! * A **domain** is a set of cores that share a last-level cache: on an AMD EPYC the cores of one CCD.
//! * The [`Executor`] gives each table a home domain and runs its queries there, so the table stays in that cache. It
//!   moves tables when the load changes, and lets another domain help when waiting would cost more than a cold cache.
//!   On a machine with a single L3 it is a thread pool with bounded queues.
//! * A submit returns a [`Ticket`]: a future that any runtime can await. [`Ticket::wait`] blocks a plain thread.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use chiplet::index::{FlatTable, Metric};
//! use chiplet::{Executor, Query, Topology};
//!
//! // `Executor::builder().build()` detects the machine. This one is made up, so the example runs anywhere.
//! let executor = Executor::builder().topology(Topology::uniform(2, 2, 32 << 20)).build()?;
//! let points = FlatTable::build([0.0, 0.0, 1.0, 0.0, 5.0, 5.0], 2, Metric::L2)?; // three rows of two components
//! let table = executor.add_table("points", points);
//!
//! let hits = executor.search(table, Query::new([0.9, 0.1]).top(2)).wait()?;
//! assert_eq!(hits[0].id, 1); // ids are row numbers
//! let sum = executor.spawn(table, || 1 + 1).wait()?; // any closure, on the table's home
//! assert_eq!(sum, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | to | see |
//! | --- | --- |
//! | build a service: runtime, deadlines, overload, tenants, metrics, shutdown | [`docs::guide`] |
//! | check the machine, deploy, measure | [`docs::tuning`] |
//! | choose how a graph stores its rows | [`docs::row_formats`] |
//! | know what it does not do | [`docs::limitations`] |
//! | submit queries, add and replace tables, read counters | [`Executor`] |
//! | set cores, bounds, splitting, stealing, placement | [`Builder`] |
//! | bound what one query asks for, or weigh tables against each other | [`QueryLimits`], [`TableOptions`], [`Class`] |
//! | see how one query was served | [`Ticket::with_report`] |
//! | run your own index, or cut its queries over cores | [`Table`], [`SplitTable`] |
//! | share a closure's work with the idle workers of its domain | [`Context::par_map`] |
//! | describe a machine by hand | [`Topology`] |
//!
//! # Features
//!
//! | feature | gives | needs |
//! | --- | --- | --- |
//! | `hwloc` | detection through hwloc beside the Linux reader | libhwloc 2.1+ (Debian: libhwloc-dev, libudev-dev) |
//! | `serde` | settings can be read and written, snapshots written | nothing |
//! | `tracing` | a span for each task; its parent is the current span at the submit | nothing |
//! | `metrics` | `MetricsExport`: all figures for any exporter of the crate [`metrics`](https://docs.rs/metrics) | nothing |
//! | `hnsw_rs` | graphs built with the hnsw_rs crate become an [`index::HnswTable`](chiplet_index) | nothing |
//! | `faiss` | [`index::IvfTable`](chiplet_index) is built by Faiss | cmake 3.24+, a C++ compiler, OpenBLAS |
//!
//! Features only add. Without features no C library is needed.

#[cfg(feature = "metrics")]
pub use chiplet_executor::MetricsExport;
pub use chiplet_executor::{
    Block, BuildError, Builder, Class, Error, Executor, LeftHome, OfTable, PlannerConfig,
    QueryLimits, QueryParameter, Refused, Report, SplitConfig, StealConfig, SubmitError,
    TableError, TableId, TableOptions, Ticket,
};
pub use chiplet_index as index;
pub use chiplet_policy::TriggerConfig;
pub use chiplet_table::{Context, Filter, Neighbor, Probe, Query, SearchError, SplitTable, Table};
pub use chiplet_topology::pin::Pin;
pub use chiplet_topology::{DomainId, Topology};

/// How an executor ends: [`Executor::shutdown`].
pub mod shutdown {
    pub use chiplet_executor::{Shutdown, ShutdownReport, Stopping};
}

/// An executor's counters: [`Executor::snapshot`], and its tables' homes.
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

/// What you need to write a [`Table`] of your own, besides the traits.
pub mod table {
    pub use chiplet_table::{IntoTable, TakeAnswer, merge_nearest};
}

/// The machine in detail: [`Topology`]. The crate `chiplet-topology` has more of it, for tools.
pub mod topology {
    pub use chiplet_topology::{
        Core, Domain, DomainList, DomainsError, LevelChoice, ReadOptions, TopologyBuilder,
        TopologyError, Warning,
    };
    /// Binding threads to cores by hand.
    pub mod pin {
        pub use chiplet_topology::pin::{PinError, pin_current_thread, unpinned};
    }
}

/// The project's documents.
///
/// # Pages in the sources
///
/// `docs/benchmarks.md` has the newest figures, with the command of each. `results` has the pages that measured or
/// modelled them: the simulator, emulated caches, validation, ways to deploy.
pub mod docs {
    // In a checkout pages link each other's files. Here they are not files: of two definitions of a link the first
    // counts.
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/guide.md")]
    pub mod guide {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/tuning.md")]
    pub mod tuning {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/row-formats.md")]
    pub mod row_formats {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/limitations.md")]
    pub mod limitations {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/architecture.md")]
    pub mod architecture {}
    #[doc = include_str!("links.md")]
    #[doc = include_str!("../docs/correctness.md")]
    pub mod correctness {}
}

/// Runs the README's code as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
