//! What a comparison finds, as JSON: written by `chiplet-caches run`, read by `chiplet-validate`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::counts::Counts;
use crate::model::parts::Part;

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// That everything is modelled, and by what.
    pub note: String,
    /// The processor.
    pub machine: Part,
    /// What holds for all runs.
    pub constants: Constants,
    /// One for each strategy and repeat.
    pub runs: Vec<RunRecord>,
}

/// What holds for all runs, besides the machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Constants {
    /// The emulator's version.
    pub qemu: String,
    /// Which domain runs on which.
    pub wiring: String,
    /// What the workers do.
    pub work: String,
    /// Popularity of the n-th table is n to the minus this.
    pub skew: f64,
    /// Size of all pages.
    pub page_bytes: u64,
    /// How far threads may be apart in modelled time.
    pub quantum_ns: u64,
    /// Tables.
    pub tables: usize,
    /// The workload whose tables they are, if they are one's.
    #[serde(default)]
    pub workload: Option<String>,
    /// What rows were multiplied by.
    #[serde(default)]
    pub size: f64,
    /// Rows of each.
    pub rows: usize,
    /// Components of a row.
    pub dim: usize,
    /// How they are kept, and how a second time.
    pub rows_as: String,
    /// Candidates of each search.
    pub ef: usize,
    /// Queries of each run that are not counted.
    pub warm: usize,
    /// Queries after them that are.
    pub queries: usize,
    /// Queries under way for each worker.
    pub under_way: usize,
    /// Where graphs and queries are.
    pub folder: PathBuf,
    /// How long all runs took here.
    pub host_seconds: u64,
}

/// One process. Counts are of the measured queries, and of workers' cores alone; `clients` are the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its strategy.
    pub strategy: String,
    /// Its number.
    pub repeat: u64,
    /// Queries that were counted.
    pub queries: u64,
    /// Queries a second of modelled time.
    pub modelled_qps: f64,
    /// Modelled length of the phase.
    pub modelled_ns: u64,
    /// 50, 90, 99, 99.9 %, and the longest.
    pub modelled_latency_us: [f64; 5],
    /// Instructions.
    pub instructions: u64,
    /// Lines asked of the first level.
    pub l1_accesses: u64,
    /// Lines that it did not have.
    pub l1_misses: u64,
    /// Lines that the second level did not have.
    pub l2_misses: u64,
    /// Lines asked of the third.
    pub l3_accesses: u64,
    /// Lines that came from memory or from another domain.
    pub l3_misses: u64,
    /// Of these, those that another domain had written.
    pub lines_across: u64,
    /// Of these, lines from one worker's domain to another worker's.
    pub lines_across_workers: u64,
    /// Written lines that went from core to core within a domain.
    pub lines_within: u64,
    /// Pages that no TLB had.
    pub page_walks: u64,
    /// Of the modelled time in which workers ran, the share in which they waited for data.
    pub stalled: f64,
    /// The share in which that data waited in line for a link.
    pub queued: f64,
    /// The share of all cores' time in which workers ran.
    pub busy: f64,
    /// Where workers took tasks from.
    pub steals: Steals,
    /// How often threads were let apart further than the quantum.
    pub forced: u64,
    /// By domain.
    pub domains: Vec<Counts>,
    /// Of all threads that are no workers.
    pub clients: Counts,
    /// `[from][to]`: written lines that crossed.
    pub pairs: Vec<Vec<u64>>,
    /// Which lines crossed, where that was asked for.
    #[serde(default, skip_serializing_if = "Bounces::is_empty")]
    pub bounces: Bounces,
}

/// Where workers took tasks from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Steals {
    /// The queue of their own table's home.
    pub own: u64,
    /// Another's in the same domain.
    pub domain: u64,
    /// Another domain's.
    pub remote: u64,
    /// The share of those.
    pub remote_share: f64,
}

/// Lines that crossed between domains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bounces {
    /// By place, most first.
    pub places: Vec<CodeSite>,
    /// By line, most first.
    pub lines: Vec<Line>,
}

impl Bounces {
    /// Whether none was asked for, or none crossed.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A place of the program, how often a line crossed there, and how many lines these were.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodeSite {
    /// Function, file and line.
    pub place: String,
    /// How often.
    pub times: u64,
    /// How many lines.
    pub lines: usize,
}

/// A line, how often it crossed, and where it was touched then.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Where it lies.
    pub address: String,
    /// How often.
    pub times: u64,
    /// Each place with how often.
    pub places: Vec<String>,
}
