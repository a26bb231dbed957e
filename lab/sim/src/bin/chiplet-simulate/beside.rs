//! What `chiplet bench` has measured beside what the model gives for the same tables and traffic.
//!
//! Compared are ratios to one strategy, as plain figures depend on the machine's clock and on its other work. Ratios of
//! the measured run are medians over its rounds, as everywhere.

use std::fmt::Write as _;

use chiplet_bench::charts::table::Grid;
use chiplet_sim::{Machine, Outcome};
use serde::Serialize;

use chiplet_bench::report::{self, Round, parts};
use chiplet_bench::stats::{median, spread};

/// All of it: in the file, the text and the page.
#[derive(Serialize)]
pub(super) struct Beside {
    /// Processor of the machine that was measured.
    processor: String,
    domains: usize,
    level: String,
    /// The model's machine, and its domains.
    modelled: String,
    modelled_domains: usize,
    /// Queries a second that were sent; none: saturated.
    rate: Option<f64>,
    /// The strategy that ratios are to.
    base: Option<String>,
    rows: Vec<Row>,
}

/// One figure of one strategy, as a ratio to the base's.
#[derive(Serialize)]
struct Row {
    strategy: String,
    what: &'static str,
    measured: f64,
    /// Of the rounds: lowest and highest.
    measured_spread: [f64; 2],
    modelled: f64,
    /// How much more the model gives, in percent of what was measured.
    difference_percent: f64,
}

/// What is compared: its name, a round's value, and the model's.
type Figure = (&'static str, fn(&Round) -> f64, fn(&Outcome) -> f64);

const FIGURES: [Figure; 3] = [
    (
        "throughput",
        |round| round.throughput_qps,
        |modelled| modelled.qps,
    ),
    (
        "p50",
        |round| round.latency_us.p50,
        |modelled| modelled.latency_us.p50,
    ),
    (
        "p99",
        |round| round.latency_us.p99,
        |modelled| modelled.latency_us.p99,
    ),
];

/// `runs`: those of the model that are as busy as the measured one was. Taken are those on as many domains, if there
/// are any, else those on most.
pub(super) fn beside(measured: &report::Report, machine: &Machine, runs: &[&Outcome]) -> Beside {
    let on = |domains| runs.iter().any(|run| run.domains == domains);
    let modelled_domains = match on(measured.machine.domains) {
        true => measured.machine.domains,
        false => runs.iter().map(|run| run.domains).max().unwrap_or_default(),
    };
    let pairs: Vec<(&report::Strategy, &Outcome)> = runs
        .iter()
        .filter(|run| run.domains == modelled_domains)
        .filter_map(|run| {
            let mut strategies = measured.strategies.iter();
            let strategy = strategies.find(|strategy| strategy.name == run.strategy)?;
            Some((strategy, *run))
        })
        .collect();
    let rows = match pairs.split_first() {
        Some((base, others)) => others
            .iter()
            .flat_map(|other| rows(*base, *other))
            .collect(),
        None => Vec::new(),
    };
    Beside {
        processor: measured.machine.cpu.clone(),
        domains: measured.machine.domains,
        level: measured.machine.level.clone(),
        modelled: machine.name.clone(),
        modelled_domains,
        rate: measured.workload.rate_qps,
        base: pairs.first().map(|(strategy, _)| strategy.name.clone()),
        rows,
    }
}

fn rows(base: (&report::Strategy, &Outcome), of: (&report::Strategy, &Outcome)) -> Vec<Row> {
    let figures = FIGURES.into_iter().filter_map(|(what, round, run)| {
        // Rounds of one number were the same queries.
        let rounds = parts::ratios(base.0, of.0, round).into_iter();
        let ratios: Vec<f64> = rounds.map(|(_, ratio)| ratio).collect();
        let modelled = run(of.1) / run(base.1);
        if ratios.is_empty() || !modelled.is_finite() {
            return None;
        }
        let measured_spread = spread(&ratios);
        let measured = median(ratios);
        Some(Row {
            strategy: of.0.name.clone(),
            what,
            measured,
            measured_spread,
            modelled,
            difference_percent: 100.0 * (modelled / measured - 1.0),
        })
    });
    figures.collect()
}

impl Beside {
    pub(super) fn render(&self) -> String {
        let mut text = String::from("\nmeasured beside modelled");
        if let Some(base) = &self.base {
            let _ = write!(text, ": ratio to {base}");
        }
        let _ = match self.rate {
            Some(rate) => writeln!(text, ", at {rate:.0} queries/s"),
            None => writeln!(text, ", saturated"),
        };
        let _ = writeln!(
            text,
            "measured on {}, {} {} domains; modelled: {}, {} domains",
            self.processor, self.domains, self.level, self.modelled, self.modelled_domains
        );
        if self.domains != self.modelled_domains {
            text +=
                "Another number of domains was measured, so the model is not of that machine.\n";
        }
        if self.rows.is_empty() {
            text += "The measured run and the model have no two strategies in common: name those of the run with \
                     --strategy.\n";
            return text;
        }
        let rows = self.rows.iter().map(|row| {
            let [lowest, highest] = row.measured_spread;
            let within = match (lowest..=highest).contains(&row.modelled) {
                true => "within the rounds",
                false => "",
            };
            [
                row.strategy.clone(),
                row.what.to_owned(),
                format!("{:.2}", row.measured),
                format!("{lowest:.2} to {highest:.2}"),
                format!("{:.2}", row.modelled),
                format!("{:+.0} %", row.difference_percent),
                within.to_owned(),
            ]
        });
        let columns = [
            "strategy",
            "",
            "measured",
            "of the rounds",
            "modelled",
            "difference",
            "",
        ];
        text += &Grid::new("ratios", columns).rows(rows).text();
        text
    }
}
