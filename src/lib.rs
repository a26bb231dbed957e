#![doc = include_str!("../docs/front.md")]

pub use chiplet_executor::{
    BuildError, Builder, Counts, DomainSnapshot, Error, Executor, Home, Homes, Latencies, Neighbor,
    Placement, PlannerConfig, Probe, QUEUE_PER_WORKER, Query, Rates, Refused, RemapEvent, RemapReason,
    SearchError, Shutdown, ShutdownReport, Snapshot, SplitConfig, SplitTable, StealConfig, Steals,
    Strategy, SubmitError, Table, TableId, TableMove, TableSnapshot, Ticket, Work, WorkerInfo,
    merge_nearest,
};
pub use chiplet_index as index;
pub use chiplet_policy as policy;
pub use chiplet_topology as topology;
pub use chiplet_topology::pin::Pin;
pub use chiplet_topology::{DomainId, LevelChoice, Topology};
