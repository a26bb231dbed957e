//! What the hardware counted, of two reports.

use std::fmt::Write as _;

use chiplet_bench::charts::table::Grid;

use crate::bench::report::counter;
use crate::bench::report::{Report, Strategy};

use super::pairs::both;

pub(super) fn render(out: &mut String, a: &Report, b: &Report) {
    let (in_a, in_b) = (
        counter::given(&a.strategies).0,
        counter::given(&b.strategies).0,
    );
    if in_a.is_empty() && in_b.is_empty() {
        return;
    }
    let titles = |counters: &[&counter::Counter]| -> Vec<&'static str> {
        counters.iter().map(|counter| counter.title).collect()
    };
    let rows = both(a, b).flat_map(|(one, other)| {
        in_a.iter().filter_map(move |counter| {
            let of = |strategy: &Strategy| strategy.counters.as_ref().and_then(counter.of);
            let (one_is, other_is) = (of(one)?, of(other)?);
            Some([
                one.name.clone(),
                counter.title.to_owned(),
                (counter.text)(one_is),
                (counter.text)(other_is),
                match one_is > 0.0 {
                    true => format!("{:.2}", other_is / one_is),
                    false => "-".to_owned(),
                },
            ])
        })
    });
    let caption = "hardware counters, a query: medians";
    let grid = Grid::new(caption, ["strategy", "", "A", "B", "B / A"]).rows(rows);
    let _ = write!(out, "\n{}", grid.text());
    let (in_a, in_b) = (titles(&in_a), titles(&in_b));
    for (name, titles, others) in [("A", &in_a, &in_b), ("B", &in_b, &in_a)] {
        let alone: Vec<_> = titles
            .iter()
            .filter(|title| !others.contains(title))
            .copied()
            .collect();
        if !alone.is_empty() {
            let _ = writeln!(out, "counted in {name} alone: {}", alone.join(", "));
        }
    }
    let differ = |what: &str| in_a.contains(&what) != in_b.contains(&what);
    if in_a.contains(&MISSES) && in_b.contains(&MISSES) && differ(PREFETCHES) {
        let _ = writeln!(
            out,
            "The misses of the one have prefetches of the L2 in them and those of the other have not: do not compare them."
        );
    }
    let vendor = |report: &Report| {
        ["AMD", "Intel"]
            .into_iter()
            .find(|vendor| report.machine.cpu.contains(vendor))
    };
    if vendor(a) != vendor(b) {
        let _ = writeln!(
            out,
            "The processors are of different makers, which count different lines: compare ratios within a run alone."
        );
    }
}

/// Titles in [`counter::given`].
const MISSES: &str = "last-level misses";
const PREFETCHES: &str = "L2 prefetches from beyond";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::fixture;

    fn text(a: &Report, b: &Report) -> String {
        let mut out = String::new();
        render(&mut out, a, b);
        out
    }

    #[test]
    fn misses_of_both_runs_stand_beside_each_other_with_their_ratio() {
        let a = fixture::report(2);
        let mut b = a.clone();
        let counters = b.strategies[1].counters.as_mut().unwrap();
        counters.llc_misses = counters.llc_misses.map(|misses| misses / 2.0);
        let text = text(&a, &b);
        let line = text
            .lines()
            .find(|line| line.starts_with("ccd-aware") && line.contains(MISSES));
        assert!(line.unwrap().trim_end().ends_with("0.50"), "{text}");
        assert!(
            !text.contains("alone") && !text.contains("do not compare"),
            "{text}"
        );
    }

    #[test]
    fn misses_with_and_without_prefetches_are_not_compared() {
        let a = fixture::report(2);
        let mut b = a.clone();
        b.machine.cpu = "Intel(R) Xeon(R) Gold 6248R".into();
        let counters = b.strategies[0].counters.as_mut().unwrap();
        counters.prefetched_beyond_l3 = Some(3.0);
        let text = text(&a, &b);
        assert!(
            text.contains(&format!("counted in B alone: {PREFETCHES}")),
            "{text}"
        );
        assert!(
            text.contains("do not compare") && text.contains("different makers"),
            "{text}"
        );
    }

    #[test]
    fn runs_without_counters_say_nothing_of_them() {
        let mut report = fixture::report(2);
        for strategy in &mut report.strategies {
            strategy.counters = None;
        }
        assert_eq!(text(&report, &report), "");
    }
}
