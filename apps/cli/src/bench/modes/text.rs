//! The report as tables on a terminal.

use std::fmt::Write as _;

use super::report::{Figures, Mode, Report};

/// What is printed when a run is over.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let (workload, machine) = (&report.workload, &report.machine);
    let _ = writeln!(
        out,
        "{}, {} cores; {} {} tables of {} x {} ({}); model: {}",
        machine.cpu,
        workload.cores,
        workload.tables,
        workload.kind,
        workload.rows,
        workload.dims,
        workload.data,
        workload.model
    );
    let _ = writeln!(
        out,
        "processes are pinned to each {}: {}; requests by open loop, {} rounds of {} s after {} s of warm-up\n",
        workload.nodes_are,
        workload.nodes.join(" | "),
        workload.rounds,
        workload.round_s,
        workload.warmup_s
    );
    let width = report.modes.iter().map(|mode| mode.name.len()).max();
    let width = width.unwrap_or(0).max(8);
    modes(&mut out, &report.modes, width);
    for at in &report.uses {
        let _ = writeln!(
            out,
            "\nat {:.0} % processor use; to {}: requests for the same processor time, and p99 (the least and the most of the \
             rounds)\n{:width$} {:>10} {:>6} {:>8} {:>18} {:>9} {:>9} {:>9} {:>18}",
            at.wanted * 100.0,
            report.modes.first().map_or("", |mode| &mode.name),
            "mode",
            "requests/s",
            "use %",
            "cpu us",
            "requests, to it",
            "mean us",
            "p50 us",
            "p99 us",
            "p99, to it"
        );
        for figures in &at.modes {
            row(&mut out, figures, width);
        }
    }
    for note in &report.notes {
        let _ = writeln!(out, "\n{note}");
    }
    out
}

fn modes(out: &mut String, modes: &[Mode], width: usize) {
    let _ = writeln!(
        out,
        "{:width$} {:>9} {:>8} {:>12}  {:16} pinned by",
        "mode", "processes", "threads", "tables MiB", "strategy"
    );
    for mode in modes {
        let _ = writeln!(
            out,
            "{:width$} {:>9} {:>8} {:>12.1}  {:16} {}",
            mode.name,
            mode.processes,
            mode.threads,
            mode.table_bytes as f64 / f64::from(1 << 20),
            mode.strategy,
            mode.pinned_by.as_deref().unwrap_or("-")
        );
    }
}

fn row(out: &mut String, figures: &Figures, width: usize) {
    let spread = |[middle, least, most]: [f64; 3]| format!("{middle:.2} ({least:.2}-{most:.2})");
    let _ = writeln!(
        out,
        "{:width$} {:>10.0} {:>6.1} {:>8.1} {:>18} {:>9.1} {:>9.1} {:>9.1} {:>18}",
        figures.mode,
        figures.throughput_qps,
        figures.used[0] * 100.0,
        figures.processor_us,
        spread(figures.throughput_ratio),
        figures.mean_us,
        figures.p50_us,
        figures.p99_us,
        spread(figures.p99_ratio)
    );
}
