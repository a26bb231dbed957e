//! What each part gives: a row for each pair of strategies that differ in one thing, and where the lines came from.

use super::ratios::strip;
use super::{AXIS_HEIGHT, Chart, Look, Px, Scale, axis_below, figure, label_width};
use crate::bench::report::Strategy;
use crate::bench::report::parts::{Part, parts, sources};
use chiplet_bench::charts::number::{quantity, ratio};
use maud::{Markup, html};

const SOURCES: [&str; 3] = ["own L3", "another L3", "memory"];

/// Throughput ratios by part, each with the lines a query of the strategy that has it.
pub fn gains(strategies: &[Strategy]) -> Chart {
    let parts = parts(strategies);
    if parts.is_empty() {
        return Err(
            "What each part gives needs strategies that differ in one thing: rayon, global-steal, placebo, \
             ccd-aware-fifo, ccd-aware."
                .into(),
        );
    }
    let description = parts
        .iter()
        .map(|part| format!("{}: {}", pair(part), ratio(part.median)))
        .collect::<Vec<_>>()
        .join("; ");
    let ratios = || parts.iter().flat_map(|part| &part.rounds);
    let lowest = ratios().map(|(_, ratio)| *ratio).fold(1.0, f64::min);
    let highest = ratios().map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    let most = parts
        .iter()
        .filter_map(|part| Some(sources(part.of)?.iter().sum()))
        .fold(0.0, f64::max);
    let labels: Vec<String> = parts
        .iter()
        .flat_map(|part| [format!("{} {}", part.what, ratio(part.median)), pair(part)])
        .collect();
    let beside = label_width(labels.iter().map(String::as_str));
    let chart = figure("What each part gives", &description, |layout| {
        let width = layout.width();
        let (plot, lines, pitch, lift) = match layout.narrow() {
            true => ([8.0, width - 8.0], [0.0, width - 60.0], 104.0, 46.0),
            false => ([beside, 560.0], [600.0, width - 70.0], 48.0, 20.0),
        };
        let bottom = parts.len() as f64 * pitch + 6.0;
        let scale = Scale::linear(lowest, highest, plot, 4);
        let drawing = html! {
            (axis_below(&scale, 4.0, bottom, "throughput, ratio"))
            line.one x1=(Px(scale.at(1.0))) x2=(Px(scale.at(1.0))) y1="4" y2=(Px(bottom)) {}
            @for (row, part) in parts.iter().enumerate() {
                @let top = row as f64 * pitch;
                @let y = top + lift;
                text.name x="0" y=(Px(top + 14.0)) { (part.what) " " tspan.strong { (ratio(part.median)) } }
                text.tick x="0" y=(Px(top + 29.0)) { (pair(part)) }
                (strip(Look(row), part.of, &part.rounds, part.median, &scale, y))
                (stack(part, most, lines, if layout.narrow() { y + 18.0 } else { y - 7.0 }))
            }
        };
        (bottom + AXIS_HEIGHT, drawing)
    });
    Ok(html! {
        @if most > 0.0 {
            ul.legend {
                @for (source, name) in SOURCES.iter().enumerate() {
                    li { span class={ "block l" (source) } {} (name) }
                }
            }
        }
        (chart)
    })
}

fn pair(part: &Part) -> String {
    format!("{} to {}", part.of.name, part.to.name)
}

/// Lines a query by source, of the strategy whose gain the row shows.
fn stack(part: &Part, most: f64, [left, right]: [f64; 2], y: f64) -> Markup {
    let Some(sources) = sources(part.of) else {
        return html! { text.tick x=(Px(left)) y=(Px(y + 11.0)) { "lines not counted here" } };
    };
    let scale = Scale::up_to(most, [left, right], 2);
    let mut sum = 0.0;
    html! {
        @for (source, lines) in sources.into_iter().enumerate() {
            @let from = scale.at(sum);
            @let to = scale.at({ sum += lines; sum });
            rect class={ "l" (source) } x=(Px(from)) y=(Px(y)) width=(Px(to - from)) height="14" {
                title { (part.of.name) ": " (quantity(lines)) " lines a query from " (SOURCES[source]) }
            }
        }
        text.value x=(Px(scale.at(sum) + 6.0)) y=(Px(y + 11.5)) { (quantity(sum)) }
    }
}
