//! The report as tables on a terminal.

use std::fmt::Write as _;

use chiplet_bench::charts::number::{bytes, count, fixed};
use chiplet_bench::charts::table::Grid;

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
    let columns = [
        "mode",
        "processes",
        "threads",
        "tables",
        "strategy",
        "pinned by",
    ];
    let modes = Grid::new("What each mode is", columns).rows(report.modes.iter().map(mode));
    out += &modes.text();
    for at in &report.uses {
        let caption = format!(
            "Figures at {:.0} % processor use; to {}: requests for the same processor time, and p99 (least to most of the rounds)",
            at.wanted * 100.0,
            report.modes.first().map_or("", |mode| &mode.name)
        );
        let columns = [
            "mode",
            "requests/s",
            "use %",
            "cpu us",
            "requests, to it",
            "mean us",
            "p50 us",
            "p99 us",
            "p99, to it",
        ];
        let figures = Grid::new(caption, columns).rows(at.modes.iter().map(row));
        let _ = write!(out, "\n{}", figures.text());
    }
    for note in &report.notes {
        let _ = writeln!(out, "\n{note}");
    }
    out
}

fn mode(mode: &Mode) -> [String; 6] {
    [
        mode.name.clone(),
        count(mode.processes as u64),
        count(mode.threads as u64),
        bytes(mode.table_bytes),
        mode.strategy.clone(),
        mode.pinned_by.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

fn row(figures: &Figures) -> [String; 9] {
    let spread = |[middle, least, most]: [f64; 3]| format!("{middle:.2} ({least:.2} to {most:.2})");
    [
        figures.mode.clone(),
        fixed(figures.throughput_qps, 0),
        fixed(figures.used[0] * 100.0, 1),
        fixed(figures.processor_us, 1),
        spread(figures.throughput_ratio),
        fixed(figures.mean_us, 1),
        fixed(figures.p50_us, 1),
        fixed(figures.p99_us, 1),
        spread(figures.p99_ratio),
    ]
}
