//! What a run of `chiplet bench` found: the values behind its text, its JSON and its page, which other programs read.
//!
//! Units are in the names: `_us` microseconds, `_qps` queries per second, `_s` seconds. A value that this
//! machine or this strategy cannot give is `None` (`null`), never zero.

pub mod counted;
pub mod file;
#[doc(hidden)]
pub mod fixture;
pub mod parts;

use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// When the run began, UTC, as `2026-11-21T07:30:00Z`.
    pub date: String,
    /// The command line that gives this report again.
    pub command: String,
    pub machine: Machine,
    pub workload: Workload,
    pub generator: Generator,
    /// In the order in which they were asked for; ratios are to the first.
    pub strategies: Vec<Strategy>,
    /// Latency at several rates, for the chart; empty if no sweep was asked for.
    pub load_curve: Vec<CurvePoint>,
    /// The same comparison at several sizes or on several numbers of domains; empty if it was made once.
    #[serde(default)]
    pub scaling: Vec<ScalePoint>,
    /// Where tables were over time, for strategies that place them.
    pub placements: Vec<PlacementHistory>,
    /// What a reader should know before believing the figures, a sentence each.
    pub notes: Vec<String>,
}

/// Where it ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub kernel: String,
    /// Logical processors this process may use.
    pub cpus: usize,
    pub cores: usize,
    /// Cpus of a core: 2 with SMT on.
    pub smt: usize,
    pub packages: usize,
    pub nodes: usize,
    /// Cache level that makes a domain, as `L3`.
    pub level: String,
    pub domains: usize,
    /// Each domain, in the order of their numbers.
    pub layout: Vec<Domain>,
    /// What the container or the caller took away, a sentence each.
    pub taken_away: Vec<String>,
    /// Under whom it runs as a virtual machine; `None` on bare metal, as far as the processor tells.
    pub hypervisor: Option<String>,
    /// How the kernel sets clock rates, as `performance`; `None` where it does not say, as in most virtual machines.
    pub governor: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Reserved huge pages of 2 MiB.
    pub reserved_huge_pages: Option<u64>,
    /// Bytes of the smallest and the largest domain's cache.
    pub domain_cache_bytes: [u64; 2],
    pub memory_bytes: Option<u64>,
    /// Whether hardware counters could be read, and if not, why.
    pub counters: String,
    /// Load average over one minute when the run began: other processes' work shows here.
    pub load_average: Option<f64>,
    /// Whether the kernel moves pages by itself (`kernel.numa_balancing`); `None` where it does not say.
    #[serde(default)]
    pub numa_balancing: Option<bool>,
    #[serde(flatten, default)]
    pub settings: KernelSettings,
    pub version: String,
}

/// How the kernel was set; each `None` where it does not say, as in reports of before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelSettings {
    /// The words of the kernel's command line that change what is measured, as `mitigations=off nosmt`.
    pub command_line: Option<String>,
    /// `on`, `off`, `forceoff`, `notsupported`.
    pub smt_control: Option<String>,
    /// `disabled`, or `enabled:` with the scheduler's name.
    pub sched_ext: Option<String>,
    /// Linux' own scheduling by cache (`SCHED_CACHE`): `on`, `off`, or why that is not known.
    pub cache_aware_scheduling: Option<String>,
}

/// Cores that share a cache, as the run had them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// As `0-7,96-103`.
    pub cpus: String,
    pub cores: usize,
    pub cache_bytes: u64,
    pub package: u32,
    pub node: u32,
}

/// Who sent the queries, and whether they could keep up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Generator {
    /// Threads that answered, of each strategy.
    pub workers: usize,
    /// Threads that sent; of a closed loop the clients.
    pub senders: usize,
    /// Cpus that the senders had to themselves; `None` if they shared the workers'.
    pub own_cpus: Option<String>,
    /// Queries per second that the senders make and note with a pool that answers at once, measured before the rounds.
    pub limit_qps: f64,
    /// That limit over the highest throughput of a strategy. Near 1 the senders, not the strategies, were compared.
    pub headroom: f64,
}

/// What was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// `synthetic clusters`, `GloVe sample`, or a file's name.
    pub data: String,
    /// `hnsw`, `ivf` or `mixed`.
    pub kind: String,
    /// `chiplet HNSW`, `usearch`, `faiss`, as used.
    pub indexes: Vec<String>,
    pub tables: usize,
    /// What tables of these sizes can show on this machine.
    pub verdict: String,
    pub rows: usize,
    pub dims: usize,
    pub k: usize,
    pub ef: usize,
    pub nprobe: usize,
    /// Lists of each IVF table; `None` without such tables, or where `--factory` says it.
    pub lists: Option<usize>,
    /// Different queries.
    pub queries: usize,
    /// The workload file, where the tables are of one: its text, or the name of a built-in one.
    #[serde(default)]
    pub recipe: Option<String>,
    /// Tables of each kind in place of the file's.
    #[serde(default)]
    pub recipe_tables: Option<usize>,
    /// What all tables' rows were multiplied by.
    #[serde(default = "one")]
    pub size: f64,
    /// Bytes of vectors and links over all tables.
    pub bytes: u64,
    pub table_skew: f64,
    pub query_skew: f64,
    /// `saturated`, `open loop, Poisson`, `open loop, bursty`, `closed loop, 16 clients`.
    pub arrivals: String,
    /// Queries that were kept under way, where so many were.
    pub outstanding: Option<usize>,
    /// Queries per second that were sent, where a rate was set.
    pub rate_qps: Option<f64>,
    /// The measured saturation of the first strategy, where it was measured.
    pub saturation_qps: Option<f64>,
    /// Seconds after which the hot set moves within a round.
    pub flip_s: Option<f64>,
    pub deadline_us: Option<f64>,
    pub rounds: usize,
    pub round_s: f64,
    pub warmup_s: f64,
    pub seed: u64,
}

fn one() -> f64 {
    1.0
}

/// A comparison at one size, on so many domains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScalePoint {
    pub domains: usize,
    /// Threads that answered, of each strategy.
    pub workers: usize,
    /// What all tables' rows were multiplied by.
    pub size: f64,
    /// Bytes of all tables.
    pub bytes: u64,
    /// Of all domains' caches; 0 where they are not known.
    pub cache_bytes: u64,
    pub strategies: Vec<ScaledStrategy>,
}

/// A strategy at one point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaledStrategy {
    pub name: String,
    pub throughput_qps: f64,
    /// The rounds' throughputs.
    pub rounds_qps: Vec<f64>,
}

/// Latency from the intended send time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

/// Tasks and scan units by where workers took them from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steals {
    pub own: u64,
    pub domain: u64,
    pub remote: u64,
    /// Tasks that their submit queued away from home. Of older reports `remote` has them.
    #[serde(default)]
    pub moved: u64,
}

/// One strategy's figures: medians over its rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Strategy {
    /// As asked for on the command line, with `+usearch` where the graph index was that.
    pub name: String,
    pub throughput_qps: f64,
    pub latency_us: Latency,
    pub recall_at_10: f64,
    /// `None` for peers that do not say.
    pub steals: Option<Steals>,
    pub ratio_to_first: Ratios,
    /// Lowest and highest ratio of any round to the first strategy's round of the same number.
    pub ratio_spread: RatioSpread,
    /// The table with the highest p99.
    pub worst_table: WorstTable,
    /// Answers within the deadline, per second; `None` but for an open loop. Where a number of queries is kept
    /// outstanding, latency is that number over throughput, and so nearly all answers are in time or none.
    pub goodput_qps: Option<f64>,
    /// Jain's fairness index over tables of answered / asked: 1 is even, 1/tables is one table only.
    pub fairness_jain: f64,
    /// Processor time over wall time: 2.0 is two cores busy. The whole process, load generator included.
    pub cpu_cores: f64,
    /// The same for the threads that send, together.
    pub sender_cores: f64,
    /// The busiest of them: at 1 it could send no more.
    pub busiest_sender: f64,
    /// How late queries were sent, p99: part of every latency.
    pub send_lag_p99_us: Option<f64>,
    /// Queries refused or failed.
    pub refused: u64,
    pub remaps: Option<u64>,
    pub counters: Option<Counters>,
    /// What became of latency when the hot set moved; `None` if it did not.
    pub flip: Option<Adaptation>,
    pub rounds: Vec<Round>,
}

/// Latency around a move of the hot set, over all rounds together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Adaptation {
    /// p99 before the move.
    pub steady_p99_us: f64,
    /// Seconds from the move until p99 over a second is within a tenth of `steady_p99_us`; `None` if it never was.
    pub recovered_after_s: Option<f64>,
    /// The worst p99 over a second after the move.
    pub worst_p99_us: f64,
    /// p99 by quarter second of the round: when the quarter begins, and its p99.
    pub p99_us: Vec<[f64; 2]>,
}

/// To the first strategy: the median over rounds of each round's own ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    pub throughput: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

/// `[lowest, highest]` of the rounds' ratios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioSpread {
    pub throughput: [f64; 2],
    pub p50: [f64; 2],
    pub p99: [f64; 2],
    pub p999: [f64; 2],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorstTable {
    pub name: String,
    pub latency_us: Latency,
}

/// Per query, from the hardware; each `None` where the kernel does not grant that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    pub cycles: Option<f64>,
    pub instructions: Option<f64>,
    /// Lines from beyond the own L3: those of the sources below, and on AMD those of `prefetched_beyond_l3`, where that
    /// was counted. A run of too few rounds for all groups of events lacks it, and then this has less.
    pub llc_misses: Option<f64>,
    /// Share of cycles in which the back end waited.
    pub stalled_share: Option<f64>,
    /// Where lines came from. AMD (Zen 3 and later) counts what the first-level data cache took in, by loads and
    /// prefetches. Intel (server parts) counts loads that retired: a line that a prefetch brought in time counts as a
    /// hit of the cache where it was.
    pub from_own_l3: Option<f64>,
    /// Of another domain, on Intel of another socket.
    pub from_other_l3: Option<f64>,
    /// Memory of the own NUMA node.
    pub from_memory: Option<f64>,
    pub from_remote_memory: Option<f64>,
    /// Zen 4 and later.
    pub from_cxl: Option<f64>,
    /// AMD (Zen 3 and later): lines that the L2's hardware prefetchers brought into it from the own L3. Scans come this
    /// way. The first-level cache then finds them in the L2, so they are in no source above. A line that a load asks
    /// for while its prefetch is still under way may be in both. On Zen 3 the first-level cache's own prefetches are in
    /// here too, and so twice.
    #[serde(default)]
    pub prefetched_own_l3: Option<f64>,
    /// The same from beyond the own L3; another L3 and memory are not told apart.
    #[serde(default)]
    pub prefetched_beyond_l3: Option<f64>,
    /// AMD: misses over requests of all L3s of the machine, by whatever ran meanwhile, the load generator included.
    #[serde(default)]
    pub l3_miss_ratio: Option<f64>,
}

/// One round of one strategy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    pub throughput_qps: f64,
    pub latency_us: Latency,
    /// Medians and p99 by tenth of the round, for what changes within it.
    pub p99_us_by_tenth: Vec<f64>,
}

/// One rate of the sweep, one strategy, medians over its rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurvePoint {
    pub strategy: String,
    /// Share of the first strategy's saturation.
    pub load: f64,
    pub rate_qps: f64,
    pub throughput_qps: f64,
    pub latency_us: Latency,
}

/// The homes of the hottest tables of one strategy, over the time it was under load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlacementHistory {
    pub strategy: String,
    pub domains: usize,
    /// Length in seconds: the strategy's rounds one after the other.
    pub length_s: f64,
    /// Hottest first.
    pub tables: Vec<PlacedTable>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlacedTable {
    pub name: String,
    /// Share of all queries that went to it.
    pub share: f64,
    /// Main home from each time on; the first is at 0.
    pub homes: Vec<Placed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    pub at_s: f64,
    pub domain: u32,
}
