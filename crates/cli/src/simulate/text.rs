//! The figures as tables for a person.

use std::fmt::Write as _;

use chiplet_sim::{Outcome, Table};

use super::{Report, Run};

/// What is printed.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "modelled: {} on {}, seed {}{}\n",
        report.workload.name,
        report.machine,
        report.seed,
        formats(&report.workload.tables)
    );
    let saturated: Vec<&Outcome> = saturated(report).collect();
    let several = saturated
        .iter()
        .any(|outcome| outcome.domains != saturated[0].domains);
    text += "\nsaturated\n  CCDs strategy            queries/s  to first  of ideal  L3 miss   stall  \
             MB/query  link  socket  crossing  remaps\n";
    for outcome in &saturated {
        let first = saturated
            .iter()
            .find(|other| other.domains == outcome.domains);
        let ratio = first.map_or(1.0, |first| outcome.qps / first.qps);
        let _ = writeln!(
            text,
            "  {:4} {:18} {:11.0} {:8.2}x {:>9} {:8.3} {:7.3} {:9.2} {:5.2} {:7.2} {:9.3} {:7}",
            outcome.domains,
            outcome.strategy,
            outcome.qps,
            ratio,
            match several {
                true => ideal(&saturated, outcome),
                false => "-".to_owned(),
            },
            outcome.l3_miss_ratio,
            outcome.stall_share,
            outcome.memory_bytes_per_query / 1e6,
            most(&outcome.links),
            most(&outcome.sockets),
            outcome.crossing_share,
            outcome.remaps.len(),
        );
    }
    let open: Vec<&Run> = report
        .runs
        .iter()
        .filter(|run| run.load.is_some())
        .collect();
    if !open.is_empty() {
        text += "\nat a load, in percent of the first strategy's saturation; latency from arrival to answer\n  \
                 CCDs load strategy            queries/s    p50 us    p99 us   p999 us   refused  L3 miss   stall  \
                 crossing  remaps\n";
    }
    for run in open {
        let outcome = &run.outcome;
        let latency = &outcome.latency_us;
        let _ = writeln!(
            text,
            "  {:4} {:3}% {:18} {:11.0} {:9.0} {:9.0} {:9.0} {:9} {:8.3} {:7.3} {:9.3} {:7}",
            outcome.domains,
            run.load.unwrap_or_default(),
            outcome.strategy,
            outcome.qps,
            latency.p50,
            latency.p99,
            latency.p999,
            outcome.shed,
            outcome.l3_miss_ratio,
            outcome.stall_share,
            outcome.crossing_share,
            outcome.remaps.len(),
        );
    }
    for run in &report.runs {
        for moved in &run.outcome.remaps {
            let _ = writeln!(
                text,
                "  {} at {:.1} s: {} tables moved, {}",
                run.outcome.strategy, moved.at, moved.tables, moved.reason
            );
        }
    }
    let flipped = report.flip.into_iter().flat_map(|at| {
        let open = report.runs.iter().filter(|run| run.load.is_some());
        open.map(move |run| (at, run))
    });
    for (at, run) in flipped {
        let load = run.load.unwrap_or_default();
        let recovered = match run.outcome.recovered_after(at) {
            Some(seconds) => format!("p99 is as before the flip {seconds:.1} s after it"),
            None => "p99 is not as before the flip until the end".to_owned(),
        };
        let _ = writeln!(text, "  {} at {load} %: {recovered}", run.outcome.strategy);
    }
    text
}

/// How tables keep their rows, unless all are as they came.
fn formats(tables: &[Table]) -> String {
    let mut named: Vec<String> = Vec::new();
    for table in tables {
        let mut name = table.rows_as().to_string();
        if let Some(rerank) = table.rerank() {
            let _ = write!(name, " re-ranked by {}", rerank.rows_as);
        }
        if !named.contains(&name) {
            named.push(name);
        }
    }
    match &*named.join(" and ") {
        "f32" => String::new(),
        names => format!(", rows as {names}"),
    }
}

pub(super) fn saturated(report: &Report) -> impl Iterator<Item = &Outcome> {
    let runs = report.runs.iter().filter(|run| run.load.is_none());
    runs.map(|run| &run.outcome)
}

/// Throughput on so many domains, of as many times the strategy's own on the fewest that were run.
fn ideal(all: &[&Outcome], outcome: &Outcome) -> String {
    let own = all
        .iter()
        .filter(|other| other.strategy == outcome.strategy);
    let Some(least) = own.min_by_key(|other| other.domains) else {
        return "-".to_owned();
    };
    let times = outcome.domains as f64 / least.domains as f64;
    format!("{:.1} %", 100.0 * outcome.qps / least.qps / times)
}

fn most(uses: &[f64]) -> f64 {
    uses.iter().copied().fold(0.0, f64::max)
}
