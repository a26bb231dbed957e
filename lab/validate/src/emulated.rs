//! The simulator against emulated caches: the same machine, the same graphs, the same queries in the same order.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use chiplet::Topology;
use chiplet_baselines::Strategy;
use chiplet_caches::model::parts::Part;
use chiplet_caches::record::{Constants, Record, RunRecord};
use chiplet_caches::spread::Spread;
use chiplet_sim::{Compute, Costs, Load, Machine, Scenario, Ways};

use crate::case::Case;
use crate::child;
use crate::graphs::{self, Searched};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runs {
    /// As `chiplet-caches run --size` names it.
    pub size: &'static str,
    /// Of each strategy.
    pub repeats: u32,
}

/// The blind strategies and the one that places.
const STRATEGIES: [&str; 3] = ["round-robin", "global-steal", "ccd-aware"];

/// Whether QEMU is there; else why this part is left out.
///
/// # Errors
/// What is missing.
pub fn is_there() -> Result<(), String> {
    match Command::new("qemu-x86_64").arg("--version").output() {
        Ok(said) if said.status.success() => Ok(()),
        _ => Err("qemu-x86_64 is not installed: scripts/setup.sh qemu-user".to_owned()),
    }
}

/// Runs the emulated caches, simulates the same, and compares. `folder` keeps graphs, `scratch` is for files.
///
/// # Errors
/// If a run fails, or `stop` is set.
pub fn compare(
    runs: &Runs,
    folder: &Path,
    scratch: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Case>> {
    let json = scratch.join("caches.json");
    let mut command = Command::new(child::ours("chiplet-caches")?);
    command.args([
        "run",
        "--shape",
        runs.size,
        "--repeats",
        &runs.repeats.to_string(),
    ]);
    command.args(["--strategies", &STRATEGIES.join(",")]);
    command.arg("--json").arg(&json).arg("--folder").arg(folder);
    command.arg("--picture").arg(scratch.join("caches.html"));
    child::run(&mut command, true, stop)?;
    let record: Record = serde_json::from_slice(&std::fs::read(&json)?)?;
    let constants = &record.constants;
    let searched = graphs::prepare(
        &constants.folder,
        constants.tables,
        constants.ef,
        constants.skew,
    )?;
    let machine = machine(&record.machine, constants.dim);
    cases(&record, &machine, &searched)
}

/// What of a record the simulator says otherwise on `machine`, and what it says alike.
///
/// # Errors
/// If the record has runs of a strategy that the simulator does not know.
pub fn cases(record: &Record, machine: &Machine, searched: &Searched) -> anyhow::Result<Vec<Case>> {
    let Constants {
        tables, rows, dim, ..
    } = record.constants;
    let mut cases = Vec::new();
    for strategy in STRATEGIES {
        let runs = record.runs.iter().filter(|run| run.strategy == strategy);
        let runs: Vec<&RunRecord> = runs.collect();
        if runs.is_empty() {
            continue;
        }
        let simulated: Vec<f64> = runs
            .iter()
            .map(|run| simulate(record, machine, searched, run))
            .collect::<anyhow::Result<_>>()?;
        let mut case = |figure, lines: fn(&RunRecord) -> u64| {
            let measured = runs
                .iter()
                .map(|run| lines(run) as f64 / run.queries as f64);
            cases.push(Case {
                instrument: "emulated caches",
                name: format!("{tables} tables of {rows} x {dim}, {strategy}"),
                figure,
                measured: Spread::of(measured),
                simulated: Spread::of(simulated.iter().copied()),
                goal: 0.05,
            });
        };
        case("L3 misses a query", |run| run.l3_misses);
        case("of these, from memory", |run| {
            run.l3_misses - run.lines_across
        });
    }
    Ok(cases)
}

/// The machine that was emulated, as the simulator describes machines, for rows of `dim` components.
#[must_use]
pub fn machine(part: &Part, dim: usize) -> Machine {
    let topology = Topology::uniform(part.domains, part.cores, part.l3_bytes);
    // There a row's first line is waited for, and the others stream.
    let lines = (dim as f64 / 16.0).max(1.0);
    let row_ns = part.dram_ns / part.overlap + (lines - 1.0) * part.stream_ns;
    let costs = Costs {
        l2_bytes: part.l2_bytes,
        l3_ns: part.l3_ns,
        memory_ns: part.dram_ns,
        line_same_ns: part.near_ns,
        line_other_ns: part.far_ns,
        link_gbs: part.link_gbs,
        socket_gbs: part.socket_gbs,
        walk_lines: lines * part.dram_ns / row_ns,
        wake_ns: part.wake_ns,
        // As the part's caches are there.
        ways: Some(Ways { l2: 8, l3: 16 }),
        ..Costs::GENOA
    };
    Machine::new(part.name.clone(), topology, costs)
}

/// L3 misses a query of the same run, simulated.
fn simulate(
    record: &Record,
    machine: &Machine,
    searched: &Searched,
    run: &RunRecord,
) -> anyhow::Result<f64> {
    let strategy: Strategy = run.strategy.parse()?;
    let (part, constants) = (&record.machine, &record.constants);
    let mut scenario = Scenario::new(machine, &searched.prepared, strategy);
    scenario.load = Load::Saturated {
        outstanding: constants.under_way as u32,
    };
    // What computing takes there.
    let instructions = run.instructions as f64 / run.queries as f64;
    scenario.compute = Compute {
        row_ns: instructions * part.cpi / part.ghz / searched.rows,
        component_ns: 0.0,
        ..Compute::default()
    };
    scenario.warmup = constants.warm as u64;
    scenario.measured = constants.queries as u64;
    // The run ends before the balancer's first tick.
    scenario.settled = false;
    // The program takes the same, and so has the same queries in the same order.
    scenario.seed = run.repeat + 1;
    Ok(scenario.run(&mut |_| ()).l3_misses_per_query)
}
