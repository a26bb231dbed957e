//! Each round's ratio to the first strategy's round of the same number: do the rounds agree?

use super::{AXIS_HEIGHT, Chart, Look, Px, Scale, axis_below, figure, label_width, short};
use crate::bench::report::parts;
use crate::bench::report::{Round, Strategy};
use chiplet_bench::charts::number::ratio;
use maud::{Markup, html};

/// What is compared, and which side is better.
struct Measure {
    title: &'static str,
    of: fn(&Round) -> f64,
    median: fn(&Strategy) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure {
        title: "throughput (right is better)",
        of: |round| round.throughput_qps,
        median: |strategy| strategy.ratio_to_first.throughput,
    },
    Measure {
        title: "p50 latency (left is better)",
        of: |round| round.latency_us.p50,
        median: |strategy| strategy.ratio_to_first.p50,
    },
    Measure {
        title: "p99 latency (left is better)",
        of: |round| round.latency_us.p99,
        median: |strategy| strategy.ratio_to_first.p99,
    },
];

/// A strip of dots for every strategy but the first, for throughput, p50 and p99.
pub fn ratios(strategies: &[Strategy]) -> Chart {
    let [first, others @ ..] = strategies else {
        return Err("No strategy was run.".into());
    };
    if others.is_empty() {
        return Err(format!(
            "Only {} was run, so there is nothing to compare it with.",
            first.name
        ));
    }
    let rounds: Vec<Vec<Vec<(usize, f64)>>> = MEASURES
        .iter()
        .map(|measure| {
            others
                .iter()
                .map(|other| parts::ratios(first, other, measure.of))
                .collect()
        })
        .collect();
    if rounds.iter().flatten().all(Vec::is_empty) {
        return Err(
            "No round of two strategies can be compared: figures above zero are missing.".into(),
        );
    }
    let label = format!("Each round's ratio to {}", first.name);
    let description = others
        .iter()
        .map(|other| {
            let Strategy {
                name,
                ratio_to_first: to,
                ..
            } = other;
            format!(
                "{name}: throughput {}, p50 {}, p99 {}",
                ratio(to.throughput),
                ratio(to.p50),
                ratio(to.p99)
            )
        })
        .collect::<Vec<_>>()
        .join("; ");
    Ok(figure(&label, &description, |layout| {
        let names: Vec<String> = others.iter().map(|other| short(&other.name)).collect();
        const TOP: f64 = 30.0;
        const GAP: f64 = 46.0;
        let (left, pitch, lift) = match layout.narrow() {
            true => (10.0, 44.0, 30.0),
            false => (label_width(names.iter().map(String::as_str)), 30.0, 15.0),
        };
        let rows = others.len() as f64 * pitch;
        let panel_height = TOP + rows + AXIS_HEIGHT + if layout.narrow() { 14.0 } else { 0.0 };
        let panel_width = match layout.narrow() {
            true => layout.width() - left - 10.0,
            false => (layout.width() - left - 2.0 * GAP - 14.0) / 3.0,
        };
        let drawing = html! {
            @for (index, (measure, rounds)) in MEASURES.iter().zip(&rounds).enumerate() {
                @let (x0, top) = match layout.narrow() {
                    true => (left, index as f64 * panel_height),
                    false => (left + index as f64 * (panel_width + GAP), 0.0),
                };
                @let values = rounds.iter().flatten().map(|(_, value)| *value);
                @let lowest = values.clone().fold(1.0, f64::min);
                @let highest = values.fold(1.0, f64::max);
                @let scale = Scale::linear(lowest, highest, [x0, x0 + panel_width], 3);
                g transform={ "translate(0 " (Px(top)) ")" } {
                    text.panel x=(Px(if layout.narrow() { 0.0 } else { x0 })) y="14" { (measure.title) }
                    (axis_below(&scale, TOP, TOP + rows, &format!("ratio to {}", short(&first.name))))
                    line.one x1=(Px(scale.at(1.0))) x2=(Px(scale.at(1.0))) y1=(Px(TOP)) y2=(Px(TOP + rows)) {}
                    @for (row, other) in others.iter().enumerate() {
                        @let y = TOP + row as f64 * pitch + lift;
                        @if layout.narrow() {
                            text.name x="0" y=(Px(y - 14.0)) { (names[row]) }
                        } @else if index == 0 {
                            text.name x="0" y=(Px(y + 4.0)) { (names[row]) title { (other.name) } }
                        }
                        (strip(Look(row + 1), other, &rounds[row], (measure.median)(other), &scale, y))
                    }
                }
            }
        };
        (
            if layout.narrow() {
                panel_height * 3.0
            } else {
                panel_height
            },
            drawing,
        )
    }))
}

/// A row's dots, the earliest round on top, and the median as a bar through them.
pub(super) fn strip(
    look: Look,
    other: &Strategy,
    rounds: &[(usize, f64)],
    median: f64,
    scale: &Scale,
    y: f64,
) -> Markup {
    let last = other.rounds.len().saturating_sub(1).max(1) as f64;
    html! {
        g class=(look.class()) {
            @for (round, value) in rounds {
                circle.dot cx=(Px(scale.at(*value))) cy=(Px(y - 8.0 + 16.0 * *round as f64 / last)) r="3.2" {
                    title { (other.name) ", round " (round + 1) ": " (ratio(*value)) }
                }
            }
            @if median.is_finite() && median > 0.0 && !rounds.is_empty() {
                line.median x1=(Px(scale.at(median))) x2=(Px(scale.at(median))) y1=(Px(y - 12.0)) y2=(Px(y + 12.0)) {
                    title { (other.name) ": median " (ratio(median)) }
                }
            } @else if rounds.is_empty() {
                text.tick x=(Px(scale.range[0])) y=(Px(y + 4.0)) { "not measured" }
            }
        }
    }
}
