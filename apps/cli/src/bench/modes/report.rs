//! What `chiplet bench --modes` found: the values behind the text and the JSON.
//!
//! Units are in the names, as in the report of strategies.

use serde::Serialize;

use super::super::report::Machine;

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// When the run began, UTC.
    pub(super) date: String,
    /// The command line that gives this report again.
    pub(super) command: String,
    pub(super) machine: Machine,
    pub(super) workload: Workload,
    /// In the order in which they were asked for; ratios are to the first.
    pub(super) modes: Vec<Mode>,
    pub(super) uses: Vec<Use>,
    /// What a reader should know before believing the figures, a sentence each.
    pub(super) notes: Vec<String>,
}

/// What was asked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Workload {
    /// `search` or `ranking`.
    pub(super) model: String,
    pub(super) data: String,
    pub(super) kind: String,
    pub(super) tables: usize,
    pub(super) rows: usize,
    pub(super) dims: usize,
    pub(super) k: usize,
    pub(super) bytes: u64,
    pub(super) table_skew: f64,
    pub(super) rounds: usize,
    pub(super) round_s: f64,
    pub(super) warmup_s: f64,
    pub(super) seed: u64,
    /// What processes are pinned to: `NUMA node`, or `L2 domain` and the like where there is one node.
    pub(super) nodes_are: String,
    /// Cpus of each.
    pub(super) nodes: Vec<String>,
    /// Cores that the processes may use together; use is a share of their time.
    pub(super) cores: usize,
    /// Cpus that the senders have to themselves; `None` if they share the processes'.
    pub(super) sender_cpus: Option<String>,
}

/// One way to deploy the service.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mode {
    pub(super) name: String,
    pub(super) processes: usize,
    /// Of all processes.
    pub(super) threads: usize,
    /// Of all processes.
    pub(super) table_bytes: u64,
    /// As `--strategy` names it.
    pub(super) strategy: String,
    /// `cpuset (cgroup v2)`, `affinity`, or nothing.
    pub(super) pinned_by: Option<String>,
    /// Why not all processes have a cpuset.
    pub(super) not_in_cpusets: Option<String>,
    /// kernel.numa_balancing while it was measured, where it was set.
    pub(super) autonuma: Option<bool>,
}

/// All modes at one processor use.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Use {
    /// From 0 to 1.
    pub(super) wanted: f64,
    pub(super) modes: Vec<Figures>,
}

/// One mode at one processor use: medians of rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) mode: String,
    /// Requests a second that were sent: the rate that was searched.
    pub(super) rate_qps: f64,
    /// Processor use of all processes, from 0 to 1: the median, the least and the most.
    pub(super) used: [f64; 3],
    /// Answers a second.
    pub(super) throughput_qps: f64,
    /// Answers for the same processor time, to the first mode: the median of the rounds, the least and the most.
    pub(super) throughput_ratio: [f64; 3],
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p99_ratio: [f64; 3],
    /// Processor time of a request.
    pub(super) processor_us: f64,
    /// Requests without an answer, of all rounds.
    pub(super) failed: u64,
    /// More than 5 % of the requests were not answered before their round ended: latency is that of a queue that grows.
    pub(super) piled_up: bool,
    /// Requests of a round.
    pub(super) requests: usize,
    /// Rounds that were run.
    pub(super) rounds: usize,
}
