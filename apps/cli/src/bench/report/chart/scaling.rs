//! What placement gives at several sizes, and how throughput grows with domains.

use super::lines::{Across, Axes, Panel, Point, Series, Unit, plot};
use super::{Chart, Look, legend};
use crate::bench::report::{ScalePoint, ScaledStrategy};
use chiplet_bench::baselines::Strategy as Named;
use chiplet_bench::charts::number::{fixed, ratio};
use maud::{Markup, html};

/// Ratios to the blind pool against the size of the tables.
pub fn sizes(points: &[ScalePoint]) -> Chart {
    let most = most_domains(points);
    let points: Vec<&ScalePoint> = points
        .iter()
        .filter(|point| point.domains == most)
        .collect();
    if points.len() < 2 {
        return Err("One size was run: --size 0.1,0.3,1,3,10 shows where placement pays.".into());
    }
    let Some(first) = points[0].strategies.first() else {
        return Err("No strategy was run.".into());
    };
    let blind = points[0].strategies.iter();
    let mut blind = blind.filter(|strategy| strategy.name == Named::GLOBAL_STEAL.name);
    let base = blind.next().unwrap_or(first).name.clone();
    let known = points.iter().all(|point| point.cache_bytes > 0);
    let x = |point: &ScalePoint| match known {
        true => point.bytes as f64 / point.cache_bytes as f64,
        false => point.size,
    };
    let lines = lines(&points, x, |point, strategy| {
        let base = point.strategies.iter().find(|other| other.name == base)?;
        (strategy.name != base.name).then_some(measured(strategy)? / measured(base)?)
    });
    let title = format!("throughput, ratio to {base}");
    let x_title = match known {
        true => "bytes of all tables / bytes of all caches (log scale)",
        false => "--size (log scale)",
    };
    if lines.is_empty() {
        return Err(format!(
            "Only {base} was run: there is nothing to compare its throughput with."
        ));
    }
    Ok(drawn(lines, &title, (x_title, Across::Log)))
}

/// Throughput on so many domains, to that of the same strategy on the fewest; against workers, as senders take a core
/// of some domains.
pub fn domains(points: &[ScalePoint]) -> Chart {
    let size = points.first().map_or(1.0, |point| point.size);
    let points = points.iter().filter(|point| point.size == size);
    let mut points: Vec<&ScalePoint> = points.collect();
    points.sort_by_key(|point| point.domains);
    points.dedup_by_key(|point| point.domains);
    if points.len() < 2 {
        return Err(
            "One number of domains was run: --ccds 1,2,4,8,12 shows how throughput grows.".into(),
        );
    }
    let fewest = points[0];
    let lines = lines(
        &points,
        |point| point.workers as f64,
        |_, strategy| {
            let least = fewest
                .strategies
                .iter()
                .find(|other| other.name == strategy.name)?;
            Some(measured(strategy)? / measured(least)?)
        },
    );
    let title = format!("throughput, times that of {} domains", fewest.domains);
    let most = most_domains(
        &points
            .iter()
            .map(|&point| point.clone())
            .collect::<Vec<_>>(),
    );
    Ok(drawn(lines, &title, ("domains", Across::UpTo(most as f64))))
}

fn most_domains(points: &[ScalePoint]) -> usize {
    points.iter().map(|point| point.domains).max().unwrap_or(0)
}

/// A line: its look, its name, and its points.
type Line = (Look, String, Vec<Point>);

fn measured(strategy: &ScaledStrategy) -> Option<f64> {
    Some(strategy.throughput_qps).filter(|qps| *qps > 0.0)
}

/// What `y` gives of each strategy.
fn lines(
    points: &[&ScalePoint],
    x: impl Fn(&ScalePoint) -> f64,
    y: impl Fn(&ScalePoint, &ScaledStrategy) -> Option<f64>,
) -> Vec<Line> {
    let line = |(index, strategy): (usize, &ScaledStrategy)| {
        let name = &strategy.name;
        let place = |point: &&ScalePoint| {
            let mut found = point.strategies.iter();
            let found = found.find(|other| other.name == *name)?;
            let value = y(point, found).filter(|value| value.is_finite())?;
            Some(Point {
                x: x(point),
                y: value,
                open: false,
                tip: format!("{name}: {} at {}", ratio(value), fixed(x(point), 2)),
            })
        };
        let places: Vec<Point> = points.iter().filter_map(place).collect();
        (!places.is_empty()).then(|| (Look(index), name.clone(), places))
    };
    let strategies = points[0].strategies.iter().enumerate();
    strategies.filter_map(line).collect()
}

fn drawn(lines: Vec<Line>, title: &str, (x_title, x): (&str, Across)) -> Markup {
    let names: Vec<(Look, String)> = lines
        .iter()
        .map(|(look, name, _)| (*look, name.clone()))
        .collect();
    let series = lines
        .into_iter()
        .map(|(look, _, points)| Series { look, points });
    let panel = Panel {
        title,
        series: series.collect(),
    };
    let axes = Axes {
        x_title,
        x,
        y: Unit::Times,
        mark: None,
    };
    html! {
        (legend(names.iter().map(|(look, name)| (*look, name.as_str()))))
        (plot(title, "one line for each strategy", &[panel], &axes))
    }
}
