//! The figures as tables for a person.

use std::fmt::Write as _;

use chiplet_bench::charts::table::Grid;
use chiplet_sim::{Outcome, Table};

use super::Report;

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
    let caption = match report.workload.shared_tables() {
        0 => "as the tables' own clients ask",
        _ => "saturated",
    };
    let columns = [
        "strategy",
        "CCDs",
        "queries/s",
        "to first",
        "of ideal",
        "L3 miss",
        "stall",
        "MB/query",
        "link",
        "socket",
        "crossing",
        "remaps",
    ];
    let rows = saturated.iter().map(|outcome| {
        let first = saturated
            .iter()
            .find(|other| other.domains == outcome.domains);
        let ratio = first.map_or(1.0, |first| outcome.qps / first.qps);
        [
            outcome.strategy.clone(),
            outcome.domains.to_string(),
            format!("{:.0}", outcome.qps),
            format!("{ratio:.2}x"),
            match several {
                true => ideal(&saturated, outcome),
                false => "-".to_owned(),
            },
            format!("{:.3}", outcome.l3_miss_ratio),
            format!("{:.3}", outcome.stall_share),
            format!("{:.2}", outcome.memory_bytes_per_query / 1e6),
            format!("{:.2}", most(&outcome.links)),
            format!("{:.2}", most(&outcome.sockets)),
            format!("{:.3}", outcome.crossing_share),
            outcome.remaps.len().to_string(),
        ]
    });
    let _ = write!(text, "\n{}", Grid::new(caption, columns).rows(rows).text());
    let open = report
        .runs
        .iter()
        .filter_map(|run| Some((run.load?, &run.outcome)));
    let open = open.map(|(load, outcome)| {
        let latency = &outcome.latency_us;
        [
            outcome.strategy.clone(),
            outcome.domains.to_string(),
            format!("{load} %"),
            format!("{:.0}", outcome.qps),
            format!("{:.0}", latency.p50),
            format!("{:.0}", latency.p99),
            format!("{:.0}", latency.p999),
            outcome.shed.to_string(),
            format!("{:.3}", outcome.l3_miss_ratio),
            format!("{:.3}", outcome.stall_share),
            format!("{:.3}", outcome.crossing_share),
            outcome.remaps.len().to_string(),
        ]
    });
    let columns = [
        "strategy",
        "CCDs",
        "load",
        "queries/s",
        "p50 us",
        "p99 us",
        "p999 us",
        "refused",
        "L3 miss",
        "stall",
        "crossing",
        "remaps",
    ];
    let caption =
        "at a load, in percent of the first strategy's saturation; latency from arrival to answer";
    let open = Grid::new(caption, columns).rows(open);
    if !open.is_empty() {
        let _ = write!(text, "\n{}", open.text());
    }
    if let Some(measured) = &report.measured {
        text += &measured.render();
    }
    let tenants = tenants(report);
    if !tenants.is_empty() {
        let _ = write!(text, "\n{}", tenants.text());
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

/// What became of each tenant's queries: a row for each of each run.
pub(super) fn tenants(report: &Report) -> Grid {
    let rows = report.runs.iter().flat_map(|run| {
        let load = run
            .load
            .map_or(String::new(), |load| format!(" at {load} %"));
        let of = format!("{} on {}{load}", run.outcome.strategy, run.outcome.domains);
        let tenants = run.outcome.tenants.iter();
        tenants.map(move |served| {
            let (expired, wait) = (served.expired, served.wait_us);
            let begun = |count: u64| match served.at_home + served.away {
                0 => "-".to_owned(),
                _ => count.to_string(),
            };
            [
                of.clone(),
                served.name.clone(),
                served.class.to_string(),
                served.tables.to_string(),
                served.done.to_string(),
                expired.waiting.to_string(),
                expired.passed_over.to_string(),
                expired.late.to_string(),
                served.refused.to_string(),
                begun(served.at_home),
                begun(served.away),
                format!("{:.0}", wait.p50),
                format!("{:.0}", wait.p99),
                format!("{:.0}", wait.p999),
                format!("{:.1} %", 100.0 * served.time_share),
            ]
        })
    });
    let columns = [
        "strategy, CCDs",
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
        "wait p50 us",
        "p99 us",
        "p999 us",
        "time",
    ];
    let caption = "By whose tables were asked: expired in the queue, passed over as too little time was left, and while they \
                   ran; begun at home and away; wait from arrival to start, of those that began; part of all workers' time";
    Grid::new(caption, columns).rows(rows)
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
