//! What a terminal shows of a comparison.

use std::fmt::Write as _;

use chiplet_caches::spread::Spread;

use chiplet_baselines::PARTS;
use chiplet_caches::record::{Record, RunRecord};

/// Each strategy's runs, in the order in which strategies came.
pub fn by_strategy(record: &Record) -> Vec<(&str, Vec<&RunRecord>)> {
    let mut groups: Vec<(&str, Vec<&RunRecord>)> = Vec::new();
    for run in &record.runs {
        match groups.iter_mut().find(|(name, _)| *name == run.strategy) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((&run.strategy, vec![run])),
        }
    }
    groups
}

/// What two strategies differ in, their names, and the ratios of their throughputs in runs of the same queries.
pub type Part = (&'static str, [&'static str; 2], Vec<f64>);

/// The parts of which both strategies were run.
pub fn parts(record: &Record) -> Vec<Part> {
    let groups = by_strategy(record);
    let runs = |name: &str| {
        let mut groups = groups.iter();
        groups.find_map(|(strategy, runs)| (*strategy == name).then_some(runs))
    };
    let part = |(what, of, to)| {
        let pairs = runs(of)?.iter().zip(runs(to)?);
        let ratios = pairs.map(|(of, to)| of.modelled_qps / to.modelled_qps);
        Some((what, [of, to], ratios.collect()))
    };
    PARTS.into_iter().filter_map(part).collect()
}

/// What a column shows of a run, and how many digits.
type Column = (&'static str, usize, fn(&RunRecord) -> f64);

fn per_query(run: &RunRecord, count: u64) -> f64 {
    count as f64 / run.queries as f64
}

const COLUMNS: [Column; 11] = [
    ("kq/s", 0, |run| run.modelled_qps / 1e3),
    ("p50 us", 0, |run| run.modelled_latency_us[0]),
    ("p99 us", 0, |run| run.modelled_latency_us[2]),
    ("p999 us", 0, |run| run.modelled_latency_us[3]),
    ("L1 miss/q", 0, |run| per_query(run, run.l1_misses)),
    ("L2 miss/q", 0, |run| per_query(run, run.l2_misses)),
    ("L3 miss/q", 0, |run| per_query(run, run.l3_misses)),
    ("L3 miss %", 1, |run| {
        100.0 * run.l3_misses as f64 / run.l3_accesses.max(1) as f64
    }),
    ("stalled %", 0, |run| 100.0 * run.stalled),
    ("across/q", 1, |run| per_query(run, run.lines_across)),
    ("stolen across %", 1, |run| 100.0 * run.steals.remote_share),
];

pub fn show(record: &Record) -> String {
    let groups = by_strategy(record);
    let mut rows = vec![vec!["strategy".to_owned()]];
    rows[0].extend(COLUMNS.iter().map(|(name, ..)| (*name).to_owned()));
    for (strategy, runs) in &groups {
        let mut row = vec![(*strategy).to_owned()];
        row.extend(
            COLUMNS.iter().map(|(_, digits, value)| {
                Spread::of(runs.iter().map(|run| value(run))).text(*digits)
            }),
        );
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = format!(
        "Modelled {}: {} domains x {} cores; {} tables of {} x {} as {}, {} runs a strategy; median (least-most)\n",
        record.machine.name,
        record.machine.domains,
        record.machine.cores,
        record.constants.tables,
        record.constants.rows,
        record.constants.dim,
        record.constants.rows_as,
        groups.first().map_or(0, |(_, runs)| runs.len()),
    );
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        for (column, (cell, &width)) in cells {
            let _ = if column == 0 {
                write!(text, "{cell:width$}")
            } else {
                write!(text, "  {cell:>width$}")
            };
        }
        text.push('\n');
    }
    let parts = parts(record);
    if !parts.is_empty() {
        text.push_str("What each part gives: throughput, median (least-most), modelled\n");
    }
    for (what, [of, to], ratios) in parts {
        let pair = format!("{of} to {to}");
        let _ = writeln!(
            text,
            "{what:36}{pair:30}{:>20}",
            Spread::of(ratios.into_iter()).text(2)
        );
    }
    let forced: u64 = record.runs.iter().map(|run| run.forced).sum();
    if forced > 0 {
        let _ = writeln!(
            text,
            "Threads were let apart further than the quantum {forced} times."
        );
    }
    for run in record.runs.iter().filter(|run| !run.bounces.is_empty()) {
        let _ = writeln!(
            text,
            "\nWritten lines that cross between domains, {}, by place:",
            run.strategy
        );
        for place in &run.bounces.places {
            let (each, lines) = (per_query(run, place.times), place.lines);
            let _ = writeln!(
                text,
                "  {each:6.2} a query, {lines:4} lines: {}",
                place.place
            );
        }
        let _ = writeln!(text, "By line:");
        for line in &run.bounces.lines {
            let each = per_query(run, line.times);
            let _ = writeln!(text, "  {each:6.2} a query: {}", line.address);
            for place in &line.places {
                let _ = writeln!(text, "      {place}");
            }
        }
    }
    text
}
