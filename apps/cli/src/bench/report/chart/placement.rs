//! Where the hottest tables were over time.

use super::Chart;
use crate::bench::report::{PlacementHistory, Workload};
use chiplet_bench::charts::lanes::{Lane, Moments, lanes};
use chiplet_bench::charts::number::{count, percent};
use maud::{Markup, html};

/// Lanes drawn for one strategy.
const LANES: usize = 16;

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
    let drawn: Vec<Markup> = histories
        .iter()
        .filter_map(|history| of_strategy(history, workload))
        .collect();
    if drawn.is_empty() {
        return Err("No table's home was recorded, so there is no placement to show.".into());
    }
    Ok(html! { @for drawing in drawn { (drawing) } })
}

/// `None` if no table's home was recorded.
fn of_strategy(history: &PlacementHistory, workload: &Workload) -> Option<Markup> {
    let length_s = history.length_s;
    if !(length_s > 0.0 && length_s.is_finite()) {
        return None;
    }
    let tables: Vec<Lane<'_>> = history
        .tables
        .iter()
        .take(LANES)
        .map(|table| {
            let homes = table.homes.iter().map(|home| (home.at_s, home.domain));
            Lane::new(&table.name, percent(table.share), homes, length_s)
        })
        .collect();
    if tables.iter().all(Lane::is_empty) {
        return None;
    }
    let moves: usize = tables.iter().map(Lane::moves).sum();
    let moments = moments(length_s, workload);
    let label = format!("Placement over time under {}", history.strategy);
    let axis = "seconds under load, rounds one after the other";
    Some(html! {
        h3 { (history.strategy) }
        p.caption {
            "The " (tables.len()) " hottest of " (count(workload.tables as u64)) " tables with their share of the queries, "
            (history.domains) " domains, " (count(moves as u64)) @if moves == 1 { " move. " } @else { " moves. " }
            "The number in a lane is the home domain."
            @if !moments.starts.is_empty() { " Vertical lines: a new round." }
            @if !moments.flips.is_empty() { " Triangles: the hot set moves to other tables." }
        }
        (lanes(&label, &tables, length_s, axis, &moments))
    })
}

/// When rounds after the first begin, and when the hot set moves, on the history's clock.
///
/// The history is the strategy's rounds one after the other. Where they are longer than a measured round, what
/// comes before the measured part is the warm-up.
fn moments(length_s: f64, workload: &Workload) -> Moments {
    let rounds = workload.rounds;
    if rounds == 0 || rounds > 60 {
        return Moments::default();
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
    Moments { starts, flips }
}
