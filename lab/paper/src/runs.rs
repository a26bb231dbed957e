//! The runs that the claims are judged by, and the file that keeps them.

use anyhow::Context as _;
use chiplet_baselines::Strategy;
use chiplet_sim::{Outcome, Topics};
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

use crate::spread::Spread;

/// Graphs or lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The paper's 60 HNSW tables.
    Hnsw,
    /// The paper's 15 IVF tables.
    Ivf,
}

/// The systems that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Round-robin for graphs, one team over all cores for lists.
    V0,
    /// Work stealing that does not know the machine.
    V1,
    /// The paper's.
    V2,
    /// chiplet's defaults.
    Ours,
}

/// What a run is of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Genoa; else Rome.
    pub genoa: bool,
    /// Graphs or lists.
    pub kind: Kind,
    /// Rows of 4 bits a component, re-ranked with f16; else f32.
    pub four_bits: bool,
    /// Queries near each other, if any are.
    pub topics: Option<Topics>,
    /// Zipf exponent over a table's queries, instead of the paper's 0.8 or of topics' 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_skew: Option<f64>,
    /// Rows of each table, as a part of the paper's.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub rows: f64,
    /// CCDs.
    pub ccds: usize,
    /// Who runs.
    pub system: System,
    /// Percent of V0's saturation; none: saturated.
    pub load: Option<u32>,
}

fn whole() -> f64 {
    1.0
}

fn is_whole(rows: &f64) -> bool {
    *rows == 1.0
}

/// A run, and what it gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What it is of.
    #[serde(flatten)]
    pub case: Case,
    /// Same seed, same tables and queries.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Answers a second.
    pub qps: f64,
    /// From arrival to answer, microseconds.
    pub p50_us: f64,
    /// The same.
    pub p999_us: f64,
    /// Of L3 accesses, the part that misses.
    pub l3_misses: f64,
    /// Of the time with work, the part in which workers wait for memory.
    pub stalled: f64,
    /// Tasks taken from a worker's own queue, from its CCD and from another one.
    pub taken: [u64; 3],
}

/// That of runs which were kept before several seeds were run.
fn first_seed() -> u64 {
    1
}

fn one_seed() -> u64 {
    1
}

/// All that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Says so to whoever reads the file.
    pub modelled: bool,
    /// The day of the runs.
    pub date: String,
    /// The first seed, with which everything is run.
    pub seed: u64,
    /// So many seeds in a row, with which the claims and the scaling are run.
    #[serde(default = "one_seed")]
    pub seeds: u64,
    /// Queries that are counted in each run.
    pub queries: u64,
    /// All runs.
    pub runs: Vec<Run>,
    /// What emulated caches and machines gave for the paper's tables, with fewer rows.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// The topics of the table of claims: 80 % of a table's queries near one of 4 centres, three quarters of rows in
/// common.
pub const TOPICS: Topics = topics(0.8, 4);

/// Parts of queries, and topics of each table, of the sweep.
pub const SHARES: [f64; 3] = [0.5, 0.8, 0.95];
/// The same.
pub const COUNTS: [u32; 4] = [1, 4, 16, 64];
/// The rows of that sweep: the kind of tables, whether rows have 4 bits, and how they are called.
pub const SWEPT: [(Kind, bool, &str); 3] = [
    (Kind::Hnsw, false, "HNSW, f32 rows"),
    (Kind::Hnsw, true, "HNSW, 4-bit rows"),
    (Kind::Ivf, false, "IVF, f32 rows"),
];
/// Rows of the sweep over sizes, as parts of the paper's.
pub const SIZES: [f64; 3] = [0.1, 1.0 / 3.0, 1.0];
/// The tables of that sweep, and how they are called.
pub const SIZED: [(Kind, &str); 2] = [(Kind::Hnsw, "HNSW"), (Kind::Ivf, "IVF")];
/// What is asked in it: topics or a skew over a table's queries, and what it is called.
pub const ASKED: [(Option<Topics>, Option<f64>, &str); 5] = [
    (None, None, "Zipf 0.8"),
    (None, Some(1.5), "Zipf 1.5"),
    (Some(topics(0.5, 4)), None, "50 % near 4 centres"),
    (Some(topics(0.8, 4)), None, "80 % near 4 centres"),
    (Some(topics(0.95, 4)), None, "95 % near 4 centres"),
];
/// CCDs of the sweep over them.
pub const CCDS: [usize; 5] = [1, 2, 4, 8, 12];

/// Topics as they are swept.
pub const fn topics(share: f64, count: u32) -> Topics {
    Topics {
        share,
        count,
        spread: 0.3,
    }
}

impl System {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::V0, Self::V1, Self::V2, Self::Ours];

    /// The strategy that it is, for tables of a kind.
    pub(crate) fn strategy(self, kind: Kind) -> Strategy {
        match (self, kind) {
            (Self::V0, Kind::Hnsw) => Strategy::ROUND_ROBIN,
            (Self::V0, Kind::Ivf) => Strategy::FORK_JOIN,
            (Self::V1, _) => Strategy::GLOBAL_STEAL,
            (Self::V2, _) => Strategy::CCD_AWARE_BYTES,
            (Self::Ours, _) => Strategy::CCD_AWARE,
        }
    }
}

impl Case {
    /// A saturated run on a Genoa.
    pub fn full(
        kind: Kind,
        four_bits: bool,
        topics: Option<Topics>,
        ccds: usize,
        system: System,
    ) -> Self {
        Self {
            genoa: true,
            kind,
            four_bits,
            topics,
            query_skew: None,
            rows: 1.0,
            ccds,
            system,
            load: None,
        }
    }

    /// A saturated run on all CCDs of a Genoa, of tables with this part of the paper's rows.
    pub fn sized(kind: Kind, rows: f64, topics: Option<Topics>, query_skew: Option<f64>) -> Self {
        Self {
            rows,
            query_skew,
            ..Self::full(kind, false, topics, 12, System::V0)
        }
    }
}

/// Of tasks that were stolen within a CCD and across, the part that crossed; 0 if none was.
pub(crate) fn crossing(within: f64, across: f64) -> f64 {
    across / (within + across).max(1.0)
}

impl Run {
    /// Of the tasks that were stolen, the part that crossed CCDs; 0 if none was.
    pub fn crossing(&self) -> f64 {
        let [_, within, across] = self.taken.map(|tasks| tasks as f64);
        crossing(within, across)
    }

    pub(crate) fn of(case: Case, seed: u64, outcome: &Outcome) -> Self {
        // Three digits more than the page shows; the last ones of a sum depend on nothing but its order.
        let short = |value: f64| (value * 1e6).round() / 1e6;
        Self {
            case,
            seed,
            qps: outcome.qps.round(),
            p50_us: short(outcome.latency_us.p50),
            p999_us: short(outcome.latency_us.p999),
            l3_misses: short(outcome.l3_miss_ratio),
            stalled: short(outcome.stall_share),
            taken: outcome.taken,
        }
    }
}

impl Results {
    /// A figure of this case's run, of each seed that it was run with.
    ///
    /// # Errors
    /// If there is no run of it.
    pub fn of(&self, case: Case, figure: impl Fn(&Run) -> f64) -> anyhow::Result<Spread> {
        self.each(case, |run| Ok(figure(run)))
    }

    /// How many times as large a figure is with `system` as with another, saturated, of each seed.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn to(&self, case: Case, other: System, figure: fn(&Run) -> f64) -> anyhow::Result<Spread> {
        let other = Case {
            system: other,
            ..case
        };
        self.to_case(case, other, figure)
    }

    /// How many times as large a figure of one case is as that of another, of each seed.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn to_case(
        &self,
        case: Case,
        other: Case,
        figure: fn(&Run) -> f64,
    ) -> anyhow::Result<Spread> {
        self.each(case, |run| {
            Ok(figure(run) / figure(self.find(other, run.seed)?))
        })
    }

    /// Whether the sweep over sizes was run.
    pub fn has_sizes(&self) -> bool {
        self.runs.iter().any(|run| !is_whole(&run.case.rows))
    }

    /// How many times V1's throughput a system's is, saturated.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn gain(&self, case: Case, system: System) -> anyhow::Result<Spread> {
        self.to(Case { system, ..case }, System::V1, |run| run.qps)
    }

    /// What `figure` makes of this case's run of each seed.
    fn each(
        &self,
        case: Case,
        figure: impl Fn(&Run) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Spread> {
        let runs = self.runs.iter().filter(|run| run.case == case);
        let figures = runs.map(figure).collect::<anyhow::Result<Vec<_>>>()?;
        Spread::of(figures).with_context(|| missing(case))
    }

    /// The run of a case with a seed.
    ///
    /// # Errors
    /// If the file has none.
    pub fn find(&self, case: Case, seed: u64) -> anyhow::Result<&Run> {
        let mut runs = self.runs.iter();
        let run = runs.find(|run| run.case == case && run.seed == seed);
        run.with_context(|| missing(case))
    }

    /// The seeds of the claims.
    pub fn all_seeds(&self) -> std::ops::Range<u64> {
        self.seed..self.seed + self.seeds
    }
}

fn missing(case: Case) -> String {
    format!("there is no run of {case:?}: run make paper again")
}
