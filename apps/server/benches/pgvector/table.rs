//! What is printed.

use super::common::{shown, spread};
use super::rounds::Measurement;

/// Prints medians over the rounds, and ratios of the first to each other: a ratio for each round, and their median.
pub(crate) fn print(title: &str, names: &[&str], runs: &[Vec<Measurement>]) {
    println!("\n## {title}\n");
    println!("| server | queries/s | p50 us | p99 us | processor us a query |");
    println!("|---|---|---|---|---|");
    let each = |runs: &[Measurement], value: fn(&Measurement) -> f64| {
        runs.iter().map(value).collect::<Vec<_>>()
    };
    for (name, runs) in names.iter().zip(runs) {
        println!(
            "| {name} | {} | {} | {} | {} |",
            shown(each(runs, |run| run.queries_per_second), 0),
            shown(each(runs, |run| run.p50), 0),
            shown(each(runs, |run| run.p99), 0),
            shown(each(runs, |run| run.cpu), 0),
        );
    }
    let Some((first, others)) = runs.split_first() else {
        return;
    };
    for (name, other) in names.iter().skip(1).zip(others) {
        let ratio = |value: fn(&Measurement) -> f64| {
            let pairs = first.iter().zip(other);
            spread(
                pairs
                    .map(|(one, other)| value(one) / value(other))
                    .collect(),
            )
            .0
        };
        println!(
            "\n{} / {name}: queries/s {:.2}, p50 {:.2}, p99 {:.2}, processor time {:.2}",
            names[0],
            ratio(|run| run.queries_per_second),
            ratio(|run| run.p50),
            ratio(|run| run.p99),
            ratio(|run| run.cpu),
        );
    }
}
