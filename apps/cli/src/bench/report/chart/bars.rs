//! Throughput as bars with the rounds below each, and steals as bars cut by level: one row a strategy.

use super::{AXIS_HEIGHT, Chart, Look, Px, Scale, axis_below, figure};
use crate::bench::report::{Steals, Strategy};
use chiplet_bench::charts::bars::Rows;
use chiplet_bench::charts::number::{percent, quantity, ratio};
use maud::{Markup, html};

/// Room for a ratio at the right end of a row.
const RATIO_WIDTH: f64 = 54.0;

/// Throughput by strategy: the bar ends at the median, each dot is a round, the whisker spans them.
pub fn throughput(strategies: &[Strategy]) -> Chart {
    let measured = |value: &f64| value.is_finite() && *value >= 0.0;
    let highest = strategies
        .iter()
        .flat_map(|strategy| {
            strategy
                .rounds
                .iter()
                .map(|round| round.throughput_qps)
                .chain([strategy.throughput_qps])
        })
        .filter(measured)
        .fold(0.0, f64::max);
    if highest <= 0.0 {
        return Err("No strategy answered a query, so there is no throughput to draw.".into());
    }
    let description = strategies
        .iter()
        .map(|strategy| {
            format!(
                "{}: {} queries/s",
                strategy.name,
                quantity(strategy.throughput_qps)
            )
        })
        .collect::<Vec<_>>()
        .join("; ");
    Ok(figure("Throughput by strategy", &description, |layout| {
        let rows = Rows::new(layout, &names(strategies), 120.0, 26.0);
        let scale = Scale::up_to(
            highest * 1.02,
            rows.plot,
            if layout.narrow() { 3 } else { 5 },
        );
        let ratio_width = if strategies.len() > 1 {
            RATIO_WIDTH
        } else {
            0.0
        };
        let drawing = html! {
            (axis_below(&scale, 4.0, rows.bottom(), "queries answered per second"))
            @for (index, strategy) in strategies.iter().enumerate() {
                @let y = rows.bar(index);
                @let rounds: Vec<(usize, f64)> = strategy
                    .rounds
                    .iter()
                    .map(|round| round.throughput_qps)
                    .enumerate()
                    .filter(|(_, round)| measured(round))
                    .collect();
                @let values = rounds.iter().map(|(_, round)| *round);
                (rows.name(index, &strategy.name))
                (rows.value(index, rows.layout.width() - ratio_width, &quantity(strategy.throughput_qps)))
                @if index > 0 {
                    (rows.value(index, rows.layout.width(), &ratio(strategy.ratio_to_first.throughput)))
                }
                g class=(Look(index).class()) {
                    @if measured(&strategy.throughput_qps) {
                        rect.bar x=(Px(rows.plot[0])) y=(Px(y)) height="13" rx="1.5"
                            width=(Px(scale.at(strategy.throughput_qps) - rows.plot[0])) {
                            title { (strategy.name) ": median " (quantity(strategy.throughput_qps)) " queries/s" }
                        }
                    }
                    @if let (Some(lowest), Some(most)) =
                        (values.clone().reduce(f64::min), values.reduce(f64::max)) {
                        line.whisker x1=(Px(scale.at(lowest))) x2=(Px(scale.at(most))) y1=(Px(y + 20.0)) y2=(Px(y + 20.0)) {}
                    }
                    @for (number, round) in &rounds {
                        circle.dot cx=(Px(scale.at(*round))) cy=(Px(y + 20.0)) r="3.2" {
                            title { (strategy.name) ", round " (number + 1) ": " (quantity(*round)) " queries/s" }
                        }
                    }
                }
            }
        };
        (rows.bottom() + AXIS_HEIGHT, drawing)
    }))
}

/// Steals by level, as shares of all tasks.
pub fn steals(strategies: &[Strategy]) -> Chart {
    let shares = |strategy: &Strategy| strategy.steals.and_then(shares);
    if strategies.iter().all(|strategy| shares(strategy).is_none()) {
        return Err("No strategy of this run says from where its workers took their tasks.".into());
    }
    let description = strategies
        .iter()
        .map(|strategy| match shares(strategy) {
            Some([own, domain, remote]) => format!(
                "{}: {} from the own queue, {} from the same domain, {} from another domain",
                strategy.name,
                percent(own),
                percent(domain),
                percent(remote)
            ),
            None => format!("{}: does not say", strategy.name),
        })
        .collect::<Vec<_>>()
        .join("; ");
    let chart = figure("Steals by level, share of tasks", &description, |layout| {
        let rows = Rows::new(
            layout,
            &names(strategies),
            236.0,
            if layout.narrow() { 34.0 } else { 20.0 },
        );
        let head = if layout.narrow() { 0.0 } else { 18.0 };
        let right = layout.width();
        let columns = [right - 158.0, right - 79.0, right];
        let drawing = html! {
            @if !layout.narrow() {
                @for (x, level) in columns.iter().zip(LEVELS) {
                    text.axis x=(Px(*x)) y="12" text-anchor="end" { (level.short) }
                }
            }
            g transform={ "translate(0 " (Px(head)) ")" } {
                @for (index, strategy) in strategies.iter().enumerate() {
                    (rows.name(index, &strategy.name))
                    (stack(&rows, index, strategy, shares(strategy), columns))
                }
            }
        };
        (head + rows.bottom() + 4.0, drawing)
    });
    Ok(html! {
        ul.legend {
            @for (level, entry) in LEVELS.iter().enumerate() {
                li { span class={ "block l" (level) } {} (entry.long) }
            }
        }
        (chart)
    })
}

fn names(strategies: &[Strategy]) -> Vec<&str> {
    let names = strategies.iter().map(|strategy| strategy.name.as_str());
    names.collect()
}

struct Level {
    short: &'static str,
    long: &'static str,
}

const LEVELS: [Level; 3] = [
    Level {
        short: "own",
        long: "own queue",
    },
    Level {
        short: "domain",
        long: "a sibling in the same domain",
    },
    Level {
        short: "remote",
        long: "another domain (cold cache)",
    },
];

/// Shares by level; `None` when nothing was counted. What was moved at its submit is cold, too.
fn shares(steals: Steals) -> Option<[f64; 3]> {
    let away = steals.remote + steals.moved;
    let counts = [steals.own, steals.domain, away].map(|count| count as f64);
    let all: f64 = counts.iter().sum();
    (all > 0.0).then(|| counts.map(|count| count / all))
}

fn stack(
    rows: &Rows,
    index: usize,
    strategy: &Strategy,
    shares: Option<[f64; 3]>,
    columns: [f64; 3],
) -> Markup {
    let y = rows.bar(index);
    let [left, right] = rows.plot;
    let Some(shares) = shares else {
        let why = if strategy.steals.is_some() {
            "took no task"
        } else {
            "does not say"
        };
        return html! { text.tick x=(Px(left)) y=(Px(y + 11.0)) { (why) } };
    };
    let scale = Scale::up_to(1.0, rows.plot, 2);
    let mut start = 0.0;
    html! {
        rect.track x=(Px(left)) y=(Px(y)) width=(Px(right - left)) height="14" {}
        @for (level, share) in shares.into_iter().enumerate() {
            @let from = scale.at(start);
            @let to = scale.at({ start += share; start });
            @if share > 0.0 {
                rect class={ "l" (level) } x=(Px(from)) y=(Px(y)) width=(Px(to - from)) height="14" {
                    title { (strategy.name) ": " (percent(share)) " from " (LEVELS[level].long) }
                }
            }
            @if !rows.layout.narrow() {
                text.value x=(Px(columns[level])) y=(Px(y + 11.5)) text-anchor="end" { (percent(share)) }
            }
        }
        @if rows.layout.narrow() {
            text.tick x=(Px(left)) y=(Px(y + 29.0)) {
                @for (level, share) in shares.into_iter().enumerate() {
                    @if level > 0 { " · " }
                    (LEVELS[level].short) " " (percent(share))
                }
            }
        }
    }
}
