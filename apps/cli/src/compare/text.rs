//! The comparison as text.

use std::fmt::Write as _;

use super::differences::{Difference, between};
use super::pairs::both;
use crate::bench::report::{RatioSpread, Ratios, Report, Round, Strategy};
use chiplet_bench::charts::table::Grid;
use chiplet_bench::stats::spread;

/// What is not a setting but follows from the run, or is told elsewhere.
const RESULTS: [&str; 2] = ["saturation_qps", "verdict"];
const MEASURED: [&str; 2] = ["limit_qps", "headroom"];

/// Longest text of a value in a line; longer ones go below one another.
const WIDE: usize = 44;

pub(super) fn render(first: (&str, &Report), second: (&str, &Report)) -> String {
    let mut out = String::new();
    let ((first_name, a), (second_name, b)) = (first, second);
    let _ = writeln!(out, "A: {first_name}, {}, {}", a.date, a.machine.cpu);
    let _ = writeln!(out, "B: {second_name}, {}, {}", b.date, b.machine.cpu);
    let differs = [
        ("machine", between(&a.machine, &b.machine, &[])),
        ("workload", between(&a.workload, &b.workload, &RESULTS)),
        ("generator", between(&a.generator, &b.generator, &MEASURED)),
    ];
    for (what, differences) in differs {
        section(&mut out, what, &differences.unwrap_or_default());
    }
    let base = |report: &Report| report.strategies.first().map(|first| first.name.clone());
    match (base(a), base(b)) {
        (Some(one), Some(other)) if one == other => ratios_to_base(&mut out, &one, a, b),
        (one, other) => {
            let name = |name: Option<String>| name.unwrap_or_else(|| "nothing".to_owned());
            let _ = writeln!(
                out,
                "\nRatios are to {} in A and to {} in B, so they are not compared.",
                name(one),
                name(other)
            );
        }
    }
    figures(&mut out, a, b);
    super::counters::render(&mut out, a, b);
    only_in_one(&mut out, a, b);
    for (name, report) in [("A", a), ("B", b)] {
        for note in &report.notes {
            let _ = writeln!(out, "\nnote of {name}: {note}");
        }
    }
    out
}

fn section(out: &mut String, what: &str, differences: &[Difference]) {
    if differences.is_empty() {
        let _ = writeln!(out, "\n{what}: no difference");
        return;
    }
    let _ = writeln!(out, "\n{what}: what differs");
    for Difference {
        field,
        first,
        second,
    } in differences
    {
        if first.len().max(second.len()) > WIDE {
            let _ = writeln!(out, "  {field}\n    A: {first}\n    B: {second}");
        } else {
            let _ = writeln!(out, "  {field:24} A: {first:WIDE$} B: {second}");
        }
    }
}

fn only_in_one(out: &mut String, a: &Report, b: &Report) {
    for (name, report, other) in [("A", a, b), ("B", b, a)] {
        let has = |name: &str| {
            other
                .strategies
                .iter()
                .any(|strategy| strategy.name == name)
        };
        let alone = report
            .strategies
            .iter()
            .map(|strategy| strategy.name.as_str());
        let alone: Vec<_> = alone.filter(|strategy| !has(strategy)).collect();
        if !alone.is_empty() {
            let _ = writeln!(out, "\nonly in {name}: {}", alone.join(", "));
        }
    }
}

/// A value and the lowest and highest round.
#[derive(Clone, Copy)]
struct Measured {
    median: f64,
    range: [f64; 2],
}

impl Measured {
    fn text(self, digits: usize) -> String {
        let [low, high] = self.range;
        format!(
            "{:.digits$} ({low:.digits$} to {high:.digits$})",
            self.median
        )
    }
}

/// On which side of `a` the rounds of `b` lie.
fn verdict(a: Measured, b: Measured) -> &'static str {
    let ([a_low, a_high], [b_low, b_high]) = (a.range, b.range);
    match () {
        () if b_low > a_high => "higher in B",
        () if b_high < a_low => "lower in B",
        () => "no clear difference",
    }
}

fn ratios_to_base(out: &mut String, base: &str, a: &Report, b: &Report) {
    type Pick = (
        &'static str,
        fn(&Ratios) -> f64,
        fn(&RatioSpread) -> [f64; 2],
    );
    const RATIOS: [Pick; 4] = [
        (
            "throughput",
            |ratio| ratio.throughput,
            |spread| spread.throughput,
        ),
        ("p50", |ratio| ratio.p50, |spread| spread.p50),
        ("p99", |ratio| ratio.p99, |spread| spread.p99),
        ("p999", |ratio| ratio.p999, |spread| spread.p999),
    ];
    let pairs = both(a, b).filter(|(one, _)| one.name != base);
    let rows = pairs.flat_map(|(one, other)| {
        RATIOS.map(|(what, value, range)| {
            let of = |strategy: &Strategy| Measured {
                median: value(&strategy.ratio_to_first),
                range: range(&strategy.ratio_spread),
            };
            let (one_is, other_is) = (of(one), of(other));
            [
                one.name.clone(),
                what.to_owned(),
                one_is.text(2),
                other_is.text(2),
                verdict(one_is, other_is).to_owned(),
            ]
        })
    });
    let caption =
        format!("ratio to {base} in the same run: median of the rounds (lowest to highest)");
    let grid = Grid::new(caption, ["strategy", "", "A", "B", ""]).rows(rows);
    let _ = write!(out, "\n{}", grid.text());
}

fn figures(out: &mut String, a: &Report, b: &Report) {
    type Pick = (&'static str, fn(&Strategy) -> f64, fn(&Round) -> f64);
    const FIGURES: [Pick; 4] = [
        (
            "queries/s",
            |all| all.throughput_qps,
            |round| round.throughput_qps,
        ),
        (
            "p50 us",
            |all| all.latency_us.p50,
            |round| round.latency_us.p50,
        ),
        (
            "p99 us",
            |all| all.latency_us.p99,
            |round| round.latency_us.p99,
        ),
        (
            "p999 us",
            |all| all.latency_us.p999,
            |round| round.latency_us.p999,
        ),
    ];
    let rows = both(a, b).flat_map(|(one, other)| {
        FIGURES.map(|(what, value, of_round)| {
            let of = |strategy: &Strategy| Measured {
                median: value(strategy),
                range: spread(&strategy.rounds.iter().map(of_round).collect::<Vec<_>>()),
            };
            let (one_is, other_is) = (of(one), of(other));
            [
                one.name.clone(),
                what.to_owned(),
                one_is.text(0),
                other_is.text(0),
                format!("{:.2}", other_is.median / one_is.median),
                verdict(one_is, other_is).to_owned(),
            ]
        })
    });
    let caption = "as measured: median of the rounds (lowest to highest)";
    let grid = Grid::new(caption, ["strategy", "", "A", "B", "B / A", ""]).rows(rows);
    let _ = write!(out, "\n{}", grid.text());
    for (one, other) in both(a, b) {
        let (first, second) = (one.recall_at_10, other.recall_at_10);
        if (first - second).abs() > 0.0005 {
            let name = &one.name;
            let _ = writeln!(
                out,
                "{name}: recall at 10: {first:.4} in A, {second:.4} in B: the answers are not equally good"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::fixture;

    #[test]
    fn a_report_of_before_is_compared_by_what_it_has() {
        let now = fixture::report(2);
        let mut before = serde_json::to_value(&now).unwrap();
        let machine = before["machine"].as_object_mut().unwrap();
        for field in [
            "numa_balancing",
            "command_line",
            "smt_control",
            "sched_ext",
            "cache_aware_scheduling",
        ] {
            machine.remove(field).expect(field);
        }
        for strategy in before["strategies"].as_array_mut().unwrap() {
            if let Some(counters) = strategy["counters"].as_object_mut() {
                counters.remove("prefetched_beyond_l3").unwrap();
            }
        }
        let before: Report = serde_json::from_value(before).unwrap();
        let text = render(("a", &before), ("b", &now));
        assert!(text.contains("command line"), "{text}");
        assert!(text.contains("B: mitigations=off isolcpus=2-7"), "{text}");
        assert!(text.contains("workload: no difference"), "{text}");
    }

    #[test]
    fn a_difference_is_clear_only_where_the_rounds_do_not_overlap() {
        let measured = |low: f64, high: f64| Measured {
            median: low.midpoint(high),
            range: [low, high],
        };
        let a = measured(1.0, 1.2);
        assert_eq!(verdict(a, measured(1.3, 1.4)), "higher in B");
        assert_eq!(verdict(a, measured(0.8, 0.9)), "lower in B");
        assert_eq!(verdict(a, measured(1.1, 1.4)), "no clear difference");
    }
}
