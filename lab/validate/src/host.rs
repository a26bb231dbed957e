//! The simulator against the real executor on this machine, whose private L2s are taken as domains.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, ensure};
use chiplet::Topology;
use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet_baselines::Strategy;
use chiplet_caches::spread::Spread;
use chiplet_sim::{Compute, Costs, Load, Machine, Prepared, Scenario};
use chiplet_workload::dataset::{Clusters, VectorSet};
use serde::Deserialize;

use crate::case::Case;
use crate::{child, graphs, probe};

/// What `chiplet bench` is asked, and the simulator too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tables {
    /// How many.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
    /// Zipf exponent over them.
    pub skew: f64,
}

/// Up to 16 tables fill three quarters of two L2s of 2 MiB, as `chiplet bench` chooses by itself; those of 1,500 rows
/// exceed them.
pub const WORKLOADS: [Tables; 6] = [
    tables(2, 4_000, 0.0),
    tables(4, 2_000, 1.0),
    tables(8, 1_000, 0.0),
    tables(16, 500, 1.0),
    tables(32, 1_500, 0.0),
    tables(64, 1_500, 1.0),
];

const fn tables(count: usize, rows: usize, skew: f64) -> Tables {
    Tables { count, rows, skew }
}

const DIM: usize = 64;
const EF: usize = 32;
const QUERIES: usize = 1_000;
const SEED: u64 = 1;

/// Queries outstanding for each worker: what the executor's queues hold.
const OUTSTANDING: u32 = 256;

/// How long it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Rounds of each strategy, in turn.
    pub count: u32,
    /// Seconds of each, and before it.
    pub seconds: [f64; 2],
}

/// This machine, as far as it is to be simulated.
pub struct Host {
    machine: Machine,
    compute: Compute,
}

impl Host {
    /// Reads the topology and measures what reading and computing take. No workload has a part in it.
    ///
    /// # Errors
    /// If there are no private L2s to place on.
    pub fn detect() -> anyhow::Result<Self> {
        let topology = Topology::detect("l2".parse::<chiplet::topology::LevelChoice>()?)?;
        ensure!(
            topology.domains().len() > 1,
            "this machine shows one L2: nothing can be placed"
        );
        let beyond = probe::measure(&topology)?;
        let costs = Costs {
            // The domain's cache is the L2 itself, and what a core computes was measured with everything in it.
            l2_bytes: 0,
            l3_ns: 0.0,
            memory_ns: beyond.line_ns,
            remote_ns: beyond.line_ns,
            line_same_ns: 0.0,
            line_other_ns: beyond.hop_ns,
            line_socket_ns: beyond.hop_ns,
            link_gbs: beyond.core_gbs,
            socket_gbs: beyond.all_gbs,
            ..Costs::GENOA
        };
        Ok(Self {
            machine: Machine::new("this machine", topology, costs),
            compute: Compute::measure(),
        })
    }

    /// What was measured, in a line.
    pub fn text(&self) -> String {
        let (costs, compute) = (&self.machine.costs, &self.compute);
        format!(
            "{} domains of {} KiB; a line from beyond {:.0} ns, from core to core {:.0} ns; {:.0} GB/s a core, {:.0} all; \
             a row {:.1} ns and {:.3} ns a component",
            self.machine.topology.domains().len(),
            self.machine.topology.domains()[0].cache_bytes >> 10,
            costs.memory_ns,
            costs.line_other_ns,
            costs.link_gbs,
            costs.socket_gbs,
            compute.row_ns,
            compute.component_ns,
        )
    }

    /// Throughput of `ccd-aware` over that of `global-steal`.
    fn simulate(&self, prepared: &Prepared) -> f64 {
        let [global, own] = [Strategy::GLOBAL_STEAL, Strategy::CCD_AWARE].map(|strategy| {
            let mut scenario = Scenario::new(&self.machine, prepared, strategy);
            scenario.load = Load::Saturated {
                outstanding: OUTSTANDING,
            };
            scenario.compute = self.compute;
            scenario.seed = SEED;
            (scenario.warmup, scenario.measured) = (20_000, 40_000);
            scenario.run(&mut |_| ()).qps
        });
        own / global
    }

    /// Compares one workload. `folder` is for files.
    ///
    /// # Errors
    /// If the measurement fails, or `stop` is set.
    pub fn compare(
        &self,
        tables: &Tables,
        rounds: &Rounds,
        folder: &Path,
        stop: &AtomicBool,
    ) -> anyhow::Result<Case> {
        let measured = measure(tables, rounds, folder, stop)?;
        let simulated = self.simulate(&prepare(tables)?);
        let skew = match tables.skew {
            0.0 => "asked alike".to_owned(),
            skew => format!("Zipf {skew}"),
        };
        Ok(Case {
            instrument: "executor",
            name: format!("{} tables of {} x {DIM}, {skew}", tables.count, tables.rows),
            figure: "ccd-aware / global-steal, queries/s",
            measured,
            simulated: Spread::of([simulated].into_iter()),
            goal: 0.1,
        })
    }
}

/// The part of `chiplet bench --json` that is needed.
#[derive(Deserialize)]
struct Report {
    strategies: Vec<Measured>,
}

#[derive(Deserialize)]
struct Measured {
    ratio_to_first: Ratio<f64>,
    ratio_spread: Ratio<[f64; 2]>,
}

#[derive(Deserialize)]
struct Ratio<T> {
    throughput: T,
}

fn measure(
    tables: &Tables,
    rounds: &Rounds,
    folder: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Spread> {
    let json = folder.join("bench.json");
    let mut command = Command::new(child::ours("chiplet")?);
    command.args([
        "bench",
        "--level",
        "l2",
        "--strategy",
        "global-steal,ccd-aware",
    ]);
    for (name, value) in [
        ("tables", tables.count.to_string()),
        ("rows", tables.rows.to_string()),
        ("table-skew", tables.skew.to_string()),
        ("dims", DIM.to_string()),
        ("ef", EF.to_string()),
        ("queries", QUERIES.to_string()),
        ("seed", SEED.to_string()),
        ("outstanding", OUTSTANDING.to_string()),
        ("rounds", rounds.count.to_string()),
        ("duration", rounds.seconds[0].to_string()),
        ("warmup", rounds.seconds[1].to_string()),
    ] {
        command.args([format!("--{name}"), value]);
    }
    command.arg("--json").arg(&json);
    child::run(&mut command, false, stop)?;
    let text = std::fs::read(&json).with_context(|| json.display().to_string())?;
    let report: Report = serde_json::from_slice(&text)?;
    let own = report
        .strategies
        .get(1)
        .context("two strategies were asked for")?;
    let [least, most] = own.ratio_spread.throughput;
    Ok(Spread {
        median: own.ratio_to_first.throughput,
        least,
        most,
    })
}

/// The tables that `chiplet bench` builds, and what their searches read.
fn prepare(tables: &Tables) -> anyhow::Result<Prepared> {
    let drawn = VectorSet::clusters(&Clusters {
        rows: tables.rows * tables.count + QUERIES,
        dim: DIM,
        seed: SEED,
        ..Clusters::default()
    });
    let (vectors, queries) = drawn.hold_out(QUERIES);
    let asked: Vec<Vec<f32>> = queries.rows().map(<[f32]>::to_vec).collect();
    let graphs = (0..tables.count).map(|table| {
        let part = vectors.interleaved(table, tables.count);
        let config = HnswConfig::new(Metric::L2);
        let graph = HnswTable::build(part.as_slice(), DIM, &config)?;
        Ok((graph, asked.clone()))
    });
    Ok(graphs::recorded(graphs, EF, tables.skew)?.prepared)
}
