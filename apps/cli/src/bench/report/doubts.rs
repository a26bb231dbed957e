//! What gives reason to doubt a report.

use super::Report;
use super::summary::rounds_text;
use chiplet_bench::charts::number::{count, duration, fixed, percent, quantity};

/// Other work on the machine: above this part of its cores, and above half a core, the load average tells of some.
const BUSY: f64 = 0.05;
/// Shorter rounds are a handful of the system's time slices.
const SHORT_ROUND_S: f64 = 1.0;

/// Below this many rounds a spread says little.
const FEW_ROUNDS: usize = 7;
/// Recall this far apart makes ratios a comparison of unequal answers.
const RECALL_APART: f64 = 0.01;
/// A sender this busy may itself be the limit.
const SENDER_BUSY: f64 = 0.9;
/// Below this many times the highest throughput the senders' own limit is near.
const HEADROOM: f64 = 2.0;
/// A send lag of this share of p99 is no longer small.
const LAG_SHARE: f64 = 0.2;

/// Why a reader may not believe the figures, a sentence each: of the page, of the text, and of
/// `chiplet compare --check`.
pub fn of(report: &Report) -> Vec<String> {
    let mut doubts = of_figures(report);
    doubts.extend(of_machine(report));
    doubts
}

fn of_figures(report: &Report) -> Vec<String> {
    let strategies = &report.strategies;
    let mut doubts = Vec::new();
    let generator = &report.generator;
    if generator.headroom < HEADROOM && generator.headroom.is_finite() {
        doubts.push(format!(
            "The senders can make {} queries/s, only {} times what the fastest strategy answered: they may be the \
             limit. Give more --senders.",
            quantity(generator.limit_qps),
            fixed(generator.headroom, 1)
        ));
    }
    let rounds = strategies
        .iter()
        .map(|strategy| strategy.rounds.len())
        .min()
        .unwrap_or(0);
    if rounds < FEW_ROUNDS && !strategies.is_empty() {
        doubts.push(format!(
            "There were only {} of a strategy; a spread of so few says little.",
            rounds_text(rounds)
        ));
    }
    let recalls = || {
        strategies
            .iter()
            .map(|strategy| strategy.recall_at_10)
            .filter(|recall| recall.is_finite())
    };
    let (lowest, highest) = (
        recalls().fold(f64::INFINITY, f64::min),
        recalls().fold(0.0, f64::max),
    );
    if highest - lowest > RECALL_APART {
        doubts.push(format!(
            "Recall at 10 lies between {} and {}: strategies with different recall do different work, and their \
             ratios compare unequal answers.",
            fixed(lowest, 3),
            fixed(highest, 3)
        ));
    }
    for strategy in strategies {
        let name = &strategy.name;
        if strategy.refused > 0 {
            doubts.push(format!(
                "{} queries to {name} were refused or failed; they are in no latency.",
                count(strategy.refused)
            ));
        }
        if strategy.busiest_sender >= SENDER_BUSY && strategy.busiest_sender.is_finite() {
            doubts.push(format!(
                "A sending thread was busy {} of the time under {name}: the load generator may be the limit. Give more \
                 --senders.",
                percent(strategy.busiest_sender)
            ));
        }
        let p99 = strategy.latency_us.p99;
        if let Some(lag) = strategy
            .send_lag_p99_us
            .filter(|lag| lag.is_finite() && *lag > LAG_SHARE * p99)
        {
            doubts.push(format!(
                "Under {name} queries left up to {} late (p99), against a p99 latency of {}: part of that latency is \
                 the sender's.",
                duration(lag),
                duration(p99)
            ));
        }
    }
    doubts
}

fn of_machine(report: &Report) -> Vec<String> {
    let machine = &report.machine;
    let mut doubts = Vec::new();
    if let Some(load) = machine.load_average {
        // Until the last minute is forgotten, a build or an earlier run counts as well.
        if load > (BUSY * machine.cores as f64).max(0.5) {
            doubts.push(format!(
                "The machine was busy: its load average was {} when the run began. End other work, or wait some \
                 minutes.",
                fixed(load, 2)
            ));
        }
    }
    if machine.domains < 2 {
        doubts.push("The machine is one domain: placement has nothing to choose.".into());
    } else if machine.level != "L3" {
        doubts.push(format!(
            "Domains are made of {}: the figures are of no L3.",
            machine.level
        ));
    }
    if let Some(hypervisor) = &machine.hypervisor {
        doubts.push(format!(
            "It is a virtual machine ({hypervisor}): what its L3s are, and who else uses them, is the host's to say."
        ));
    }
    if let Some(governor) = machine.governor.as_deref()
        && governor != "performance"
    {
        doubts.push(format!(
            "Clock rates were set by {governor}: set performance (cpupower frequency-set -g performance)."
        ));
    }
    if !machine.taken_away.is_empty() {
        doubts.push(format!(
            "A part of the machine was used: {}.",
            machine.taken_away.join("; ")
        ));
    }
    if machine
        .settings
        .sched_ext
        .as_deref()
        .is_some_and(|state| state.starts_with("enabled"))
    {
        doubts.push(
            "A scheduler of sched_ext was loaded: it may place threads by cache itself.".into(),
        );
    }
    let round = report.workload.round_s;
    if round.is_finite() && round < SHORT_ROUND_S {
        doubts.push(format!(
            "Rounds were of {round} s: give them {SHORT_ROUND_S} s or more (--duration)."
        ));
    }
    doubts
}
