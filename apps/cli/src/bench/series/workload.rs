//! What was asked, for the report, and what a reader should know of it.

use chiplet_topology::Topology;

use super::super::arguments::{Arguments, Graph, Kind, PoolKind};
use super::super::generator::Pace;
use super::super::report::Workload;
use super::super::summary::Summed;
use super::super::tables::{self, Tables};
use super::{Runner, STARVED};

pub(super) fn workload(
    arguments: &Arguments,
    topology: &Topology,
    tables: &Tables,
    (pace, saturation): (Pace, Option<f64>),
    runners: &[Runner],
) -> Workload {
    let uses = |graph| runners.iter().any(|runner| runner.choice.graph == graph);
    let mut indexes = Vec::new();
    if tables.graphs() > 0 {
        if uses(Graph::Own) {
            indexes.push("chiplet HNSW".to_owned());
        }
        if uses(Graph::Usearch) {
            indexes.push("usearch".to_owned());
        }
    }
    if tables.graphs() < tables.all.len() {
        indexes.push("Faiss".to_owned());
    }
    let process = if arguments.bursty {
        "bursty"
    } else {
        "Poisson"
    };
    Workload {
        data: tables.source.clone(),
        kind: match tables.graphs() {
            graphs if graphs == tables.all.len() => Kind::Hnsw,
            0 => Kind::Ivf,
            _ => Kind::Mixed,
        }
        .to_string(),
        indexes,
        tables: tables.all.len(),
        verdict: tables.verdict(topology, runners[0].choice.graph),
        rows: tables.rows,
        dims: tables.dims(),
        k: tables.k(),
        ef: tables.width(true).unwrap_or(arguments.ef() as usize),
        nprobe: tables.width(false).unwrap_or(arguments.nprobe() as usize),
        lists: (tables.graphs() < tables.all.len()
            && arguments.factory.is_none()
            && arguments.workload.is_none())
        .then(|| tables::lists(tables.rows)),
        queries: tables.queries(),
        recipe: tables.recipe.clone(),
        recipe_tables: arguments
            .workload
            .as_ref()
            .and(arguments.tables)
            .map(|tables| tables as usize),
        size: arguments.size(),
        bytes: tables.bytes(runners[0].choice.graph),
        table_skew: arguments.table_skew,
        query_skew: arguments.query_skew,
        arrivals: match pace {
            Pace::Saturated { outstanding, .. } => format!("saturated, {outstanding} outstanding"),
            Pace::Closed => format!("closed loop, {} clients", arguments.clients.unwrap_or(1)),
            Pace::Open(_) => format!("open loop, {process}"),
        },
        outstanding: match pace {
            Pace::Saturated { outstanding, .. } => Some(outstanding),
            Pace::Closed => arguments.clients.map(|clients| clients as usize),
            Pace::Open(_) => None,
        },
        rate_qps: match pace {
            Pace::Open(rate) => Some(rate),
            Pace::Saturated { .. } | Pace::Closed => None,
        },
        saturation_qps: saturation,
        flip_s: arguments.flip.map(|flip| flip.as_secs_f64()),
        deadline_us: Some(arguments.deadline.as_secs_f64() * 1e6),
        rounds: runners[0].rounds.len(),
        round_s: arguments.duration.as_secs_f64(),
        warmup_s: arguments.warmup.as_secs_f64(),
        seed: arguments.seed,
    }
}

/// What a reader should know before believing the figures.
pub(super) fn notes(
    arguments: &Arguments,
    runners: &[Runner],
    pace: Pace,
    coverage: f64,
) -> Vec<String> {
    let mut notes = Vec::new();
    let done = runners[0].rounds.len();
    if done + runners[0].starved.len() < arguments.rounds as usize {
        notes.push(format!(
            "Stopped early: {done} of {} rounds were run.",
            arguments.rounds
        ));
    }
    notes.extend(starved(runners));
    if !matches!(pace, Pace::Open(_)) {
        notes.push(
            "A number of queries was kept outstanding, so latency follows from throughput, and by it nearly \
             all answers are in time or none: for latency and goodput give a rate below saturation (--rate 70%)."
                .to_owned(),
        );
    }
    if coverage < 0.99 {
        notes.push(format!(
            "Hardware counters took turns: one was counted {:.0} % of the time, and scaled.",
            coverage * 100.0
        ));
    }
    if arguments.smt {
        notes.push(
            "Workers are one for each logical processor, not one for each core (--smt).".to_owned(),
        );
    }
    let is_wide = |runner: &Runner| runner.choice.pool == PoolKind::RayonAll;
    if runners.iter().any(is_wide) && !arguments.smt {
        notes.push(
            "rayon-all has a thread for each logical processor, the others one for each core: it shows what SMT gives, \
             and its ratios compare unequal pools."
                .to_owned(),
        );
    }
    if arguments.has_placebo() {
        notes.push(
            "chiplet's workers are tied to one core each, as the placebo's are; without a placebo to one domain.".to_owned(),
        );
    }
    if arguments.kind == Kind::Mixed {
        notes.push(format!(
            "{} % of the queries went to graphs.",
            arguments.hnsw_share
        ));
    }
    notes
}

/// What is said of rounds in which workers were idle for want of queries.
fn starved(runners: &[Runner]) -> Option<String> {
    let worst = |rounds: fn(&Runner) -> &Vec<Summed>| {
        let all = runners.iter().flat_map(|runner| {
            let name = runner.choice.to_string();
            rounds(runner)
                .iter()
                .map(move |round| (round.starved, name.clone()))
        });
        all.max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(share, _)| *share > STARVED)
    };
    let left_out = runners[0].starved.len();
    if let Some((share, name)) = worst(|runner| &runner.starved) {
        return Some(format!(
            "{left_out} of {} rounds are left out: workers were idle for want of queries, under {name} for up to \
             {:.0} % of their time. The sender did not get a core when it needed one.",
            left_out + runners[0].rounds.len(),
            share * 100.0
        ));
    }
    let (share, name) = worst(|runner| &runner.rounds)?;
    Some(format!(
        "In every round workers were idle for want of queries, under {name} for up to {:.0} % of their time: these \
         figures are the senders', not the strategies'. Give more --senders, a higher --outstanding, or larger tables.",
        share * 100.0
    ))
}
