//! The run as a page: where each table lived, and how long queries took meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use chiplet::snapshot::RemapEvent;
use chiplet::{Executor, TableId};
use chiplet_charts::lanes::{Lane, Moments, lanes};
use chiplet_charts::lines::{Across, Axes, Panel, Point, Series, Unit, plot};
use chiplet_charts::number::{count, duration, fixed, percent, quantity};
use chiplet_charts::{Chart, Look, legend, section, tiles};
use chiplet_workload::latency::LatencySummary;
use maud::{Markup, html};

use crate::report::Outcome;
use crate::tables::Kind;

/// A table's main home from a time on.
type Home = (Instant, TableId, u32);

/// The main homes of all tables, as they change.
#[derive(Clone, Default)]
pub struct Moves(Arc<Mutex<Vec<Home>>>);

impl Moves {
    /// Forgets what was before, and notes where each table is now.
    pub fn start(&self, executor: &Executor, tables: &[TableId]) -> Instant {
        let now = Instant::now();
        let placement = executor.placement();
        let homes = tables.iter().filter_map(|&table| {
            let homes = placement.homes(table)?;
            Some((now, table, homes.main().domain.0))
        });
        *self.homes() = homes.collect();
        now
    }

    pub fn note(&self, event: &RemapEvent) {
        let now = Instant::now();
        let moved = event.moves.iter();
        let moved = moved.map(|moved| (now, moved.table, moved.to.main().domain.0));
        self.homes().extend(moved);
    }

    fn homes(&self) -> std::sync::MutexGuard<'_, Vec<Home>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// The page, of a run that began at `began`.
pub fn page(outcome: &Outcome, moves: &Moves, began: Instant, tables: &[TableId]) -> String {
    let domains = outcome.snapshot.domains.len();
    let phases = &outcome.phases;
    let length_s: f64 = phases
        .iter()
        .map(|phase| phase.load.elapsed.as_secs_f64())
        .sum();
    let flip_s = phases.get(1).and_then(|phase| phase.parts.first());
    let flip_s = flip_s.map(|(at, _)| at.duration_since(began).as_secs_f64());
    let lived = lived(outcome, moves, began, tables, length_s);
    let moved = lived.iter().filter(|lane| lane.moves() > 0).count();
    let title = match moved {
        0 => format!(
            "{} tables on {domains} cache domains, and none had to move",
            tables.len()
        ),
        _ => format!(
            "{} tables on {domains} cache domains: {moved} moved as their traffic did",
            tables.len()
        ),
    };
    let latency = outcome.latency;
    let figures = [
        ("queries a second", quantity(outcome.throughput())),
        ("p50 latency", duration(latency.p50)),
        ("p99 latency", duration(latency.p99)),
        (
            "recall at 10",
            fixed(outcome.recall(&[Kind::Hnsw, Kind::Ivf]), 3),
        ),
    ];
    let moments = Moments {
        starts: Vec::new(),
        flips: flip_s.into_iter().collect(),
    };
    let placed: Chart = match domains > 1 {
        true => Ok(lanes(
            "Placement over time",
            &lived,
            length_s,
            "seconds",
            &moments,
        )),
        false => Err(
            "This machine has one cache domain: there is nowhere to move a table to.".to_owned(),
        ),
    };
    let main = html! {
        header {
            p.kicker { "make demo" }
            h1 { (title) }
            p.lede {
                "Word vectors were searched at " (percent(outcome.rate / outcome.saturation)) " of what this machine can answer, \
                 some tables far more than others."
                @if flip_s.is_some() { " Half-way the hot set moved to tables that shared a domain" }
                @if flip_s.is_some() && moved > 0 { ", and placement followed." } @else if flip_s.is_some() { "." }
            }
            (tiles(figures.iter().map(|(what, figure)| (figure.as_str(), *what, ""))))
        }
        (section(
            "Placement over time",
            "One lane a table, with its share of the queries; colour and number are the domain whose cache it lived in. The \
             triangle: the hot set moves.",
            placed,
        ))
        (section(
            "Latency over time",
            "From the time a query was meant to be sent until its answer was there. Lower is better. Dotted: the hot set moves.",
            Ok(latencies(outcome, began, length_s, flip_s)),
        ))
        (phases_table(outcome))
    };
    chiplet_charts::page(&format!("{title} · chiplet"), &main)
}

/// The lanes of all tables.
fn lived<'a>(
    outcome: &'a Outcome,
    moves: &Moves,
    began: Instant,
    tables: &[TableId],
    length_s: f64,
) -> Vec<Lane<'a>> {
    let homes = moves.homes();
    let counted = |id: &TableId| outcome.snapshot.tables.iter().find(|table| table.id == *id);
    let all: u64 = outcome
        .snapshot
        .tables
        .iter()
        .map(|table| table.counts.done)
        .sum();
    let lane = |id: &TableId| {
        let table = counted(id)?;
        let own = homes.iter().filter(|(_, of, _)| of == id);
        let own = own.map(|(at, _, domain)| (at.duration_since(began).as_secs_f64(), *domain));
        let share = table.counts.done as f64 / all as f64;
        Some(Lane::new(&table.name, percent(share), own, length_s))
    };
    tables.iter().filter_map(lane).collect()
}

/// p50 and p99 of each stretch.
fn latencies(outcome: &Outcome, began: Instant, length_s: f64, flip_s: Option<f64>) -> Markup {
    let stretches: Vec<(f64, LatencySummary)> = outcome
        .phases
        .iter()
        .flat_map(|phase| &phase.parts)
        .map(|(at, part)| (at.duration_since(began).as_secs_f64(), part.summary()))
        .filter(|(_, latency)| latency.count > 0)
        .collect();
    type Pick = fn(&LatencySummary) -> f64;
    let lines: [(Look, &str, Pick); 2] =
        [(Look(1), "p50", |of| of.p50), (Look(2), "p99", |of| of.p99)];
    let series = lines.map(|(look, name, pick)| Series {
        look,
        points: stretches
            .iter()
            .map(|(at, latency)| Point {
                x: *at,
                y: pick(latency),
                open: false,
                tip: format!(
                    "{name} {} from {} s on",
                    duration(pick(latency)),
                    quantity(*at)
                ),
            })
            .collect(),
    });
    let axes = Axes {
        x_title: "seconds",
        x: Across::UpTo(length_s),
        y: Unit::Duration,
        mark: flip_s,
    };
    let panel = Panel {
        title: "latency",
        series: series.into(),
    };
    html! {
        (legend(lines.map(|(look, name, _)| (look, name))))
        (plot("Latency over time", "p50 and p99 latency over the run", &[panel], &axes))
    }
}

fn phases_table(outcome: &Outcome) -> Markup {
    html! {
        section {
            h2 { "Before and after" }
            div.scroll {
                table {
                    thead { tr { th { "phase" } @for head in ["p50", "p99", "p99.9", "answered", "refused"] { th { (head) } } } }
                    tbody {
                        @for phase in &outcome.phases {
                            tr {
                                th { (phase.name) }
                                @for value in [phase.latency.p50, phase.latency.p99, phase.latency.p999] { td { (duration(value)) } }
                                @for value in [phase.answered, phase.refused] { td { (count(value)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
