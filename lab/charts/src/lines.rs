//! Lines in panels side by side.

use crate::{AXIS_HEIGHT, Layout, Look, Px, Scale, axis_below, figure, points};
use maud::{Markup, html};

/// One line.
pub struct Series {
    /// Colour and mark.
    pub look: Look,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A mark on a line.
pub struct Point {
    /// On the horizontal axis.
    pub x: f64,
    /// Above zero.
    pub y: f64,
    /// Drawn as an outline.
    pub open: bool,
    /// What it says when it is pointed at.
    pub tip: String,
}

/// One pair of axes.
pub struct Panel<'a> {
    /// What a height is, in words.
    pub title: &'a str,
    /// The lines.
    pub series: Vec<Series>,
}

/// What a height is.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    /// Microseconds, on a logarithmic axis.
    Duration,
    /// How many times as much, from 0 on.
    Times,
}

/// Which numbers the horizontal axis has.
#[derive(Clone, Copy, PartialEq)]
pub enum Across {
    /// From 0 to this.
    UpTo(f64),
    /// Logarithmic, from the lowest to the highest.
    Log,
}

/// What all panels of a chart share.
pub struct Axes<'a> {
    /// What the horizontal axis shows.
    pub x_title: &'a str,
    /// Its numbers.
    pub x: Across,
    /// What a height is.
    pub y: Unit,
    /// A dotted vertical line.
    pub mark: Option<f64>,
}

/// The panels, wide and narrow.
pub fn plot(label: &str, description: &str, panels: &[Panel<'_>], axes: &Axes) -> Markup {
    figure(label, description, |layout| draw(panels, axes, layout))
}

/// The panels side by side, or below each other where there is no room, all with the same axes; and their height.
pub fn draw(panels: &[Panel<'_>], axes: &Axes, layout: Layout) -> (f64, Markup) {
    let all = || {
        let series = panels.iter().flat_map(|panel| &panel.series);
        series.flat_map(|series| &series.points)
    };
    let bounds = |of: fn(&Point) -> f64| {
        let lowest = all().map(of).fold(f64::INFINITY, f64::min);
        (lowest, all().map(of).fold(0.0, f64::max))
    };
    let (lowest, highest) = bounds(|point| point.y);
    const LEFT: f64 = 58.0;
    const TOP: f64 = 30.0;
    const GAP: f64 = 28.0;
    let columns = if layout.narrow() { 1 } else { panels.len() };
    let plot_height = if layout.narrow() { 190.0 } else { 230.0 };
    let panel_height = TOP + plot_height + AXIS_HEIGHT + 6.0;
    let panel_width = (layout.width() - GAP * (columns - 1) as f64) / columns as f64;
    let down = [TOP + plot_height, TOP];
    let y = match axes.y {
        Unit::Duration => Scale::log(lowest, highest, down, 9),
        Unit::Times => Scale::linear(0.0, highest, down, 6),
    };
    let y_tick = |tick: f64| match axes.y {
        Unit::Duration => tick_duration(tick),
        Unit::Times => y.text(tick),
    };
    let ticks = if layout.narrow() {
        3
    } else if columns > 1 {
        4
    } else {
        8
    };
    let across = [LEFT, panel_width - 22.0];
    let x = match axes.x {
        Across::UpTo(end) => Scale::up_to(end, across, ticks),
        Across::Log => {
            let (lowest, highest) = bounds(|point| point.x);
            Scale::log(lowest, highest, across, ticks)
        }
    };
    let drawing = html! {
        @for (index, panel) in panels.iter().enumerate() {
            @let left = (index % columns) as f64 * (panel_width + GAP);
            @let top = (index / columns) as f64 * panel_height;
            g transform={ "translate(" (Px(left)) " " (Px(top)) ")" } {
                text.panel x="0" y="14" { (panel.title) @if axes.y == Unit::Duration { " (log scale)" } }
                @for tick in y.ticks() {
                    line.grid x1=(Px(LEFT)) x2=(Px(x.range[1])) y1=(Px(y.at(*tick))) y2=(Px(y.at(*tick))) {}
                    text.tick x=(Px(LEFT - 8.0)) y=(Px(y.at(*tick) + 4.0)) text-anchor="end" { (y_tick(*tick)) }
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
