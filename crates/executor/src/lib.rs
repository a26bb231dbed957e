//! Threads that carry out `chiplet_policy`'s decisions: queues, workers, tickets, counters.

mod balance;
mod batch;
mod builder;
mod cell;
#[cfg(all(test, any(chiplet_loom, chiplet_shuttle)))]
mod checks;
mod context;
mod cores;
mod counts;
mod crew;
mod current;
mod error;
mod executor;
mod filter;
mod latencies;
mod ledger;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod registry;
mod scheduler;
mod search;
mod shared;
#[cfg(all(test, chiplet_shuttle))]
mod shuttle_tests;
mod snapshot;
mod submit_batch;
mod sync;
pub mod table;
mod task;
mod ticket;
mod timer;
mod worker;

pub use balance::{RemapEvent, TableMove};
pub use batch::Answers;
pub use builder::{Builder, QUEUE_PER_WORKER};
pub use chiplet_policy::{
    Home, Homes, Placement, PlannerConfig, Rates, RemapReason, SplitConfig, StealConfig, Strategy,
    TableId,
};
pub use chiplet_topology::pin::Pin;
pub use chiplet_topology::{DomainId, LevelChoice, Topology};
pub use context::Context;
pub use counts::{Counts, Steals};
pub use crew::WorkerInfo;
pub use error::{BuildError, Error, Refused, SubmitError};
pub use executor::{Executor, Shutdown, ShutdownReport};
pub use filter::Filter;
pub use latencies::Latencies;
pub use snapshot::{DomainSnapshot, Snapshot, TableSnapshot};
pub use table::{Neighbor, Probe, Query, SearchError, SplitTable, Table, merge_nearest};
pub use ticket::Ticket;
