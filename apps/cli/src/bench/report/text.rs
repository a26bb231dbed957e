//! The report as a table on a terminal.

use std::fmt::Write as _;

use super::{Report, Strategy, counter, summary};
use chiplet_bench::stats::{median, spread};

/// What is printed when a run is over.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    let workload = &report.workload;
    let machine = &report.machine;
    let summary = summary::summary(report);
    let _ = writeln!(out, "{}.", summary.verdict());
    let _ = writeln!(out, "{}\n", summary.sentences.join(" "));
    let _ = writeln!(out, "{}\n", workload.verdict);
    let _ = writeln!(
        out,
        "{}, {} cores in {} {} domains; hardware counters: {}",
        machine.cpu, machine.cores, machine.domains, machine.level, machine.counters
    );
    let _ = writeln!(
        out,
        "{} {} tables of {} x {} ({}, {}), {:.1} MiB; {}{}; {} rounds of {} s after {} s of warm-up\n",
        workload.tables,
        workload.kind,
        workload.rows,
        workload.dims,
        workload.data,
        workload.indexes.join(", "),
        workload.bytes as f64 / f64::from(1 << 20),
        workload.arrivals,
        workload
            .rate_qps
            .map_or(String::new(), |rate| format!(" at {rate:.0} queries/s")),
        workload.rounds,
        workload.round_s,
        workload.warmup_s
    );
    let width = report
        .strategies
        .iter()
        .map(|strategy| strategy.name.len())
        .max()
        .unwrap_or(0)
        .max(8);
    let _ = writeln!(
        out,
        "{:width$}  {:>10} {:>9} {:>9} {:>9} {:>7} {:>6} {:>6}",
        "strategy", "queries/s", "p50 us", "p99 us", "p999 us", "recall", "Jain", "cores"
    );
    for strategy in &report.strategies {
        let _ = writeln!(
            out,
            "{:width$}  {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>7.4} {:>6.3} {:>6.2}",
            strategy.name,
            strategy.throughput_qps,
            strategy.latency_us.p50,
            strategy.latency_us.p99,
            strategy.latency_us.p999,
            strategy.recall_at_10,
            strategy.fairness_jain,
            strategy.cpu_cores
        );
    }
    let generator = &report.generator;
    let _ = writeln!(
        out,
        "{} workers; {} {}; the senders alone make {:.0} queries/s, {:.1} times the highest throughput",
        generator.workers,
        match generator.senders {
            1 => "1 sender".to_owned(),
            senders => format!("{senders} senders"),
        },
        match &generator.own_cpus {
            Some(cpus) => format!("on cpus of their own ({cpus})"),
            None => "on the workers' cores".to_owned(),
        },
        generator.limit_qps,
        generator.headroom
    );
    ratios(&mut out, &report.strategies, width);
    parts(&mut out, report);
    scaling(&mut out, report, width);
    let _ = writeln!(
        out,
        "\n{:width$}  {:>12} {:>12} {:>12} {:>7} {:>8} {:>10}  worst table",
        "details", "own", "domain", "remote", "remaps", "refused", "goodput/s"
    );
    for strategy in &report.strategies {
        let dash = || "-".to_owned();
        let steals = |pick: fn(&super::Steals) -> u64| {
            strategy
                .steals
                .as_ref()
                .map_or_else(dash, |steals| pick(steals).to_string())
        };
        let _ = writeln!(
            out,
            "{:width$}  {:>12} {:>12} {:>12} {:>7} {:>8} {:>10}  {} p99 {:.0} us",
            strategy.name,
            steals(|steals| steals.own),
            steals(|steals| steals.domain),
            steals(|steals| steals.remote),
            strategy
                .remaps
                .map_or_else(dash, |remaps| remaps.to_string()),
            strategy.refused,
            strategy
                .goodput_qps
                .map_or_else(dash, |goodput| format!("{goodput:.0}")),
            strategy.worst_table.name,
            strategy.worst_table.latency_us.p99
        );
    }
    counters(&mut out, &report.strategies, width);
    for strategy in &report.strategies {
        let Some(flip) = &strategy.flip else { continue };
        let _ = writeln!(
            out,
            "{:width$}  hot set moved: p99 {:.0} us before, {:.0} us at worst; within a tenth again {}",
            strategy.name,
            flip.steady_p99_us,
            flip.worst_p99_us,
            match flip.recovered_after_s {
                Some(after) => format!("after {after:.2} s"),
                None => "not before the round's end".to_owned(),
            }
        );
    }
    if let Some(first) = report.load_curve.first() {
        let _ = writeln!(
            out,
            "\nlatency against load (of {}'s saturation)",
            first.strategy
        );
        for point in &report.load_curve {
            let _ = writeln!(
                out,
                "{:width$}  {:>4.0} %  {:>9.0} queries/s  p50 {:>8.1} us  p99 {:>9.1} us  p999 {:>9.1} us",
                point.strategy,
                point.load * 100.0,
                point.rate_qps,
                point.latency_us.p50,
                point.latency_us.p99,
                point.latency_us.p999
            );
        }
    }
    let doubts = super::doubts::of(report);
    if !doubts.is_empty() || !report.notes.is_empty() {
        out.push_str("\nbefore you believe it:\n");
    }
    for note in doubts.iter().chain(&report.notes) {
        let _ = writeln!(out, "- {note}");
    }
    out
}

/// Throughput at each size and number of domains.
fn scaling(out: &mut String, report: &Report, width: usize) {
    for point in &report.scaling {
        let _ = writeln!(
            out,
            "\n{} domains, rows x {}: tables of {:.1} MiB, caches of {:.1} MiB",
            point.domains,
            point.size,
            point.bytes as f64 / f64::from(1 << 20),
            point.cache_bytes as f64 / f64::from(1 << 20)
        );
        let Some(first) = point.strategies.first() else {
            continue;
        };
        for strategy in &point.strategies {
            let rounds = strategy.rounds_qps.iter().zip(&first.rounds_qps);
            let ratios: Vec<f64> = rounds.map(|(mine, other)| mine / other).collect();
            let [low, high] = spread(&ratios);
            let _ = writeln!(
                out,
                "{:width$}  {:>10.0} queries/s  {:.3} ({low:.2}-{high:.2}) of {}",
                strategy.name,
                strategy.throughput_qps,
                median(ratios),
                first.name
            );
        }
    }
}

/// What each part gives, where the strategies were run that tell.
fn parts(out: &mut String, report: &Report) {
    let parts = super::parts::parts(&report.strategies);
    if !parts.is_empty() {
        out.push_str("\nwhat each part gives: throughput, median of rounds (lowest-highest)\n");
    }
    for part in parts {
        let [low, high] = part.spread();
        let pair = format!("{} to {}", part.of.name, part.to.name);
        let figure = format!("{:.3} ({low:.2}-{high:.2})", part.median);
        let _ = writeln!(out, "{:36}{pair:30}{figure:>20}", part.what);
    }
}

fn ratios(out: &mut String, strategies: &[Strategy], width: usize) {
    let Some((first, others)) = strategies.split_first() else {
        return;
    };
    if others.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nratio to {}: median of rounds (lowest-highest)\n{:width$}  {:>19} {:>19} {:>19} {:>19}",
        first.name, "", "throughput", "p50", "p99", "p999"
    );
    for strategy in others {
        let ratio = &strategy.ratio_to_first;
        let spread = &strategy.ratio_spread;
        let _ = write!(out, "{:width$} ", strategy.name);
        for (middle, [low, high]) in [
            (ratio.throughput, spread.throughput),
            (ratio.p50, spread.p50),
            (ratio.p99, spread.p99),
            (ratio.p999, spread.p999),
        ] {
            let _ = write!(out, " {:>19}", format!("{middle:.3} ({low:.2}-{high:.2})"));
        }
        out.push('\n');
    }
}

/// What the hardware counted, where it counted anything.
fn counters(out: &mut String, strategies: &[Strategy], width: usize) {
    let (given, _) = counter::given(strategies);
    if given.is_empty() {
        return;
    }
    let _ = write!(out, "\n{:width$} ", "a query");
    for counter in &given {
        let _ = write!(out, " {:>12}", counter.short);
    }
    for strategy in strategies {
        let _ = write!(out, "\n{:width$} ", strategy.name);
        for counter in &given {
            let value = strategy.counters.as_ref().and_then(counter.of);
            let text = value.map_or_else(|| "-".to_owned(), counter.text);
            let _ = write!(out, " {text:>12}");
        }
    }
    out.push('\n');
    let explained = [
        "misses",
        "own L3",
        "other L3",
        "memory",
        "far memory",
        "CXL",
    ];
    if given
        .iter()
        .any(|counter| explained.contains(&counter.short))
    {
        let _ = writeln!(
            out,
            "misses: lines from beyond the own L3; the columns after them: lines by where they came from"
        );
    }
}
