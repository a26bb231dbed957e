//! Threads that carry out `chiplet_policy`'s decisions: queues, workers, tickets, counters.
//!
//! Its folders build on each other in this order: `scheduler` (queues, who sleeps, stealing), `engine` (tables,
//! counters, workers, what a task is to them), `jobs` (the tasks), `placement` (homes of tables, cpus of workers), and
//! `executor`, which its users see.

mod block;
#[cfg(all(test, any(chiplet_loom, chiplet_shuttle)))]
mod checks;
mod clock;
mod counts;
mod engine;
mod error;
mod executor;
#[cfg(feature = "metrics")]
mod export;
mod jobs;
mod latencies;
mod limits;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod multi_search;
mod options;
mod placement;
mod report;
mod scheduler;
#[cfg(all(test, chiplet_shuttle))]
mod shuttle_tests;
mod snapshot;
mod sync;
mod ticket;

pub use block::{Block, BlockAnswers};
pub use chiplet_policy::{
    Home, Homes, LeftHome, Placement, PlannerConfig, Rates, RemapReason, SplitConfig, StealConfig,
    TableId,
};
pub use chiplet_table::Class;
pub use chiplet_topology::pin::Pin;
pub use chiplet_topology::{DomainId, LevelChoice, Topology};
pub use counts::{Counts, Steals};
pub use error::{BuildError, Error, OfTable, QueryParameter, Refused, SubmitError, TableError};
pub use executor::Executor;
pub use executor::builder::Builder;
pub use executor::shutdown::{Shutdown, ShutdownReport, Stopping};
#[cfg(feature = "metrics")]
pub use export::MetricsExport;
pub use jobs::batch::Answers;
pub use latencies::Latencies;
pub use limits::QueryLimits;
pub use multi_search::{MultiSearch, MultiSearchPart};
pub use options::TableOptions;
pub use placement::event::{RemapEvent, TableMove};
pub use placement::workers::WorkerInfo;
pub use report::Report;
pub use snapshot::{DomainSnapshot, Snapshot, TableSnapshot};
pub use ticket::{Ticket, WithReport};

#[cfg(feature = "replay")]
#[doc(hidden)]
pub use scheduler::replay::replay;
