//! Where tables were over time: one lane a table, coloured and numbered by home domain.

use crate::number::quantity;
use crate::{AXIS_HEIGHT, Look, Px, Scale, axis_below, figure, label_width, points, short};
use maud::{Markup, html};

/// Domains that a legend names.
const LEGEND: usize = 16;
const LANE: f64 = 18.0;

/// A table, and where it was.
pub struct Lane<'a> {
    name: &'a str,
    value: String,
    stays: Vec<Stay>,
}

/// A stretch of time on one domain.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    from: f64,
    to: f64,
    domain: u32,
}

impl<'a> Lane<'a> {
    /// A table of this `name`, with a figure beside it, whose home is a domain from each time on, in seconds of
    /// `length_s`.
    pub fn new(
        name: &'a str,
        value: String,
        homes: impl IntoIterator<Item = (f64, u32)>,
        length_s: f64,
    ) -> Self {
        let stays = stays(homes, length_s);
        Self { name, value, stays }
    }

    /// Whether no home of it is known.
    pub fn is_empty(&self) -> bool {
        self.stays.is_empty()
    }

    /// How often it moved.
    pub fn moves(&self) -> usize {
        self.stays.len().saturating_sub(1)
    }
}

/// Stays in order, neighbours on one domain joined.
fn stays(homes: impl IntoIterator<Item = (f64, u32)>, length_s: f64) -> Vec<Stay> {
    let mut homes: Vec<(f64, u32)> = homes
        .into_iter()
        .filter(|(at_s, _)| at_s.is_finite() && *at_s < length_s)
        .collect();
    homes.sort_by(|a, b| a.0.total_cmp(&b.0));
    homes.dedup_by(|later, earlier| later.1 == earlier.1);
    (0..homes.len())
        .map(|index| Stay {
            from: homes[index].0.max(0.0),
            to: homes
                .get(index + 1)
                .map_or(length_s, |next| next.0.max(0.0)),
            domain: homes[index].1,
        })
        .filter(|stay| stay.to > stay.from)
        .collect()
}

/// What happens to all tables at once, in seconds.
#[derive(Default)]
pub struct Moments {
    /// Vertical lines: a part begins.
    pub starts: Vec<f64>,
    /// Triangles: the hot set moves.
    pub flips: Vec<f64>,
}

/// The lanes over `length_s` seconds, with a legend of their domains.
pub fn lanes(
    label: &str,
    lanes: &[Lane<'_>],
    length_s: f64,
    axis: &str,
    Moments { starts, flips }: &Moments,
) -> Markup {
    let moves: usize = lanes.iter().map(Lane::moves).sum();
    let mut domains: Vec<u32> = lanes
        .iter()
        .flat_map(|lane| lane.stays.iter().map(|stay| stay.domain))
        .collect();
    domains.sort_unstable();
    domains.dedup();
    let description = format!(
        "{label}: homes of {} tables over {} seconds, {moves} moves",
        lanes.len(),
        quantity(length_s),
    );
    let labels: Vec<String> = lanes
        .iter()
        .map(|lane| format!("{}  {}", short(lane.name), lane.value))
        .collect();
    let chart = figure(label, &description, |layout| {
        let (left, pitch, lift) = match layout.narrow() {
            true => (0.0, LANE + 24.0, 18.0),
            false => (
                label_width(labels.iter().map(String::as_str)),
                LANE + 6.0,
                0.0,
            ),
        };
        const TOP: f64 = 14.0;
        let bottom = TOP + lanes.len() as f64 * pitch;
        let range = [left, layout.width() - 14.0];
        let time = Scale::up_to(length_s, range, if layout.narrow() { 4 } else { 10 });
        let drawing = html! {
            (axis_below(&time, TOP, bottom, axis))
            @for (index, lane) in lanes.iter().enumerate() {
                @let y = TOP + index as f64 * pitch + lift;
                @for stay in &lane.stays { (block(stay, lane.name, &time, y)) }
            }
            @for start in starts {
                line.edge x1=(Px(time.at(*start))) x2=(Px(time.at(*start))) y1=(Px(TOP)) y2=(Px(bottom)) {}
            }
            @for flip in flips {
                @let x = time.at(*flip);
                line.dotted x1=(Px(x)) x2=(Px(x)) y1=(Px(TOP)) y2=(Px(bottom)) {}
                polygon.flip points=(points([(x - 4.5, 2.0), (x + 4.5, 2.0), (x, 11.0)])) {
                    title { "hot set moves at " (quantity(*flip)) " s" }
                }
            }
            // Last, because on a phone the lines above run behind the names.
            @for (index, lane) in lanes.iter().enumerate() {
                @let y = TOP + index as f64 * pitch + lift;
                @if layout.narrow() {
                    text.name x="0" y=(Px(y - 5.0)) { (labels[index]) }
                } @else {
                    text.name x="0" y=(Px(y + 13.0)) { (short(lane.name)) title { (lane.name) } }
                    text.value x=(Px(left - 12.0)) y=(Px(y + 13.0)) text-anchor="end" { (lane.value) }
                }
            }
        };
        (bottom + AXIS_HEIGHT, drawing)
    });
    html! {
        @if domains.len() <= LEGEND {
            ul.legend {
                @for domain in &domains { li { span class={ "block " (hue(*domain)) } {} "domain " (domain) } }
            }
        }
        (chart)
    }
}

fn block(stay: &Stay, table: &str, time: &Scale, y: f64) -> Markup {
    let (from, to) = (time.at(stay.from), time.at(stay.to));
    let number = stay.domain.to_string();
    let room = 10.0 + number.len() as f64 * 7.0;
    html! {
        g class=(hue(stay.domain)) {
            rect.stay x=(Px(from)) y=(Px(y)) width=(Px(to - from)) height=(Px(LANE)) {
                title {
                    (table) ": domain " (stay.domain) " from " (quantity(stay.from)) " s to " (quantity(stay.to)) " s"
                }
            }
            line.start x1=(Px(from)) x2=(Px(from)) y1=(Px(y)) y2=(Px(y + LANE)) {}
            @if to - from >= room {
                text.stay-number x=(Px(from + 6.0)) y=(Px(y + 13.0)) { (number) }
            }
        }
    }
}

/// A domain's colour: the strategies' hues in another order, fainter every second time round.
fn hue(domain: u32) -> String {
    let domain = domain as usize;
    let faint = if (domain / Look::HUES) % 2 == 1 {
        " faint"
    } else {
        ""
    };
    format!("d{}{faint}", domain % Look::HUES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_are_in_order_joined_and_within_the_run() {
        let homes = [
            (4.0, 1),
            (0.0, 0),
            (2.0, 0),
            (f64::NAN, 5),
            (9.0, 3),
            (8.0, 2),
        ];
        let expected = [(0.0, 4.0, 0), (4.0, 8.0, 1), (8.0, 9.0, 2)]
            .map(|(from, to, domain)| Stay { from, to, domain });
        assert_eq!(stays(homes, 9.0), expected);
    }
}
