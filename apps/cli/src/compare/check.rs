//! Whether a report is fit to be sent to others: what is missing from it, and what gives reason to doubt it.

use std::fmt::Write as _;

use crate::bench::report::{Report, doubts};

/// What the checker has to say of one report.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// What a reader will ask for and not find.
    pub(super) missing: Vec<String>,
    /// Why a reader may not believe the figures.
    pub(super) doubtful: Vec<String>,
}

pub(super) fn check(report: &Report) -> Findings {
    Findings {
        missing: missing(report),
        doubtful: doubts::of(report),
    }
}

fn missing(report: &Report) -> Vec<String> {
    let mut missing = Vec::new();
    let has = |name: &str| {
        let mut strategies = report.strategies.iter();
        strategies.any(|strategy| strategy.name == name)
    };
    if !has("ccd-aware") {
        missing.push(
            "ccd-aware is not among the strategies: the figures say nothing of placement.".into(),
        );
    }
    if !has("placebo") {
        missing.push(
            "No placebo is among the strategies (the same executor with scrambled domains): a gain may be the pool's and \
             not the placement's."
                .into(),
        );
    }
    if !has("global-steal") {
        missing.push(
            "global-steal, a pool that knows no domains, is not among the strategies.".into(),
        );
    }
    if report.strategies.iter().all(|strategy| {
        let counters = strategy.counters.as_ref();
        counters.is_none_or(|counters| counters.llc_misses.is_none())
    }) {
        missing.push(format!(
            "Cache misses were not counted: {}.",
            report.machine.counters
        ));
    }
    if report.load_curve.is_empty() && report.workload.rate_qps.is_none() {
        missing.push(
            "There is no latency against load: run with --report, or with --rate 70%.".into(),
        );
    }
    missing
}

/// What is printed of one file.
pub(crate) fn render(name: &str, report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{name}: {}, {} cores in {} {} domains, {}\n",
        machine.cpu, machine.cores, machine.domains, machine.level, report.date
    );
    let Findings { missing, doubtful } = check(report);
    for (what, sentences) in [("missing", &missing), ("doubtful", &doubtful)] {
        for sentence in sentences {
            let _ = writeln!(out, "  {what}: {sentence}");
        }
    }
    if report.command.contains('/') {
        out += "  private? The command holds a path: look whether it may be published.\n";
    }
    if missing.is_empty() && doubtful.is_empty() {
        out += "  nothing is missing, and nothing in it gives reason to doubt\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::fixture;

    /// A report with which nothing is wrong.
    fn good() -> Report {
        let mut report = fixture::report(2);
        let mut placebo = report.strategies[1].clone();
        placebo.name = "placebo".into();
        report.strategies.push(placebo);
        report
    }

    fn found(change: impl FnOnce(&mut Report)) -> String {
        let mut report = good();
        change(&mut report);
        render("a.html", &report)
    }

    #[test]
    fn a_good_report_passes() {
        assert_eq!(check(&good()), Findings::default());
        assert!(found(|_| ()).contains("nothing is missing"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = found(|report| {
            report.strategies.pop();
            report.load_curve.clear();
            for strategy in &mut report.strategies {
                strategy.counters = None;
            }
        });
        for said in [
            "missing: No placebo",
            "missing: Cache misses were not counted: cycles",
            "missing: There is no latency against load",
        ] {
            assert!(text.contains(said), "no {said:?} in {text}");
        }
        assert!(!text.contains("nothing is missing"), "{text}");
        let text = found(|report| {
            report
                .strategies
                .retain(|strategy| strategy.name == "placebo")
        });
        assert!(text.contains("ccd-aware is not among"), "{text}");
        assert!(
            text.contains("global-steal, a pool that knows no domains"),
            "{text}"
        );
    }

    #[test]
    fn each_reason_to_doubt_is_told() {
        type Change = fn(&mut Report);
        let changes: [(Change, &str); 13] = [
            (
                |report| report.machine.load_average = Some(9.5),
                "load average was 9.50",
            ),
            (|report| report.machine.domains = 1, "one domain"),
            (|report| report.machine.level = "L2".into(), "made of L2"),
            (
                |report| report.machine.hypervisor = Some("KVM".into()),
                "(KVM)",
            ),
            (
                |report| report.machine.governor = Some("powersave".into()),
                "powersave",
            ),
            (
                |report| report.machine.taken_away = vec!["4 cpus".into()],
                "4 cpus",
            ),
            (|report| report.workload.round_s = 0.5, "0.5 s"),
            (
                |report| {
                    for strategy in &mut report.strategies {
                        strategy.rounds.truncate(3);
                    }
                },
                "only 3 rounds",
            ),
            (
                |report| report.strategies[1].recall_at_10 = 0.91,
                "Recall at 10 lies between 0.910 and 0.968",
            ),
            (
                |report| report.strategies[1].refused = 1_234,
                "1,234 queries to ccd-aware were refused",
            ),
            (
                |report| report.strategies[1].busiest_sender = 0.97,
                "busy 97.0 % of the time under ccd-aware",
            ),
            (
                |report| report.generator.headroom = 1.3,
                "only 1.3 times what the fastest strategy answered",
            ),
            (
                |report| report.strategies[1].send_lag_p99_us = Some(900.0),
                "left up to 900 µs late",
            ),
        ];
        for (change, said) in changes {
            let text = found(change);
            assert!(
                text.lines()
                    .any(|line| line.contains("doubtful") && line.contains(said)),
                "no {said:?} in {text}"
            );
        }
        assert!(
            found(|report| report.command += " /home/someone/x").contains("private? The command")
        );
        // Half a core of other work is nothing on 96.
        assert!(!found(|report| report.machine.load_average = Some(4.0)).contains("busy"));
    }
}
