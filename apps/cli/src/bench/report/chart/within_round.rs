//! Latency over the time within a round.

use super::lines::{Across, Axes, Panel, Point, Series, Unit, plot};
use super::{Chart, Look, legend};
use crate::bench::report::{Strategy, Workload};
use chiplet_bench::charts::number::{duration, quantity};
use chiplet_bench::stats::median;
use maud::html;

/// p99 by tenth of the round: the median over rounds of each tenth.
pub fn within_round(strategies: &[Strategy], workload: &Workload) -> Chart {
    let round_s = Some(workload.round_s).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let (x_end, x_title) = match round_s {
        Some(seconds) => (seconds, "seconds into the round"),
        None => (1.0, "share of the round"),
    };
    let series: Vec<Series> = strategies
        .iter()
        .enumerate()
        .map(|(index, strategy)| {
            let tenths = medians(strategy);
            let count = tenths.len() as f64;
            let points = tenths
                .iter()
                .enumerate()
                .filter(|(_, p99)| p99.is_finite() && **p99 > 0.0);
            let points = points.map(|(tenth, p99)| Point {
                x: (tenth as f64 + 0.5) / count * x_end,
                y: *p99,
                open: false,
                tip: format!(
                    "{}: p99 {} in part {} of {count}",
                    strategy.name,
                    duration(*p99),
                    tenth + 1
                ),
            });
            Series {
                look: Look(index),
                points: points.collect(),
            }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return Err("Latency by tenth of the round was not recorded.".into());
    }
    let drawn: Vec<(Look, &str)> = series
        .iter()
        .map(|series| (series.look, strategies[series.look.0].name.as_str()))
        .collect();
    let flip = workload
        .flip_s
        .filter(|flip| round_s.is_some_and(|round| *flip > 0.0 && *flip < round));
    let axes = Axes {
        x_title,
        x: Across::UpTo(x_end),
        y: Unit::Duration,
        mark: flip,
    };
    let description = "p99 latency by strategy in each tenth of the round, median over the rounds";
    Ok(html! {
        (legend(drawn))
        (plot("p99 latency within the round", description, &[Panel { title: "p99 latency", series }], &axes))
        @if let Some(flip) = flip {
            p.caption { "Dotted: after " (quantity(flip)) " s the hot set moves to other tables." }
        }
    })
}

/// The median over a strategy's rounds of each tenth, as many tenths as any round has.
fn medians(strategy: &Strategy) -> Vec<f64> {
    let parts = strategy
        .rounds
        .iter()
        .map(|round| round.p99_us_by_tenth.len())
        .max()
        .unwrap_or(0);
    (0..parts)
        .map(|part| {
            let rounds = strategy.rounds.iter();
            let values = rounds.filter_map(|round| round.p99_us_by_tenth.get(part).copied());
            let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
            match values.is_empty() {
                true => f64::NAN,
                false => median(values),
            }
        })
        .collect()
}
