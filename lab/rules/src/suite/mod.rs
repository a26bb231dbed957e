//! The scenarios: what users' services look like, in virtual time.
//!
//! | file | scenarios |
//! |---|---|
//! | `streams` | one stream of queries over many tables: small ones, one hot one, a hot set that moves, the paper's |
//! | `tenants` | tables with clients of their own: floods, bulk work, deadlines, stalls, lengths, bursts |
//! | `turns` | load that moves from one half of the tables to the other and back |

mod streams;
mod tenants;
mod turns;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, ensure};
use chiplet_baselines::Strategy;
use chiplet_sim::{Costs, Flip, Load, Machine, Prepared, Recipe, Sampling, Scenario};
use chiplet_topology::Topology;

use crate::figures::{Figure, figures};
use crate::kept::Row;

/// Bytes of an L3.
const L3: u64 = 32 << 20;

/// Queries that are sampled to tell what a workload can reach.
const PROBE: u64 = 4_000;

/// Where, what and how much. Everything else is as in an executor that nobody has set.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Its family and what is varied in it: `small tables, 12 domains, 80 %`.
    pub(crate) name: String,
    machine: Machines,
    /// A workload as its file describes it.
    workload: String,
    /// Of what the workload's stream can reach on the machine; `None`: as much as there is room for.
    load: Option<f64>,
    /// Virtual seconds after which the hot set moves.
    flip: Option<f64>,
    /// Queries that are counted, of a stream.
    queries: u64,
    /// No table moves. What that gives is beside the shipped rules alone.
    pub(crate) still: bool,
    seeds: Seeds,
}

/// How many seeds a cell is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seeds {
    All,
    /// Half of them: a run takes a second or more.
    Half,
}

impl Cell {
    /// Whether all of its queries together count, not each kind of clients.
    fn is_whole(&self) -> bool {
        self.name.starts_with("turns")
    }

    /// Its seeds, where so many are asked for.
    pub(crate) fn seeds(&self, all: u64) -> std::ops::RangeInclusive<u64> {
        match self.seeds {
            Seeds::All => 1..=all,
            Seeds::Half => 1..=all.div_ceil(2),
        }
    }
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Machines {
    /// So many alike domains of so many cores.
    Uniform(u32, u32),
    /// A preset of the simulator, with so many of its domains.
    Preset(&'static str, usize),
}

impl Machines {
    fn machine(self) -> Machine {
        match self {
            Self::Uniform(domains, cores) => {
                let topology = Topology::uniform(domains, cores, L3);
                Machine::new("uniform", topology, Costs::GENOA)
            }
            Self::Preset(name, domains) => {
                let machine = Machine::preset(name).and_then(|all| all.with_domains(domains));
                machine.expect("the suite's machines are presets")
            }
        }
    }

    fn domains(self) -> usize {
        match self {
            Self::Uniform(domains, _) => domains as usize,
            Self::Preset(_, domains) => domains,
        }
    }
}

/// All scenarios.
pub(crate) fn cells() -> Vec<Cell> {
    [streams::cells(), tenants::cells(), turns::cells()].concat()
}

/// Which part of the suite is run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Part {
    /// So many seeds, from 1 on; half of them where a run takes a second or more
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) seeds: u64,

    /// Only cells whose name has this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) cells: String,
}

impl Part {
    /// What it is.
    pub(crate) fn told(&self) -> &str {
        match &*self.cells {
            "" => "all",
            some => some,
        }
    }

    /// Some cell is among it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let some = cells().iter().any(|cell| cell.name.contains(&self.cells));
        ensure!(
            some,
            "no cell's name has {:?}: chiplet-rules list names them",
            self.cells
        );
        Ok(())
    }

    /// Runs it in this process, and prints a line for each cell and seed.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let variant = |name: &str| std::env::var(name).unwrap_or_default();
        let shipped = variant("CHIPLET_RULES").is_empty();
        let reach: BTreeMap<String, f64> = match &*variant("CHIPLET_REACH") {
            "" => BTreeMap::new(),
            text => serde_json::from_str(text).context("CHIPLET_REACH")?,
        };
        let mut ready = Ready::default();
        let mut out = std::io::stdout().lock();
        let cells = cells();
        let chosen = |cell: &&Cell| cell.name.contains(&self.cells) && (shipped || !cell.still);
        for cell in cells.iter().filter(chosen) {
            let known = reach.get(&cell.name).copied();
            let is_known = shipped || cell.load.is_none() || known.is_some();
            ensure!(
                is_known,
                "CHIPLET_REACH does not tell what {} can reach",
                cell.name
            );
            for seed in cell.seeds(self.seeds) {
                let (figures, reach) = ready.run(cell, seed, known);
                let cell = cell.name.clone();
                let row = Row {
                    cell,
                    seed,
                    reach,
                    figures,
                };
                writeln!(out, "{}", serde_json::to_string(&row)?)?;
            }
        }
        Ok(())
    }
}

/// Workloads that are ready to be run, and what they can reach.
#[derive(Default)]
pub(crate) struct Ready {
    prepared: BTreeMap<String, Prepared>,
    /// Queries a second by workload and machine.
    reach: BTreeMap<(String, Machines), f64>,
}

impl Ready {
    /// Runs a cell and says what came of it. `reach` tells what its workload can reach on its machine, where that was
    /// found before: every variant of the rules gets the same load.
    pub(crate) fn run(&mut self, cell: &Cell, seed: u64, reach: Option<f64>) -> (Vec<Figure>, f64) {
        let machine = cell.machine.machine();
        let prepared = self.prepared.entry(cell.workload.clone());
        let prepared = prepared.or_insert_with(|| {
            let recipe: Recipe = cell
                .workload
                .parse()
                .expect("the suite's workloads are right");
            let sampling = Sampling {
                rows: 16_384,
                queries: 200,
                ..Sampling::default()
            };
            Prepared::new(recipe.workload(1), sampling, |_| ())
        });
        let mut scenario = Scenario::new(&machine, prepared, Strategy::CCD_AWARE);
        scenario.seed = seed;
        if cell.still {
            let planner = &mut scenario.settings.planner;
            planner.trigger.cooldown = None;
        }
        if prepared.workload.is_timed() {
            let outcome = scenario.run(&mut |_| ());
            return (figures(&outcome, cell.is_whole()), 0.0);
        }
        let probed = || {
            let mut probe = Scenario::new(&machine, prepared, Strategy::CCD_AWARE);
            probe = probe.counting(PROBE * cell.machine.domains() as u64);
            // A whole number: it is the same after it was written and read.
            probe.run(&mut |_| ()).qps.round()
        };
        let key = (cell.workload.clone(), cell.machine);
        let reach = match (cell.load, reach) {
            (None, _) => 0.0,
            (Some(_), Some(known)) => known,
            (Some(_), None) => *self.reach.entry(key).or_insert_with(probed),
        };
        scenario = scenario.counting(cell.queries);
        if let Some(load) = cell.load {
            let rate = load * reach;
            scenario.load = Load::Open { rate };
            if let Some(at) = cell.flip {
                scenario.flip = Some(Flip { at });
                (scenario.warmup, scenario.longest) = ((rate * at / 2.0) as u64, 2.0 * at);
                scenario.measured = u64::MAX / 2;
            }
        }
        let outcome = scenario.run(&mut |_| ());
        (figures(&outcome, true), reach)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cell_is_one_of_its_own_and_its_workload_is_right() {
        let cells = cells();
        let names: BTreeSet<&str> = cells.iter().map(|cell| &*cell.name).collect();
        assert_eq!(names.len(), cells.len());
        let what = |cell: &Cell| {
            format!(
                "{:?} {} {:?} {}",
                cell.machine, cell.workload, cell.load, cell.still
            )
        };
        let whats: BTreeSet<String> = cells.iter().map(what).collect();
        assert_eq!(whats.len(), cells.len());
        for cell in &cells {
            cell.workload.parse::<Recipe>().unwrap();
            cell.machine.machine();
        }
    }
}
