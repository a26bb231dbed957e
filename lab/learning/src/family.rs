//! Kinds of services: which machine they run on, which tables they search, how much they compute.
//!
//! All cases of a family share its tables and its machine, as the containers of one service do. That is what makes a
//! random split leak: a model that recognises the service has seen its other containers.

use std::fmt::Write as _;

use anyhow::Context as _;
use chiplet_sim::{Compute, Machine, PRESETS, Prepared, Recipe, Sampling, Scoring};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use crate::draw::{between, log_between, one_of, seeded};

/// How large the recordings and the runs of all cases are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Size {
    /// Queries that are counted in each run; half as many before them warm the caches.
    pub queries: u64,
    /// Different recorded queries.
    pub recorded: usize,
    /// Rows of the largest graph that searches are recorded of.
    pub rows: usize,
    /// The part of a graph's nodes that is modelled, in caches of that part of their size.
    pub sample: f64,
}

impl Default for Size {
    /// Some 0.1 seconds of a core for each case.
    fn default() -> Self {
        Self {
            queries: 4_000,
            recorded: 200,
            rows: 16_384,
            sample: 1.0 / 32.0,
        }
    }
}

/// How a family is told from others in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// The machine's preset, of two sockets.
    pub machine: String,
    /// The tables, as the simulator reads them.
    pub recipe: String,
    /// Computing takes so many times what it takes on the machine that was measured.
    pub computing: f64,
    /// Cores have so many times the cache lines on their way that the simulator's machines have: code that follows
    /// pointers has few.
    pub overlap: f64,
    /// A model that scores what each walk finds, if there is one.
    pub scoring: Option<Scoring>,
    /// The middle of what its instances' NPMR are drawn around.
    pub npmr: f64,
}

/// A kind of service, ready to be run.
#[derive(Debug)]
pub struct Family {
    /// What it is.
    pub kind: Kind,
    /// Where its instances run.
    pub machine: Machine,
    /// What they search.
    pub prepared: Prepared,
    /// What that computes.
    pub compute: Compute,
}

impl Kind {
    /// The family of that number: machines take turns, and so do graphs and lists; the rest is drawn.
    pub fn draw(seed: u64, number: usize) -> Self {
        let mut dice = StdRng::seed_from_u64(seeded(&[seed, 1, number as u64]));
        let (preset, ..) = PRESETS[number % PRESETS.len()];
        let is_graph = number.is_multiple_of(2);
        let mut recipe = format!("name = 'family {number}'\n");
        let skews = [between(&mut dice, 0.0, 1.1), between(&mut dice, 0.2, 1.0)];
        let _ = writeln!(
            recipe,
            "table_skew = {:.2}\nquery_skew = {:.2}",
            skews[0], skews[1]
        );
        // From what a domain's cache holds to many times that.
        let most = match is_graph {
            true => log_between(&mut dice, 2e4, 1e6),
            false => log_between(&mut dice, 5e4, 2e6),
        };
        let least = most / log_between(&mut dice, 1.5, 10.0);
        let dims = one_of(&mut dice, &[32, 64, 96, 128, 256, 512]);
        let _ = writeln!(
            recipe,
            "[[tables]]\nkind = '{}'\ncount = {}\nrows = [{least:.0}, {most:.0}]\ndims = [{dims}]\nrows_as = '{}'",
            if is_graph { "hnsw" } else { "ivf" },
            dice.random_range(6..=24),
            one_of(&mut dice, &["f32", "f16", "sq8"]),
        );
        let mut scoring = None;
        if is_graph {
            let k = one_of(&mut dice, &[10, 20, 40, 100]);
            let m = one_of(&mut dice, &[12, 16, 24, 32]);
            let _ = writeln!(recipe, "k = [{k}]\nm = {m}");
            scoring = dice.random_bool(0.4).then(|| Scoring {
                candidates: one_of(&mut dice, &[50, 100, 200]),
                feature_bytes: one_of(&mut dice, &[64, 128, 512]),
                micros: log_between(&mut dice, 10.0, 100.0).round(),
            });
        } else {
            let _ = writeln!(recipe, "probes = {}", one_of(&mut dice, &[4, 8, 16, 32]));
        }
        Self {
            machine: format!("{preset}x2"),
            recipe,
            computing: two_digits(log_between(&mut dice, 0.25, 2.5)),
            overlap: two_digits(log_between(&mut dice, 0.25, 1.0)),
            scoring,
            npmr: two_digits(between(&mut dice, 0.35, 0.95)),
        }
    }
}

fn two_digits(value: f64) -> f64 {
    (100.0 * value).round() / 100.0
}

impl Family {
    /// Records what the family's queries read.
    ///
    /// # Errors
    /// If the kind names a machine or tables that the simulator does not take.
    pub fn new(kind: Kind, seed: u64, number: usize, size: &Size) -> anyhow::Result<Self> {
        let mut machine = Machine::preset(&kind.machine)?;
        machine.costs.walk_lines *= kind.overlap;
        machine.costs.scan_lines *= kind.overlap;
        let recipe: Recipe = kind.recipe.parse().context("a family's tables")?;
        let recipe = match kind.scoring {
            Some(scoring) => recipe.scored(scoring)?,
            None => recipe,
        };
        let tables = seeded(&[seed, 2, number as u64]);
        let sampling = Sampling {
            sample: size.sample,
            queries: size.recorded,
            rows: size.rows,
            seed: tables,
        };
        let measured = Compute::default();
        Ok(Self {
            machine,
            prepared: Prepared::new(recipe.workload(tables), sampling, |_| ()),
            compute: Compute {
                row_ns: measured.row_ns * kind.computing,
                component_ns: measured.component_ns * kind.computing,
                scan_gbs: measured.scan_gbs / kind.computing,
            },
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_one_that_the_simulator_takes() {
        let size = Size {
            recorded: 10,
            rows: 1_024,
            ..Size::default()
        };
        // Each machine with graphs and with lists.
        for number in 0..14 {
            let kind = Kind::draw(1, number);
            let family =
                Family::new(kind.clone(), 1, number, &size).expect("its values are within bounds");
            let packages = family
                .machine
                .topology
                .domains()
                .iter()
                .map(|domain| domain.package);
            assert_eq!(packages.max(), Some(1), "{kind:?}");
            assert_eq!(kind, Kind::draw(1, number));
            assert_ne!(kind, Kind::draw(2, number));
        }
    }
}
