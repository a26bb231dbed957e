//! Where the hottest tables were over time: one lane a table, coloured and numbered by home domain.

use super::{AXIS_HEIGHT, Chart, Look, Px, Scale, axis_below, figure, label_width, short};
use crate::bench::report::number::{count, percent, quantity};
use crate::bench::report::{Placed, PlacedTable, PlacementHistory, Workload};
use maud::{Markup, html};

/// Lanes drawn for one strategy.
const LANES: usize = 16;
const LANE: f64 = 18.0;

/// One drawing a strategy that placed tables.
pub fn placement(histories: &[PlacementHistory], workload: &Workload) -> Chart {
    if histories.is_empty() {
        return Err(
            "No strategy of this run places tables, so there is no placement to show.".into(),
        );
    }
    if histories.iter().all(|history| history.domains < 2) {
        return Err("This machine has one domain at the chosen cache level, so every table stays where it is.".into());
    }
    let drawn: Vec<&PlacementHistory> = histories
        .iter()
        .filter(|history| history.length_s > 0.0 && history.length_s.is_finite())
        .filter(|history| {
            history
                .tables
                .iter()
                .any(|table| !stays(table, history.length_s).is_empty())
        })
        .collect();
    if drawn.is_empty() {
        return Err("No table's home was recorded, so there is no placement to show.".into());
    }
    Ok(html! {
        @for history in drawn { (lanes(history, workload)) }
    })
}

/// A stretch of time on one domain.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    from: f64,
    to: f64,
    domain: u32,
}

/// A table's stays, in order, neighbours on one domain joined.
fn stays(table: &PlacedTable, length_s: f64) -> Vec<Stay> {
    let mut homes: Vec<Placed> = table
        .homes
        .iter()
        .copied()
        .filter(|home| home.at_s.is_finite() && home.at_s < length_s)
        .collect();
    homes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    homes.dedup_by(|later, earlier| later.domain == earlier.domain);
    (0..homes.len())
        .map(|index| Stay {
            from: homes[index].at_s.max(0.0),
            to: homes
                .get(index + 1)
                .map_or(length_s, |next| next.at_s.max(0.0)),
            domain: homes[index].domain,
        })
        .filter(|stay| stay.to > stay.from)
        .collect()
}

fn lanes(history: &PlacementHistory, workload: &Workload) -> Markup {
    let tables: Vec<(&PlacedTable, Vec<Stay>)> = history
        .tables
        .iter()
        .take(LANES)
        .map(|table| (table, stays(table, history.length_s)))
        .collect();
    let moves: usize = tables
        .iter()
        .map(|(_, stays)| stays.len().saturating_sub(1))
        .sum();
    let mut domains: Vec<u32> = tables
        .iter()
        .flat_map(|(_, stays)| stays)
        .map(|stay| stay.domain)
        .collect();
    domains.sort_unstable();
    domains.dedup();
    let (starts, flips) = moments(history.length_s, workload);
    let description = format!(
        "{}: homes of the {} hottest tables over {} seconds, {} moves",
        history.strategy,
        tables.len(),
        quantity(history.length_s),
        moves
    );
    let label = format!("Placement over time under {}", history.strategy);
    let labels: Vec<String> = tables
        .iter()
        .map(|(table, _)| format!("{}  {}", short(&table.name), percent(table.share)))
        .collect();
    let chart = figure(&label, &description, |layout| {
        let (left, pitch, lift) = match layout.narrow() {
            true => (0.0, LANE + 24.0, 18.0),
            false => (
                label_width(labels.iter().map(String::as_str)),
                LANE + 6.0,
                0.0,
            ),
        };
        const TOP: f64 = 14.0;
        let bottom = TOP + tables.len() as f64 * pitch;
        let range = [left, layout.width() - 14.0];
        let time = Scale::up_to(
            history.length_s,
            range,
            if layout.narrow() { 4 } else { 10 },
        );
        let drawing = html! {
            (axis_below(&time, TOP, bottom, "seconds under load, rounds one after the other"))
            @for (lane, (table, stays)) in tables.iter().enumerate() {
                @let y = TOP + lane as f64 * pitch + lift;
                @for stay in stays {
                    (block(stay, &table.name, &time, y))
                }
            }
            @for start in &starts {
                line.edge x1=(Px(time.at(*start))) x2=(Px(time.at(*start))) y1=(Px(TOP)) y2=(Px(bottom)) {}
            }
            @for flip in &flips {
                @let x = time.at(*flip);
                line.dotted x1=(Px(x)) x2=(Px(x)) y1=(Px(TOP)) y2=(Px(bottom)) {}
                polygon.flip points=(super::points([(x - 4.5, 2.0), (x + 4.5, 2.0), (x, 11.0)])) {
                    title { "hot set moves at " (quantity(*flip)) " s" }
                }
            }
            // Last, because on a phone the lines above run behind the names.
            @for (lane, (table, _)) in tables.iter().enumerate() {
                @let y = TOP + lane as f64 * pitch + lift;
                @if layout.narrow() {
                    text.name x="0" y=(Px(y - 5.0)) { (labels[lane]) }
                } @else {
                    text.name x="0" y=(Px(y + 13.0)) { (short(&table.name)) title { (table.name) } }
                    text.value x=(Px(left - 12.0)) y=(Px(y + 13.0)) text-anchor="end" { (percent(table.share)) }
                }
            }
        };
        (bottom + AXIS_HEIGHT, drawing)
    });
    html! {
        h3 { (history.strategy) }
        p.caption {
            "The " (tables.len()) " hottest of " (count(workload.tables as u64)) " tables with their share of the queries, "
            (history.domains) " domains, " (count(moves as u64)) @if moves == 1 { " move. " } @else { " moves. " }
            "The number in a lane is the home domain."
            @if !starts.is_empty() { " Vertical lines: a new round." }
            @if !flips.is_empty() { " Triangles: the hot set moves to other tables." }
        }
        @if domains.len() <= LANES {
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

/// When rounds after the first begin, and when the hot set moves, on the history's clock.
///
/// The history is the strategy's rounds one after the other. Where they are longer than a measured round, what
/// comes before the measured part is the warm-up.
fn moments(length_s: f64, workload: &Workload) -> (Vec<f64>, Vec<f64>) {
    let rounds = workload.rounds;
    if rounds == 0 || rounds > 60 {
        return (Vec::new(), Vec::new());
    }
    let each = length_s / rounds as f64;
    let starts = (1..rounds).map(|round| round as f64 * each).collect();
    let before = if workload.round_s.is_finite() {
        (each - workload.round_s).max(0.0)
    } else {
        0.0
    };
    let flips = workload
        .flip_s
        .map(|flip| before + flip)
        .filter(|flip| *flip > 0.0 && *flip < each)
        .map(|flip| {
            (0..rounds)
                .map(|round| round as f64 * each + flip)
                .collect()
        })
        .unwrap_or_default();
    (starts, flips)
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
        let homes = homes.map(|(at_s, domain)| Placed { at_s, domain }).to_vec();
        let table = PlacedTable {
            name: "t".into(),
            share: 0.5,
            homes,
        };
        let expected = [(0.0, 4.0, 0), (4.0, 8.0, 1), (8.0, 9.0, 2)]
            .map(|(from, to, domain)| Stay { from, to, domain });
        assert_eq!(stays(&table, 9.0), expected);
    }
}
