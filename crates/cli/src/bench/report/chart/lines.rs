//! Latency as lines on a logarithmic axis: over the rate that was sent, and over the time within a round.

use super::{AXIS_HEIGHT, Chart, Layout, Look, Px, Scale, axis_below, figure, legend, points};
use crate::bench::report::number::{duration, fixed, percent, quantity};
use crate::bench::report::{CurvePoint, Latency, Report, Strategy, Workload};
use maud::{Markup, PreEscaped, html};

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

/// The load curve's data: who is drawn, in which panels.
struct LoadCurve<'a> {
    drawn: Vec<(Look, &'a str)>,
    panels: [Panel; 2],
    axes: Axes<'static>,
    /// Whether a point has more sent than answered.
    fell_behind: bool,
}

impl<'a> LoadCurve<'a> {
    fn of(
        curve: &'a [CurvePoint],
        strategies: &'a [Strategy],
        workload: &Workload,
    ) -> Result<Self, String> {
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
        let is_drawn = |look: Look| {
            let mut series = panels.iter().flat_map(|panel| &panel.series);
            series.any(|series| series.look == look)
        };
        Ok(Self {
            drawn: names
                .iter()
                .enumerate()
                .map(|(index, name)| (Look(index), *name))
                .filter(|(look, _)| is_drawn(*look))
                .collect(),
            fell_behind: panels
                .iter()
                .flat_map(|panel| &panel.series)
                .flat_map(|series| &series.points)
                .any(|point| point.open),
            panels,
            axes: Axes {
                x_title: "queries sent per second",
                x_end: highest.max(saturation.unwrap_or(0.0)) * 1.02,
                mark: saturation,
            },
        })
    }

    /// What the dotted line and the open marks say.
    fn remarks(&self, strategies: &[Strategy]) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(rate) = self.axes.mark {
            let of = strategies
                .first()
                .map_or(String::new(), |first| format!(" of {}", first.name));
            remarks.push(format!(
                "Dotted: {} queries/s, the measured saturation{of}.",
                quantity(rate)
            ));
        }
        if self.fell_behind {
            remarks.push(format!(
                "Open marks: fewer than {} % of the queries sent were answered in time; the queue grew, and the latency \
                 says more about the length of the round than about the strategy.",
                fixed(KEPT_UP * 100.0, 0)
            ));
        }
        remarks
    }
}

/// p50 and p99 over the rates of the sweep.
pub fn load_curve(curve: &[CurvePoint], strategies: &[Strategy], workload: &Workload) -> Chart {
    let curve = LoadCurve::of(curve, strategies, workload)?;
    Ok(html! {
        (legend(curve.drawn.iter().copied()))
        (plot("Latency against load", DESCRIPTION, &curve.panels, &curve.axes))
        @for remark in curve.remarks(strategies) { p.caption { (remark) } }
    })
}

const DESCRIPTION: &str = "p50 and p99 latency by strategy over the rate of queries sent";

/// The load curve as one SVG file, with what was run below it: for a document or a message.
pub fn load_curve_picture(report: &Report) -> Result<String, String> {
    const LEGEND: f64 = 34.0;
    const LINE: f64 = 18.0;
    let curve = LoadCurve::of(&report.load_curve, &report.strategies, &report.workload)?;
    let (height, drawing) = draw(&curve.panels, &curve.axes, Layout::Wide);
    let (machine, workload) = (&report.machine, &report.workload);
    let mut lines = vec![format!(
        "{} {} tables of {} x {}, {}. {}, {} cores in {} {} domains, {}.",
        workload.tables,
        workload.kind,
        workload.rows,
        workload.dims,
        workload.data,
        machine.cpu,
        machine.cores,
        machine.domains,
        machine.level,
        report.date.get(..10).unwrap_or(&report.date)
    )];
    lines.extend(curve.remarks(&report.strategies).into_iter().take(1));
    let width = Layout::Wide.width();
    let all = LEGEND + height + LINE * lines.len() as f64 + 8.0;
    let mut at = 0.0;
    let entries: Vec<(f64, Look, &str)> = curve
        .drawn
        .iter()
        .map(|&(look, name)| {
            let left = at;
            at += 44.0 + super::label_width([name]);
            (left, look, name)
        })
        .collect();
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox={ "0 0 " (Px(width)) " " (Px(all)) }
            font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" {
            title { "Latency against load" }
            desc { (DESCRIPTION) }
            style { (PreEscaped(include_str!("../chart.css"))) }
            @for (left, look, name) in entries {
                g class=(look.class()) transform={ "translate(" (Px(left)) " 2)" } {
                    path.line d="M1 9H29" {}
                    (look.mark(15.0, 9.0, false, name))
                    text x="36" y="13" { (name) }
                }
            }
            g transform={ "translate(0 " (Px(LEGEND)) ")" } { (drawing) }
            @for (index, line) in lines.iter().enumerate() {
                text.axis x="0" y=(Px(LEGEND + height + LINE * (index as f64 + 0.8))) { (line) }
            }
        }
    };
    Ok(picture.into_string() + "\n")
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

/// The panels, wide and narrow.
fn plot(label: &str, description: &str, panels: &[Panel], axes: &Axes) -> Markup {
    figure(label, description, |layout| draw(panels, axes, layout))
}

/// The panels side by side, or below each other where there is no room, all with the same axes; and their height.
fn draw(panels: &[Panel], axes: &Axes, layout: Layout) -> (f64, Markup) {
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
