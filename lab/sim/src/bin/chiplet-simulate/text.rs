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
    if let Some(locality) = &report.locality {
        text += &locality.render();
    }
    if let Some(topics) = report.workload.topics {
        let _ = writeln!(
            text,
            "topics: {:.0} % of a table's queries, near one of {} centres, spread {}",
            topics.share * 100.0,
            topics.count,
            topics.spread
        );
    }
    if let Some([least, most]) = report.rows_in_common {
        let _ = writeln!(
            text,
            "two searches of a topic compare {:.0} to {:.0} % of the same rows",
            least * 100.0,
            most * 100.0
        );
    }
    let saturated: Vec<&Outcome> = saturated(report).collect();
    let several = saturated
        .iter()
        .any(|outcome| outcome.domains != saturated[0].domains);
    text += match report.workload.shared_tables() {
        0 => "\nas the tables' own clients ask",
        _ => "\nsaturated",
    };
    text += "\n  CCDs strategy            queries/s  to first  of ideal  L3 miss   stall  \
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
    if let Some(measured) = &report.measured {
        text += &measured.render();
    }
    text += &tenants(report);
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

/// What became of each tenant's queries.
fn tenants(report: &Report) -> String {
    let mut text = String::new();
    let told = report.runs.iter();
    let told = told.filter(|run| !run.outcome.tenants.is_empty());
    for (at, run) in told.enumerate() {
        if at == 0 {
            text += "\nby whose tables were asked: expired in the queue, passed over as too little time was left, and while \
                     they ran;\nbegun at home and away; wait from arrival to start; part of all workers' time\n";
        }
        let outcome = &run.outcome;
        let load = run
            .load
            .map(|load| format!(" at {load} %"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "  {}{load}, {} CCDs, {:.1} virtual seconds\n    {:18} {:11} {:>6} {:>9} {:>8} {:>7} {:>6} {:>8} {:>8} {:>8} \
             {:>9} {:>9} {:>9} {:>6}",
            outcome.strategy,
            outcome.domains,
            outcome.seconds,
            "who",
            "class",
            "tables",
            "done",
            "in queue",
            "passed",
            "late",
            "refused",
            "home",
            "away",
            "p50 us",
            "p99 us",
            "p999 us",
            "time"
        );
        for served in &outcome.tenants {
            let (expired, wait) = (served.expired, served.wait_us);
            let (home, away) = match served.at_home + served.away {
                0 => ("-".to_owned(), "-".to_owned()),
                _ => (served.at_home.to_string(), served.away.to_string()),
            };
            let _ = writeln!(
                text,
                "    {:18} {:11} {:6} {:9} {:8} {:7} {:6} {:8} {home:>8} {away:>8} {:9.0} {:9.0} {:9.0} {:5.1}%",
                served.name,
                served.class,
                served.tables,
                served.done,
                expired.waiting,
                expired.passed_over,
                expired.late,
                served.refused,
                wait.p50,
                wait.p99,
                wait.p999,
                100.0 * served.time_share,
            );
        }
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
