//! What a comparison finds, as JSON.

use std::path::PathBuf;

use chiplet_caches::model::counts::Counts;
use chiplet_caches::model::parts::Part;
use chiplet_caches::seen::{Seen, Told};
use serde::Serialize;

use crate::bounces::{self, Bounces};

/// All of it.
#[derive(Serialize)]
pub struct Record {
    pub note: String,
    pub machine: Part,
    pub constants: Constants,
    pub runs: Vec<Run>,
}

/// What holds for all runs, besides the machine.
#[derive(Serialize)]
pub struct Constants {
    pub qemu: String,
    pub wiring: String,
    pub work: String,
    pub skew: f64,
    pub page_bytes: u64,
    pub quantum_ns: u64,
    pub tables: usize,
    pub rows: usize,
    pub dim: usize,
    /// Candidates of each search.
    pub ef: usize,
    /// Queries of each run that are not counted, and those after them that are.
    pub warm: usize,
    pub queries: usize,
    /// Queries under way for each worker.
    pub under_way: usize,
    /// Where graphs and queries are.
    pub folder: PathBuf,
    pub host_seconds: u64,
}

/// One process. Counts are of the measured queries, and of workers' cores alone; `clients` are the others.
#[derive(Serialize)]
pub struct Run {
    pub strategy: String,
    pub repeat: u64,
    pub queries: u64,
    pub modelled_qps: f64,
    pub modelled_ns: u64,
    /// 50, 90, 99, 99.9 %, and the longest.
    pub modelled_latency_us: [f64; 5],
    pub instructions: u64,
    pub l1_accesses: u64,
    pub l1_misses: u64,
    pub l2_misses: u64,
    pub l3_accesses: u64,
    pub l3_misses: u64,
    pub lines_across: u64,
    /// Of these, lines from one worker's domain to another worker's.
    pub lines_across_workers: u64,
    pub lines_within: u64,
    pub page_walks: u64,
    /// Of the modelled time in which workers ran, the share in which they waited for data.
    pub stalled: f64,
    /// The share in which that data waited in line for a link.
    pub queued: f64,
    /// The share of all cores' time in which workers ran.
    pub busy: f64,
    pub steals: Steals,
    /// How often threads were let apart further than the quantum.
    pub forced: u64,
    pub domains: Vec<Counts>,
    pub clients: Counts,
    pub pairs: Vec<Vec<u64>>,
    #[serde(skip_serializing_if = "Bounces::is_empty")]
    pub bounces: Bounces,
}

/// Where workers took tasks from.
#[derive(Serialize)]
pub struct Steals {
    pub own: u64,
    pub domain: u64,
    pub remote: u64,
    pub remote_share: f64,
}

impl Run {
    pub fn new(
        strategy: &str,
        repeat: u64,
        cores: u32,
        seen: Seen,
        told: Told,
    ) -> anyhow::Result<Self> {
        let bounces = bounces::resolve(&seen)?;
        let mut domains = seen.domains;
        let clients = domains.pop().unwrap_or_default();
        let mut all = Counts::default();
        for domain in &domains {
            all.add(domain);
        }
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let [own, domain, remote] = told.steals;
        let workers = domains.len();
        let between = seen.pairs[..workers].iter().flat_map(|to| &to[..workers]);
        Ok(Self {
            strategy: strategy.to_owned(),
            repeat,
            queries: told.queries,
            modelled_qps: told.qps,
            modelled_ns: seen.nanoseconds,
            modelled_latency_us: told.latencies_ns.map(|time| time as f64 / 1000.0),
            instructions: all.instructions,
            l1_accesses: all.l1_accesses,
            l1_misses: all.l1_misses,
            l2_misses: all.l2_misses,
            l3_accesses: all.l2_misses,
            l3_misses: all.l3_misses,
            lines_across: all.lines_across,
            lines_across_workers: between.sum(),
            lines_within: all.lines_within,
            page_walks: all.page_walks,
            stalled: share(all.stalled_ps, all.ran_ps),
            queued: share(all.queued_ps, all.ran_ps),
            busy: all.ran_ps as f64
                / (seen.nanoseconds as f64 * 1000.0 * workers as f64 * f64::from(cores)),
            steals: Steals {
                own,
                domain,
                remote,
                remote_share: share(remote, own + domain + remote),
            },
            forced: seen.forced,
            domains,
            clients,
            pairs: seen.pairs,
            bounces,
        })
    }
}
