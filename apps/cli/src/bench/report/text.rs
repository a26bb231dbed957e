//! The report for a terminal.

use std::fmt::Write as _;

use super::{Report, summary, tables};

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
        "{} {} tables of {} x {} ({}, {}), {:.1} MiB; {}; {} rounds of {} s after {} s of warm-up",
        workload.tables,
        workload.kind,
        workload.rows,
        workload.dims,
        workload.data,
        workload.indexes.join(", "),
        workload.bytes as f64 / f64::from(1 << 20),
        summary::arrivals(report),
        workload.rounds,
        workload.round_s,
        workload.warmup_s
    );
    let generator = &report.generator;
    let _ = writeln!(
        out,
        "{} workers; {}",
        generator.workers,
        tables::senders(generator)
    );
    let mut grids = tables::strategies(report);
    grids.push(tables::curve(report));
    for grid in grids.iter().filter(|grid| !grid.is_empty()) {
        let _ = write!(out, "\n{}", grid.text());
    }
    if report
        .strategies
        .iter()
        .any(|strategy| strategy.counters.is_some())
    {
        for note in tables::counters(report) {
            let _ = writeln!(out, "{note}");
        }
    }
    for strategy in &report.strategies {
        let Some(flip) = &strategy.flip else { continue };
        let _ = writeln!(
            out,
            "\n{}: hot set moved: p99 {:.0} us before, {:.0} us at worst; within a tenth again {}",
            strategy.name,
            flip.steady_p99_us,
            flip.worst_p99_us,
            match flip.recovered_after_s {
                Some(after) => format!("after {after:.2} s"),
                None => "not before the round's end".to_owned(),
            }
        );
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
