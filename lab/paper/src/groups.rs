//! What is simulated: groups of runs of the same tables.

use anyhow::Context as _;
use chiplet_index::RowFormat;
use chiplet_sim::{Load, Machine, Prepared, Recipe, Sampling, Scenario};
use rayon::prelude::*;

use crate::runs::{
    ASKED, CCDS, COUNTS, Case, Kind, Results, Run, SHARES, SIZED, SIZES, SWEPT, System, TOPICS,
    topics,
};

/// Runs everything on all cores. `done` is told how many of how many groups of runs are done.
///
/// # Errors
/// If the simulator refuses a case.
pub fn simulate(
    date: String,
    (seed, seeds): (u64, u64),
    queries: u64,
    done: impl Fn(usize, usize) + Sync,
) -> anyhow::Result<Results> {
    let groups = groups(seed, seeds);
    let finished = std::sync::atomic::AtomicUsize::new(0);
    let runs: Vec<Vec<Run>> = groups
        .par_iter()
        .map(|group| {
            let runs = group.run(queries);
            let before = finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            done(before + 1, groups.len());
            runs
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Results {
        modelled: true,
        date,
        seed,
        seeds,
        queries,
        runs: runs.concat(),
        evidence: Vec::new(),
    })
}

/// What is prepared once and run by several systems.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) case: Case,
    pub(crate) systems: Vec<System>,
    pub(crate) ccds: Vec<usize>,
    /// On all CCDs these loads too, in percent of the first system's saturation.
    pub(crate) loads: Vec<u32>,
    /// Of the systems so many of the first are run saturated alone.
    pub(crate) only_saturated: usize,
    pub(crate) seed: u64,
}

/// All of them: the claims and the scaling with so many seeds from the `first`, all else with that.
fn groups(first: u64, seeds: u64) -> Vec<Group> {
    let all = System::ALL.to_vec();
    let case = |kind| Case::full(kind, false, None, 12, System::V0);
    let mut groups = Vec::new();
    for kind in [Kind::Hnsw, Kind::Ivf] {
        for topics in [None, Some(TOPICS)] {
            let case = Case {
                topics,
                ..case(kind)
            };
            groups.extend((first..first + seeds).map(|seed| Group {
                case,
                systems: all.clone(),
                ccds: CCDS.to_vec(),
                loads: vec![50],
                only_saturated: 0,
                seed,
            }));
            groups.push(Group {
                case: Case {
                    genoa: false,
                    ..case
                },
                systems: all.clone(),
                ccds: vec![12],
                loads: Vec::new(),
                only_saturated: 0,
                seed: first,
            });
        }
    }
    for case in swept().chain(sized()) {
        let is_there = |group: &Group| group.case == case && group.ccds.contains(&12);
        if !groups.iter().any(is_there) {
            groups.push(Group {
                case,
                systems: all[1..].to_vec(),
                ccds: vec![12],
                loads: Vec::new(),
                only_saturated: 0,
                seed: first,
            });
        }
    }
    groups
}

/// The cells of the sweep over locality.
fn swept() -> impl Iterator<Item = Case> {
    SWEPT.into_iter().flat_map(|(kind, four_bits, _)| {
        let of_share = |share| COUNTS.map(|count| Some(topics(share, count)));
        let grid = SHARES.into_iter().flat_map(of_share);
        std::iter::once(None)
            .chain(grid)
            .map(move |topics| Case::full(kind, four_bits, topics, 12, System::V0))
    })
}

/// The cells of the sweep over sizes.
fn sized() -> impl Iterator<Item = Case> {
    SIZED.into_iter().flat_map(|(kind, _)| {
        SIZES.into_iter().flat_map(move |rows| {
            ASKED.map(|(topics, query_skew, _)| Case::sized(kind, rows, topics, query_skew))
        })
    })
}

impl Group {
    fn run(&self, queries: u64) -> anyhow::Result<Vec<Run>> {
        let machine = Machine::preset(match self.case.genoa {
            true => "genoa-9654",
            false => "rome-7k62",
        })?;
        self.run_on(&machine, &self.prepared()?, queries)
    }

    /// Its tables, and what their queries read.
    pub(crate) fn prepared(&self) -> anyhow::Result<Prepared> {
        let (case, seed) = (self.case, self.seed);
        let name = match case.kind {
            Kind::Hnsw => "paper-hnsw",
            Kind::Ivf => "paper-ivf",
        };
        let recipe = Recipe::built_in(name).with_context(|| format!("{name} is built in"))?;
        // Topics are of different queries: none is asked more often than another.
        let skew = case.query_skew.or(case.topics.map(|_| 0.0));
        let recipe = recipe.skewed(None, skew).resized(case.rows);
        let recipe = match case.four_bits {
            true => recipe.kept(Some(RowFormat::Sq4), Some(RowFormat::F16))?,
            false => recipe,
        };
        let sampling = Sampling {
            seed,
            ..Sampling::default()
        };
        let workload = recipe.about(case.topics).workload(seed);
        Ok(Prepared::new(workload, sampling, |_| {}))
    }

    /// Its runs, on a machine of its kind.
    pub(crate) fn run_on(
        &self,
        machine: &Machine,
        prepared: &Prepared,
        queries: u64,
    ) -> anyhow::Result<Vec<Run>> {
        let (case, seed) = (self.case, self.seed);
        let mut runs = Vec::new();
        for &ccds in &self.ccds {
            let machine = match case.genoa {
                true => machine.with_domains(ccds)?,
                false => machine.clone(),
            };
            let loads = self.loads.iter().filter(|_| ccds == 12);
            let mut saturated = 0.0;
            for percent in std::iter::once(None).chain(loads.copied().map(Some)) {
                let left_out = percent.map_or(0, |_| self.only_saturated);
                for &system in &self.systems[left_out..] {
                    let mut scenario =
                        Scenario::new(&machine, prepared, system.strategy(case.kind))
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
                        ..case
                    };
                    runs.push(Run::of(case, seed, &outcome));
                }
            }
        }
        Ok(runs)
    }
}
