//! `chiplet-simulate --modes`: ways to deploy a service, modelled at equal processor use.
//!
//! A process that is pinned to a socket is a machine of that socket, with its part of the requests. Processes on all
//! cores have a copy of the tables each, whose queries go to whichever core is idle: what it costs to have more threads
//! than cores is not in the model.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use chiplet_baselines::Strategy;
use chiplet_sim::{Compute, Load, Machine, Outcome, Prepared, Recipe, Sampling, Scenario, Scoring};
use indicatif::ProgressBar;
use serde::Serialize;

use super::arguments::Arguments;
use chiplet_bench::charts::table::Grid;
use chiplet_bench::modes::rate::{STEPS, Search, WITHIN};
use chiplet_bench::modes::{Mode, Model};

/// The complex model, as `examples/ranking` has it: 500 candidates, 32 values each. Its network took 500 us on a core
/// of a Milan (the example's own output, 2026-11-27).
const RANKING: Scoring = Scoring {
    candidates: 500,
    feature_bytes: 128,
    micros: 500.0,
};

/// What was modelled.
#[derive(Serialize)]
pub(super) struct Report {
    /// Says so to whoever reads the file.
    modelled: bool,
    machine: String,
    seed: u64,
    workload: String,
    model: String,
    uses: Vec<Use>,
}

/// All modes at one processor use.
#[derive(Serialize)]
struct Use {
    /// From 0 to 1.
    wanted: f64,
    modes: Vec<Figures>,
}

/// One mode at one use.
#[derive(Serialize)]
struct Figures {
    mode: String,
    /// Of all processes: queries a second.
    qps: f64,
    used: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    l3_miss_ratio: f64,
    /// Use of the busiest socket's memory, of 1.
    socket: f64,
}

/// A mode, as the model runs it.
struct Way {
    mode: Mode,
    machine: Machine,
    /// Machines like this one, each with an equal part of the requests.
    machines: usize,
    prepared: Prepared,
    strategy: Strategy,
    known: Vec<(f64, f64)>,
}

/// Runs all modes.
pub(super) fn run(
    arguments: &Arguments,
    machine: &Machine,
    recipe: &Recipe,
    compute: Compute,
    bar: &ProgressBar,
) -> anyhow::Result<Report> {
    let domains = machine.topology.domains();
    let mut sockets: Vec<u32> = domains.iter().map(|domain| domain.package).collect();
    sockets.dedup();
    let sockets = sockets.len();
    ensure!(
        sockets > 1,
        "--modes pins processes to sockets, and {} has one: add x2 to its name",
        machine.name
    );
    let recipe = match arguments.at.model {
        Model::Search => recipe.clone(),
        Model::Ranking => {
            let scored = recipe.clone().scored(RANKING);
            scored.context("--model ranking: it ranks what graphs that do not re-rank find")?
        }
    };
    let workload = recipe.workload(arguments.seed);
    ensure!(
        workload.asking.is_plain(),
        "--modes shares one stream of queries among processes: give a workload whose tables have no `asks`, `weight`, `home`, \
         deadline or other terms of their own"
    );
    let (first, last) = match &arguments.strategies[..] {
        [] => (Strategy::GLOBAL_STEAL, Strategy::CCD_AWARE),
        [first, .., last] => (*first, *last),
        [one] => anyhow::bail!("--strategy {one}: give two, that of usual processes and chiplet's"),
    };
    let mut ways = Vec::new();
    for &mode in &arguments.modes {
        let processes = mode.processes(sockets);
        let pinned = processes[0].is_some();
        let machines = if pinned { sockets } else { 1 };
        ensure!(
            processes.len().is_multiple_of(machines),
            "mode {mode}: its processes cannot be shared out among {machines} sockets evenly; leave it out"
        );
        let sampling = Sampling {
            sample: 1.0 / f64::from(arguments.sample),
            seed: arguments.seed,
            ..Sampling::default()
        };
        let copies = workload.clone().copied(processes.len() / machines);
        ways.push(Way {
            mode,
            machine: machine.with_domains(domains.len() / machines)?,
            machines,
            prepared: Prepared::new(copies, sampling, |what| bar.set_message(what.to_owned())),
            strategy: if mode == Mode::Chiplet { last } else { first },
            known: Vec::new(),
        });
    }
    let mut uses = Vec::new();
    for &percent in &arguments.at.uses {
        let wanted = f64::from(percent) / 100.0;
        let modes = ways.iter_mut();
        let modes = modes.map(|way| way.at(arguments, compute, wanted, bar));
        uses.push(Use {
            wanted,
            modes: modes.collect(),
        });
    }
    Ok(Report {
        modelled: true,
        machine: machine.name.clone(),
        seed: arguments.seed,
        workload: workload.name,
        model: arguments.at.model.to_string(),
        uses,
    })
}

impl Way {
    /// The run whose use is nearest to what is wanted.
    fn at(
        &mut self,
        arguments: &Arguments,
        compute: Compute,
        wanted: f64,
        bar: &ProgressBar,
    ) -> Figures {
        if self.known.is_empty() {
            bar.set_message(format!("{}: saturated", self.mode));
            let outcome = self.one(arguments, compute, Load::default());
            self.known.push((outcome.qps, outcome.utilisation));
        }
        let mut search = Search::new(wanted);
        for &(rate, used) in &self.known {
            search.note(rate, used);
        }
        let mut nearest: Option<Outcome> = None;
        let off = |used: f64| (used - wanted).abs();
        for step in 1..=STEPS {
            let Some(rate) = search.next() else { break };
            bar.set_message(format!(
                "{}: rate for {:.0} %, step {step}",
                self.mode,
                wanted * 100.0
            ));
            let outcome = self.one(arguments, compute, Load::Open { rate });
            search.note(rate, outcome.utilisation);
            self.known.push((rate, outcome.utilisation));
            let better = |known: &Outcome| off(outcome.utilisation) < off(known.utilisation);
            if nearest.as_ref().is_none_or(better) {
                nearest = Some(outcome);
            }
            if search.found() {
                break;
            }
        }
        let outcome = nearest.expect("a saturated run has some use, so there is a rate to try");
        Figures {
            mode: self.mode.to_string(),
            qps: outcome.qps * self.machines as f64,
            used: outcome.utilisation,
            mean_us: outcome.latency_us.mean,
            p50_us: outcome.latency_us.p50,
            p99_us: outcome.latency_us.p99,
            l3_miss_ratio: outcome.l3_miss_ratio,
            socket: outcome.sockets.iter().copied().fold(0.0, f64::max),
        }
    }

    fn one(&self, arguments: &Arguments, compute: Compute, load: Load) -> Outcome {
        let mut scenario = Scenario::new(&self.machine, &self.prepared, self.strategy)
            .counting(arguments.queries / self.machines as u64);
        scenario.compute = compute;
        scenario.seed = arguments.seed;
        scenario.settled = !arguments.unsettled;
        scenario.settings.memory_budget = arguments.memory_budget;
        scenario.load = load;
        scenario.run(&mut |_| ())
    }
}

/// What is printed.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "modelled: {}, model {}, on {}, seed {}\n",
        report.workload, report.model, report.machine, report.seed
    );
    for at in &report.uses {
        let first = &at.modes[0];
        let rows = at.modes.iter().map(|mode| {
            // For the same use: they differ by up to a point.
            let ratio = mode.qps / mode.used / (first.qps / first.used);
            [
                mode.mode.clone(),
                format!("{:.0}", mode.qps),
                format!("{:.1}", mode.used * 100.0),
                format!("{ratio:.2}"),
                format!("{:.0}", mode.mean_us),
                format!("{:.0}", mode.p50_us),
                format!("{:.0}", mode.p99_us),
                format!("{:.2}", mode.p99_us / first.p99_us),
                format!("{:.3}", mode.l3_miss_ratio),
                format!("{:.2}", mode.socket),
            ]
        });
        let columns = [
            "mode",
            "queries/s",
            "use %",
            "per use",
            "mean us",
            "p50 us",
            "p99 us",
            "p99",
            "L3 miss",
            "socket",
        ];
        let caption = format!("at {:.0} % processor use", at.wanted * 100.0);
        let _ = write!(text, "\n{}", Grid::new(caption, columns).rows(rows).text());
    }
    for at in &report.uses {
        for mode in &at.modes {
            if (mode.used - at.wanted).abs() > WITHIN {
                let _ = writeln!(
                    text,
                    "\n{} is at {:.1} % where {:.0} % was asked for: its latency is not at equal use. Give more --queries.",
                    mode.mode,
                    mode.used * 100.0,
                    at.wanted * 100.0
                );
            }
        }
    }
    text += "\nL3 miss: of the lines that no L2 had, the part from memory. socket: use of the busiest socket's memory, of 1.\n";
    text
}
