//! The runs that the claims are judged by, and the file that keeps them.

use anyhow::Context as _;
use chiplet_baselines::Strategy;
use chiplet_index::RowFormat;
use chiplet_sim::{Load, Machine, Outcome, Prepared, Recipe, Sampling, Scenario, Topics};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

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
    /// CCDs.
    pub ccds: usize,
    /// Who runs.
    pub system: System,
    /// Percent of V0's saturation; none: saturated.
    pub load: Option<u32>,
}

/// A run, and what it gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What it is of.
    #[serde(flatten)]
    pub case: Case,
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

/// All that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Says so to whoever reads the file.
    pub modelled: bool,
    /// The day of the runs.
    pub date: String,
    /// Same seed, same tables and queries.
    pub seed: u64,
    /// Queries that are counted in each run.
    pub queries: u64,
    /// All runs.
    pub runs: Vec<Run>,
}

/// The topics of the table of claims: 80 % of a table's queries near one of 4 centres, three quarters of rows in common.
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

/// What is prepared once and run by several systems.
#[derive(Clone, Debug)]
struct Group {
    case: Case,
    systems: Vec<System>,
    ccds: Vec<usize>,
    load: Option<u32>,
}

fn groups() -> Vec<Group> {
    let all = vec![System::V0, System::V1, System::V2, System::Ours];
    let case = |kind| Case::full(kind, false, None, 12, System::V0);
    let mut groups = Vec::new();
    for kind in [Kind::Hnsw, Kind::Ivf] {
        for (genoa, topics, ccds) in [
            (true, None, CCDS.to_vec()),
            (true, Some(TOPICS), CCDS.to_vec()),
            (false, None, vec![12]),
            (false, Some(TOPICS), vec![12]),
        ] {
            groups.push(Group {
                case: Case {
                    genoa,
                    topics,
                    ..case(kind)
                },
                systems: all.clone(),
                ccds,
                load: genoa.then_some(50),
            });
        }
    }
    for (kind, four_bits, _) in SWEPT {
        let of_share = |share| COUNTS.map(|count| Some(topics(share, count)));
        let grid = SHARES.into_iter().flat_map(of_share);
        for topics in grid.chain(four_bits.then_some(None)) {
            let case = Case {
                four_bits,
                topics,
                ..case(kind)
            };
            let is_there = |group: &Group| group.case == case && group.ccds.contains(&12);
            if !groups.iter().any(is_there) {
                groups.push(Group {
                    case,
                    systems: all[1..].to_vec(),
                    ccds: vec![12],
                    load: None,
                });
            }
        }
    }
    groups
}

impl Group {
    fn run(&self, seed: u64, queries: u64) -> anyhow::Result<Vec<Run>> {
        let name = match self.case.kind {
            Kind::Hnsw => "paper-hnsw",
            Kind::Ivf => "paper-ivf",
        };
        let recipe = Recipe::built_in(name).with_context(|| format!("{name} is built in"))?;
        // Topics are of different queries: none is asked more often than another.
        let recipe = recipe.skewed(None, self.case.topics.map(|_| 0.0));
        let recipe = match self.case.four_bits {
            true => recipe.kept(Some(RowFormat::Sq4), Some(RowFormat::F16))?,
            false => recipe,
        };
        let sampling = Sampling {
            seed,
            ..Sampling::default()
        };
        let workload = recipe.about(self.case.topics).workload(seed);
        let prepared = Prepared::new(workload, sampling, |_| {});
        let machine = Machine::preset(match self.case.genoa {
            true => "genoa-9654",
            false => "rome-7k62",
        })?;
        let mut runs = Vec::new();
        for &ccds in &self.ccds {
            let machine = match self.case.genoa {
                true => machine.with_domains(ccds)?,
                false => machine.clone(),
            };
            let load = self.load.filter(|_| ccds == 12);
            let mut saturated = 0.0;
            for percent in std::iter::once(None).chain(load.map(Some)) {
                for &system in &self.systems {
                    let mut scenario =
                        Scenario::new(&machine, &prepared, system.strategy(self.case.kind)?)
                            .counting(queries);
                    scenario.seed = seed;
                    scenario.load = match percent {
                        Some(percent) => Load::Open {
                            rate: saturated * f64::from(percent) / 100.0,
                        },
                        None => Load::default(),
                    };
                    let outcome = scenario.run(&mut |_| {});
                    if percent.is_none() && system == self.systems[0] {
                        saturated = outcome.qps;
                    }
                    let case = Case {
                        ccds,
                        system,
                        load: percent,
                        ..self.case
                    };
                    runs.push(Run::of(case, &outcome));
                }
            }
        }
        Ok(runs)
    }
}

impl System {
    fn strategy(self, kind: Kind) -> anyhow::Result<Strategy> {
        let name = match (self, kind) {
            (Self::V0, Kind::Hnsw) => "round-robin",
            (Self::V0, Kind::Ivf) => "fork-join",
            (Self::V1, _) => "global-steal",
            (Self::V2, _) => "ccd-aware-bytes",
            (Self::Ours, _) => "ccd-aware",
        };
        Ok(name.parse()?)
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
            ccds,
            system,
            load: None,
        }
    }
}

impl Run {
    /// Of the tasks that were stolen, the part that crossed CCDs; 0 if none was.
    pub fn crossing(&self) -> f64 {
        let [_, within, across] = self.taken.map(|tasks| tasks as f64);
        across / (within + across).max(1.0)
    }

    fn of(case: Case, outcome: &Outcome) -> Self {
        // Three digits more than the page shows; the last ones of a sum depend on nothing but its order.
        let short = |value: f64| (value * 1e6).round() / 1e6;
        Self {
            case,
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
    /// Runs everything on all cores. `done` is told how many of how many groups of runs are done.
    ///
    /// # Errors
    /// If the simulator refuses a case.
    pub fn simulate(
        date: String,
        seed: u64,
        queries: u64,
        done: impl Fn(usize, usize) + Sync,
    ) -> anyhow::Result<Self> {
        let groups = groups();
        let finished = std::sync::atomic::AtomicUsize::new(0);
        let runs: Vec<Vec<Run>> = groups
            .par_iter()
            .map(|group| {
                let runs = group.run(seed, queries);
                let before = finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                done(before + 1, groups.len());
                runs
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            modelled: true,
            date,
            seed,
            queries,
            runs: runs.concat(),
        })
    }

    /// How many times V1's throughput a system's is, saturated, on 12 CCDs of a Genoa.
    ///
    /// # Errors
    /// If a run is missing.
    pub fn gain(
        &self,
        kind: Kind,
        four_bits: bool,
        topics: Option<Topics>,
        system: System,
    ) -> anyhow::Result<f64> {
        let of = |system| self.qps(Case::full(kind, four_bits, topics, 12, system));
        Ok(of(system)? / of(System::V1)?)
    }

    /// The throughput of a case.
    ///
    /// # Errors
    /// If there is no run of it.
    pub fn qps(&self, case: Case) -> anyhow::Result<f64> {
        Ok(self.find(case)?.qps)
    }

    /// The run of a case.
    ///
    /// # Errors
    /// If the file has none.
    pub fn find(&self, case: Case) -> anyhow::Result<&Run> {
        let run = self.runs.iter().find(|run| run.case == case);
        run.with_context(|| format!("there is no run of {case:?}: run make paper again"))
    }
}
