//! Latency as lines on a logarithmic axis: over the rate that was sent, and over the time within a round.

use super::{AXIS_HEIGHT, Chart, Look, Px, Scale, axis_below, figure, legend, points};
use crate::bench::report::number::{duration, fixed, percent, quantity};
use crate::bench::report::{CurvePoint, Latency, Strategy, Workload};
use maud::{Markup, html};

/// Below this share of the sent rate a strategy did not keep up and its queue grew.
const KEPT_UP: f64 = 0.95;

/// One line.
struct Series {
    look: Look,
    points: Vec<Point>,
}

struct Point {
    x: f64,
    /// Microseconds, above zero.
    y: f64,
    /// Drawn as an outline.
    open: bool,
    tip: String,
}

/// One pair of axes.
struct Panel {
    title: &'static str,
    series: Vec<Series>,
}

/// What all panels of a chart share.
struct Axes<'a> {
    x_title: &'a str,
    x_end: f64,
    /// A dotted vertical line.
    mark: Option<f64>,
}

/// p50 and p99 over the rates of the sweep.
pub fn load_curve(curve: &[CurvePoint], strategies: &[Strategy], workload: &Workload) -> Chart {
    if curve.is_empty() {
        return Err("No sweep over several rates was asked for, so there is no curve of latency against load.".into());
    }
    let mut names: Vec<&str> = strategies
        .iter()
        .map(|strategy| strategy.name.as_str())
        .collect();
    for point in curve {
        if !names.contains(&point.strategy.as_str()) {
            names.push(&point.strategy);
        }
    }
    let panel = |title, pick: fn(&Latency) -> f64| Panel {
        title,
        series: names
            .iter()
            .enumerate()
            .map(|(index, name)| Series {
                look: Look(index),
                points: curve_points(curve, name, title, pick),
            })
            .filter(|series| !series.points.is_empty())
            .collect(),
    };
    let panels = [
        panel("p50 latency", |latency| latency.p50),
        panel("p99 latency", |latency| latency.p99),
    ];
    if panels.iter().all(|panel| panel.series.is_empty()) {
        return Err("The sweep over several rates gave no latency above zero, so there is no curve to draw.".into());
    }
    let saturation = workload
        .saturation_qps
        .filter(|rate| rate.is_finite() && *rate > 0.0);
    let highest = curve
        .iter()
        .map(|point| point.rate_qps)
        .filter(|rate| rate.is_finite())
        .fold(0.0, f64::max);
    let axes = Axes {
        x_title: "queries sent per second",
        x_end: highest.max(saturation.unwrap_or(0.0)) * 1.02,
        mark: saturation,
    };
    let drawn: Vec<(Look, &str)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| (Look(index), *name))
        .filter(|(look, _)| {
            panels
                .iter()
                .any(|panel| panel.series.iter().any(|series| series.look == *look))
        })
        .collect();
    let fell_behind = panels
        .iter()
        .flat_map(|panel| &panel.series)
        .flat_map(|series| &series.points)
        .any(|p| p.open);
    Ok(html! {
        (legend(drawn))
        (plot("Latency against load", "p50 and p99 latency by strategy over the rate of queries sent", &panels, &axes))
        @if let Some(rate) = saturation {
            p.caption {
                "Dotted: " (quantity(rate)) " queries/s, the measured saturation"
                @if let Some(first) = strategies.first() { " of " (first.name) }
                "."
            }
        }
        @if fell_behind {
            p.caption {
                "Open marks: fewer than " (fixed(KEPT_UP * 100.0, 0)) " % of the queries sent were answered in time; the queue grew, and "
                "the latency says more about the length of the round than about the strategy."
            }
        }
    })
}

fn curve_points(
    curve: &[CurvePoint],
    name: &str,
    title: &str,
    pick: fn(&Latency) -> f64,
) -> Vec<Point> {
    let mut points: Vec<Point> = curve
        .iter()
        .filter(|point| {
            point.strategy == name && point.rate_qps.is_finite() && point.rate_qps >= 0.0
        })
        .map(|point| {
            let y = pick(&point.latency_us);
            Point {
                x: point.rate_qps,
                y,
                open: point.throughput_qps < KEPT_UP * point.rate_qps,
                tip: format!(
                    "{name}: {title} {} at {} queries/s sent ({} of saturation), {} answered",
                    duration(y),
                    quantity(point.rate_qps),
                    percent(point.load),
                    quantity(point.throughput_qps)
                ),
            }
        })
        .filter(|point| point.y.is_finite() && point.y > 0.0)
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

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
        x_end,

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
            let mut values: Vec<f64> = strategy
                .rounds
                .iter()
                .filter_map(|round| round.p99_us_by_tenth.get(part).copied())
                .filter(|value| value.is_finite())
                .collect();
            values.sort_by(f64::total_cmp);
            match values.len() {
                0 => f64::NAN,
                count if count % 2 == 1 => values[count / 2],
                count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
            }
        })
        .collect()
}

/// The panels side by side, or below each other where there is no room, all with the same axes.
fn plot(label: &str, description: &str, panels: &[Panel], axes: &Axes) -> Markup {
    let values = || {
        panels
            .iter()
            .flat_map(|panel| &panel.series)
            .flat_map(|series| &series.points)
            .map(|point| point.y)
    };
    let lowest = values().fold(f64::INFINITY, f64::min);
    let highest = values().fold(0.0, f64::max);
    const LEFT: f64 = 58.0;
    const TOP: f64 = 30.0;
    const GAP: f64 = 28.0;
    figure(label, description, |layout| {
        let columns = if layout.narrow() { 1 } else { panels.len() };
        let plot_height = if layout.narrow() { 190.0 } else { 230.0 };
        let panel_height = TOP + plot_height + AXIS_HEIGHT + 6.0;
        let panel_width = (layout.width() - GAP * (columns - 1) as f64) / columns as f64;
        let y = Scale::log(lowest, highest, [TOP + plot_height, TOP], 9);
        let ticks = if layout.narrow() {
            3
        } else if columns > 1 {
            4
        } else {
            8
        };
        let x = Scale::up_to(axes.x_end, [LEFT, panel_width - 22.0], ticks);
        let drawing = html! {
            @for (index, panel) in panels.iter().enumerate() {
                @let left = (index % columns) as f64 * (panel_width + GAP);
                @let top = (index / columns) as f64 * panel_height;
                g transform={ "translate(" (Px(left)) " " (Px(top)) ")" } {
                    text.panel x="0" y="14" { (panel.title) " (log scale)" }
                    @for tick in y.ticks() {
                        line.grid x1=(Px(LEFT)) x2=(Px(x.range[1])) y1=(Px(y.at(*tick))) y2=(Px(y.at(*tick))) {}
                        text.tick x=(Px(LEFT - 8.0)) y=(Px(y.at(*tick) + 4.0)) text-anchor="end" { (tick_duration(*tick)) }
                    }
                    (axis_below(&x, TOP, TOP + plot_height, axes.x_title))
                    @if let Some(mark) = axes.mark {
                        line.dotted x1=(Px(x.at(mark))) x2=(Px(x.at(mark))) y1=(Px(TOP)) y2=(Px(TOP + plot_height)) {}
                    }
                    @for series in &panel.series {
                        g class=(series.look.class()) {
                            @if series.points.len() > 1 {
                                polyline.line points=(points(series.points.iter().map(|p| (x.at(p.x), y.at(p.y))))) {}
                            }
                            @for point in &series.points {
                                (series.look.mark(x.at(point.x), y.at(point.y), point.open, &point.tip))
                            }
                        }
                    }
                }
            }
        };
        (
            panel_height * panels.len().div_ceil(columns) as f64,
            drawing,
        )
    })
}

/// A round duration without needless decimals: `500 µs`, `2 ms`.
fn tick_duration(micros: f64) -> String {
    let (value, unit) = match micros {
        _ if micros < 999.5 => (micros, "µs"),
        _ if micros < 999_500.0 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    match value {
        _ if value >= 1e4 => format!("{value:.0e} {unit}"),
        _ if value >= 0.001 => format!("{} {unit}", (value * 1e3).round() / 1e3),
        _ => format!("{value:.0e} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_labels_are_short_at_any_size() {
        let texts = [1e-4, 0.5, 500.0, 1e3, 2e6, 5e9, 1e12].map(tick_duration);
        assert_eq!(
            texts,
            [
                "1e-4 µs", "0.5 µs", "500 µs", "1 ms", "2 s", "5000 s", "1e6 s"
            ]
        );
    }
}
