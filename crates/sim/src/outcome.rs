//! What came of a run: plain figures, all of them modelled.

use serde::Serialize;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The strategy's name.
    pub strategy: String,
    /// The machine's.
    pub machine: String,
    /// Domains and workers.
    pub domains: usize,
    /// Workers.
    pub workers: usize,
    /// Queries sent, from the beginning of the run.
    pub sent: u64,
    /// Queries answered, from the beginning of the run.
    pub answered: u64,
    /// Queries refused since the warm-up.
    pub shed: u64,
    /// Virtual seconds since the warm-up.
    pub seconds: f64,
    /// Queries answered since the warm-up.
    pub counted: u64,
    /// Answers a second.
    pub qps: f64,
    /// From arrival to answer, microseconds.
    pub latency_us: Percentiles,
    /// From arrival to start, microseconds.
    pub wait_us: Percentiles,
    /// The part of workers' time in which they had work.
    pub utilisation: f64,
    /// The part of that in which they waited for caches or memory.
    pub stall_share: f64,
    /// Of the lines that no L2 had, the part that came from memory.
    pub l3_miss_ratio: f64,
    /// Lines from memory for each query.
    pub l3_misses_per_query: f64,
    /// Bytes from memory for each query.
    pub memory_bytes_per_query: f64,
    /// Use of each link, of 1.
    pub links: Vec<f64>,
    /// Use of each socket's memory, of 1.
    pub sockets: Vec<f64>,
    /// Tasks and units taken from the worker's own queue, from its domain, and from other domains.
    pub taken: [u64; 3],
    /// The part of those that crossed domains.
    pub crossing_share: f64,
    /// Changes of the placement.
    pub remaps: Vec<Moved>,
    /// For each table the domains that are home to it at the end, with their parts.
    pub placement: Vec<Vec<(u32, f64)>>,
    /// Answers in each tenth of a second of the run.
    pub timeline: Vec<u64>,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99 % are below this.
    pub p99: f64,
    /// 99.9 % are below this.
    pub p999: f64,
    /// The mean.
    pub mean: f64,
}

/// A change of the placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// Seconds from the beginning of the run.
    pub at: f64,
    /// Tables whose homes changed.
    pub tables: usize,
    /// Bytes that went cold.
    pub cold_bytes: u64,
    /// Why.
    pub reason: String,
}
