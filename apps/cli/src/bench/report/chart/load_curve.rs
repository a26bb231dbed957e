//! Latency over the rate that was sent.

use super::lines::{Across, Axes, Panel, Point, Series, Unit, draw, plot};
use super::{Chart, Layout, Look, Px, label_width, legend};
use crate::bench::report::{CurvePoint, Latency, Report, Strategy, Workload};
use chiplet_bench::charts::number::{duration, fixed, percent, quantity};
use maud::{PreEscaped, html};

/// Below this share of the sent rate a strategy did not keep up and its queue grew.
const KEPT_UP: f64 = 0.95;

/// The load curve's data: who is drawn, in which panels.
struct LoadCurve<'a> {
    drawn: Vec<(Look, &'a str)>,
    panels: [Panel<'a>; 2],
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
                x: Across::UpTo(highest.max(saturation.unwrap_or(0.0)) * 1.02),
                y: Unit::Duration,
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
                "Open marks: fewer than {} % of the queries sent were answered in time; that latency is the growing queue's.",
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
pub fn picture(report: &Report) -> Result<String, String> {
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
    lines.extend(curve.remarks(&report.strategies));
    let width = Layout::Wide.width();
    let all = LEGEND + height + LINE * lines.len() as f64 + 8.0;
    let mut at = 0.0;
    let entries: Vec<(f64, Look, &str)> = curve
        .drawn
        .iter()
        .map(|&(look, name)| {
            let left = at;
            at += 44.0 + label_width([name]);
            (left, look, name)
        })
        .collect();
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox={ "0 0 " (Px(width)) " " (Px(all)) }
            font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" {
            title { "Latency against load" }
            desc { (DESCRIPTION) }
            style { (PreEscaped(chiplet_bench::charts::CHART_STYLE)) }
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
    Ok(svg.into_string() + "\n")
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
