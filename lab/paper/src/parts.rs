//! What the coarse parts of the model change of the claims that it does not explain.

use std::fmt::Write as _;

use chiplet_sim::{Costs, Machine, Pages, Topics, UnderLoad, Ways};
use rayon::prelude::*;

use crate::claims::{
    Figure, MISSES, P50, P999, STALLS, THROUGHPUT, Unit, V0_FROM_2, V0_KQPS, V0_OF_IDEAL, View,
};
use crate::groups::Group;
use crate::runs::{Case, Kind, Results, Run, System};
use crate::spread::Spread;

/// A part of the model, modelled otherwise.
struct Part {
    name: &'static str,
    change: fn(&mut Costs),
}

const fn part(name: &'static str, change: fn(&mut Costs)) -> Part {
    Part { name, change }
}

/// All of them. Each constant is from a source that [`Costs`] names, or the other end of a range there.
const PARTS: [Part; 9] = [
    part("as it is", |_| ()),
    part("latency under load as measured", |costs| {
        costs.under_load = UnderLoad::Measured;
    }),
    part("pages of 4 KiB", |costs| costs.pages = Some(Pages::SMALL)),
    part("pages of 2 MiB", |costs| costs.pages = Some(Pages::HUGE)),
    part("a stray line a row", |costs| costs.stray_lines = 1.0),
    part("caches in sets", |costs| costs.ways = Some(WAYS)),
    part("links of 38 GB/s", |costs| costs.link_gbs = 38.0),
    part("links of 38, socket of 375 GB/s", |costs| {
        (costs.link_gbs, costs.socket_gbs) = (38.0, 375.0);
    }),
    part("those, 4 KiB, measured latency, stray, sets", |costs| {
        (costs.link_gbs, costs.socket_gbs) = (38.0, 375.0);
        costs.under_load = UnderLoad::Measured;
        costs.pages = Some(Pages::SMALL);
        costs.stray_lines = 1.0;
        costs.ways = Some(WAYS);
    }),
];

/// Of a Zen 4's caches.
const WAYS: Ways = Ways { l2: 8, l3: 16 };

/// Loads, in percent of V0's saturation.
const LOADS: [u32; 2] = [50, 95];

const STALLS_AT_HALF: Figure = Figure {
    name: "stalls at half load",
    of: |view| view.v2_to_v1(Some(LOADS[0]), |run| run.stalled),
    unit: Unit::Times,
};
const P999_TO_V0: Figure = Figure {
    name: "p999 at half load, V2 to V0",
    of: |view| {
        let p999 = |system| view.run(system, 12, Some(LOADS[0])).map(|run| run.p999_us);
        Ok(p999(System::V2)? / p999(System::V0)?)
    },
    unit: Unit::Times,
};
const P999_NEAR_SATURATION: Figure = Figure {
    name: "p999 at 95 %",
    of: |view| view.v2_to_v1(Some(LOADS[1]), |run| run.p999_us),
    unit: Unit::Times,
};
/// Saturated workers are always busy, so of two systems that is the ratio of what a query waits.
const STALLS_A_QUERY: Figure = Figure {
    name: "stalls a query",
    of: |view| view.v2_to_v1(None, |run| run.stalled / run.qps),
    unit: Unit::Times,
};
const V0_STALLS: Figure = Figure {
    name: "stalled, V0",
    of: |view| Ok(view.run(System::V0, 12, None)?.stalled),
    unit: Unit::Percent,
};

/// The columns.
fn figures(kind: Kind) -> [(&'static str, &'static Figure); 12] {
    let scaling: (&str, &Figure) = match kind {
        Kind::Hnsw => ("V0, 12 CCDs, of 12 times one", &V0_OF_IDEAL),
        Kind::Ivf => ("V0, from 2 to 12 CCDs", &V0_FROM_2),
    };
    [
        ("V0, kq/s", &V0_KQPS),
        scaling,
        ("queries/s, V2 to V1", &THROUGHPUT),
        ("misses", &MISSES),
        (V0_STALLS.name, &V0_STALLS),
        ("stalls, V2 to V1", &STALLS),
        (STALLS_A_QUERY.name, &STALLS_A_QUERY),
        (STALLS_AT_HALF.name, &STALLS_AT_HALF),
        ("p50 at half load", &P50),
        ("p999 at half load", &P999),
        (P999_TO_V0.name, &P999_TO_V0),
        (P999_NEAR_SATURATION.name, &P999_NEAR_SATURATION),
    ]
}

/// Runs every part for tables of a kind, with topics or without, and writes a table: medians, with the least and the
/// most of the seeds.
///
/// # Errors
/// If the simulator refuses a case.
pub fn table(
    (kind, topics): (Kind, Option<Topics>),
    (first, seeds): (u64, u64),
    queries: u64,
    done: impl Fn(usize, usize) + Sync,
) -> anyhow::Result<String> {
    let all = seeds as usize * PARTS.len();
    let finished = std::sync::atomic::AtomicUsize::new(0);
    let seeds: Vec<u64> = (first..first + seeds).collect();
    // By seed, then by part.
    let runs: Vec<Vec<Vec<Run>>> = seeds
        .par_iter()
        .map(|&seed| {
            let of = |systems: &[System], ccds: &[usize]| Group {
                case: Case::full(kind, false, topics, 12, System::V0),
                systems: systems.to_vec(),
                ccds: ccds.to_vec(),
                loads: Vec::new(),
                only_saturated: 0,
                seed,
            };
            let few = match kind {
                Kind::Hnsw => of(&[System::V0], &[1]),
                Kind::Ivf => of(&[System::V0], &[2]),
            };
            let mut full = of(&System::ALL[..3], &[12]);
            full.loads = LOADS.to_vec();
            let prepared = full.prepared()?;
            let runs = PARTS.iter().enumerate().map(|(at, part)| {
                if at > 0 {
                    // What takes long, and what the model as it is shows.
                    full.loads.truncate(1);
                    full.only_saturated = 1;
                }
                let mut machine = Machine::preset("genoa-9654")?;
                (part.change)(&mut machine.costs);
                let mut runs = few.run_on(&machine, &prepared, queries)?;
                runs.extend(full.run_on(&machine, &prepared, queries)?);
                let before = finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                done(before + 1, all);
                Ok(runs)
            });
            runs.collect::<anyhow::Result<_>>()
        })
        .collect::<anyhow::Result<_>>()?;
    let figures = figures(kind);
    let mut text = String::from("| part |");
    for (name, _) in figures {
        let _ = write!(text, " {name} |");
    }
    text += "\n| --- |";
    text += &" --: |".repeat(figures.len());
    text.push('\n');
    for (at, part) in PARTS.iter().enumerate() {
        let results = Results {
            modelled: true,
            date: String::new(),
            seed: first,
            seeds: seeds.len() as u64,
            queries,
            runs: runs.iter().flat_map(|group| group[at].clone()).collect(),
            evidence: Vec::new(),
        };
        let _ = write!(text, "| {} |", part.name);
        for (_, figure) in figures {
            let of_seed = |seed| {
                (figure.of)(&View {
                    results: &results,
                    kind,
                    topics,
                    seed,
                })
            };
            let all: anyhow::Result<Vec<f64>> = results.all_seeds().map(of_seed).collect();
            let spread = all.ok().and_then(Spread::of);
            let text_of = |spread: Spread| spread.text(|value| figure.unit.text(value));
            let _ = write!(text, " {} |", spread.map_or("-".to_owned(), text_of));
        }
        text.push('\n');
    }
    Ok(text)
}
