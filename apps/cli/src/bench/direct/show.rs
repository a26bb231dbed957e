//! Figures of a direct measurement as JSON and as a table on a terminal.

use std::fmt::Write as _;

use chiplet_bench::charts::table::Grid;
use serde::Serialize;

use super::super::arguments::Arguments;
use super::super::dataset::Dataset;
use super::build::Built;
use super::measure::Result;
use chiplet_bench::stats::median;

/// One point, as `--json` has it. The first six are what other programs rely on.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    index: String,
    param: String,
    /// Of all `k`, whatever `k` is.
    recall_at_10: f64,
    /// The median over rounds.
    qps: f64,
    /// As the table itself counts them.
    bytes_per_vector: f64,
    /// `None` for a table that came from a file.
    build_s: Option<f64>,
    /// Processor time of all threads.
    build_cpu_s: Option<f64>,
    /// What loading or mapping the table's file took; `None` for a table that was built.
    open_s: Option<f64>,
    threads: u32,
    /// Queries a call.
    together: u32,
    /// Share of the rows that the queries' filter allows, in percent.
    filter: Option<f64>,
    qps_low: f64,
    qps_high: f64,
    rounds: usize,
    /// The lowest of all rounds; 1 if every searcher had a core to itself.
    cpu_share: f64,
    /// Growth of the process' memory in RAM over building or opening the table.
    resident_bytes_per_vector: Option<f64>,
    metric: &'static str,
    rows: usize,
    dim: usize,
    k: u32,
    queries: usize,
    /// Cache lines of rows and links that a query reads, in KB; `None` for lists and with a filter.
    kb_a_query: Option<f64>,
}

pub(super) fn entries(
    arguments: &Arguments,
    built: &Built,
    source: &Dataset,
    results: &[Result],
) -> Vec<Entry> {
    let rows = source.vectors.len();
    let each = |bytes: u64| bytes as f64 / rows as f64;
    let lowest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let entry = |result: &Result| Entry {
        index: built.table.name(),
        param: arguments.direct.index.param(result.point.param),
        recall_at_10: result.once.recall,
        qps: median(result.rates.clone()),
        bytes_per_vector: each(built.table.table().size_bytes()),
        build_s: built.from.build_time(built.seconds),
        build_cpu_s: built.from.build_time(built.cpu_seconds),
        open_s: built.from.open_time(built.seconds),
        threads: result.point.threads,
        together: arguments.direct.together,
        filter: arguments.direct.filter,
        qps_low: lowest(&result.rates),
        qps_high: result.rates.iter().copied().fold(0.0, f64::max),
        rounds: result.rates.len(),
        cpu_share: lowest(&result.shares),
        resident_bytes_per_vector: built.grown.map(each),
        metric: metric(source),
        rows,
        dim: source.vectors.dim(),
        k: arguments.k,
        queries: source.queries.len(),
        kb_a_query: result.once.kb,
    };
    results.iter().map(entry).collect()
}

/// What is printed when a run is over. `entries` is not empty.
pub(super) fn render(data: &str, built: &Built, entries: &[Entry]) -> String {
    let first = &entries[0];
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} x {} ({data}), {}, k {}; {} in {}, {:.0} bytes a vector",
        first.index,
        first.rows,
        first.dim,
        first.metric,
        first.k,
        built.from,
        span(built.seconds),
        first.bytes_per_vector
    );
    let rows = entries.iter().map(|entry| {
        [
            entry.param.clone(),
            entry.threads.to_string(),
            format!("{:.4}", entry.recall_at_10),
            format!("{:.0}", entry.qps),
            format!("{:.0}", entry.qps_low),
            format!("{:.0}", entry.qps_high),
            format!("{:.1}", f64::from(entry.threads) * 1e6 / entry.qps),
            entry
                .kb_a_query
                .map_or(String::new(), |kb| format!("{kb:.1}")),
        ]
    });
    let columns = [
        "",
        "threads",
        "recall",
        "queries/s",
        "lowest",
        "highest",
        "us each",
        "KB each",
    ];
    let caption = format!(
        "{} queries held out; median of {} rounds, lowest and highest",
        first.queries, first.rounds
    );
    out += &Grid::new(caption, columns).rows(rows).text();
    let least = entries
        .iter()
        .map(|entry| entry.cpu_share)
        .fold(1.0, f64::min);
    if least < BUSY {
        let _ = writeln!(
            out,
            "\nSomething else ran meanwhile: searchers had as little as {:.0} % of a core each.",
            least * 100.0
        );
    }
    out
}

/// Below this share of a core a reader should know: more than timer interrupts and the like take.
const BUSY: f64 = 0.9;

/// Seconds, or milliseconds where that reads better.
fn span(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

fn metric(source: &Dataset) -> &'static str {
    use chiplet_bench::workload::truth::Metric;
    match source.metric {
        Metric::L2 => "l2",
        Metric::Cosine => "cosine",
        Metric::InnerProduct => "ip",
        _ => "other",
    }
}
