//! Data, and the checks that every kind of table must pass.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod inputs;
pub mod mapped;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use chiplet_index::{Progress, Stage};
use chiplet_table::host::{Host, Part, Tally, context};
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use chiplet_topology::DomainId;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// `n` rows of `dim` in 20 clusters, as real embeddings lie: neither uniform nor separate.
pub fn clustered(n: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut uniform = |scale: f32| random.random_range(-scale..scale);
    let centres: Vec<f32> = (0..20 * dim).map(|_| uniform(1.0)).collect();
    (0..n)
        .flat_map(|row| {
            let centre = row % 20 * dim;
            (0..dim)
                .map(|i| centres[centre + i] + uniform(0.7))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// `n` rows of `dim` that are copies of only `distinct` vectors.
pub fn duplicated(n: usize, dim: usize, distinct: usize, seed: u64) -> Vec<f32> {
    let originals = clustered(distinct, dim, seed);
    let mut random = StdRng::seed_from_u64(seed + 1);
    (0..n)
        .flat_map(|_| {
            let original = random.random_range(0..distinct) * dim;
            originals[original..original + dim].to_vec()
        })
        .collect()
}

/// Asserts that a build's reports tell these stages, each from nothing to all `total` rows, and never go back.
pub fn assert_progress(reports: &[Progress], stages: &[Stage], total: usize) {
    let mut told: Vec<Stage> = reports.iter().map(|report| report.stage).collect();
    told.dedup();
    assert_eq!(told, stages);
    for stage in stages {
        let of_stage = reports.iter().filter(|report| report.stage == *stage);
        let done: Vec<usize> = of_stage.clone().map(|report| report.done).collect();
        assert!(of_stage.clone().all(|report| report.total == total));
        assert!(done.is_sorted(), "{stage:?}: {done:?}");
        assert_eq!((done[0], done[done.len() - 1]), (0, total), "{stage:?}");
    }
}

/// Components of a word's vector.
pub const WORD_DIM: usize = 50;

/// Every `step`-th vector of the repository's sample of GloVe, from vector `first` on: `[n][WORD_DIM]`.
pub fn words(first: usize, step: usize) -> Vec<f32> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../datasets/glove-50d/vectors.fvecs"
    );
    let bytes = std::fs::read(path).expect("the sample is part of the repository");
    // Four bytes of each say how many components follow.
    let vectors = bytes.chunks_exact(4 + 4 * WORD_DIM).skip(first);
    vectors
        .step_by(step)
        .flat_map(|vector| vector[4..].as_chunks().0)
        .map(|component| f32::from_le_bytes(*component))
        .collect()
}

/// What `table` answers on this thread, whole.
pub fn unsplit(table: &dyn Table, query: &Query) -> Vec<Neighbor> {
    table
        .search(query, &mut Context::default())
        .expect("search")
}

/// What `table` answers when its query is cut: after grain `g` (counted from 1) if bit `g % 64` of `cuts` is
/// set. Units are scanned last to first, as no order is promised.
pub fn split(table: &dyn Table, query: &Query, cuts: u64) -> Vec<Neighbor> {
    let table = table.as_split().expect("a table that splits");
    let probes = table
        .coarse(query, &mut Context::default())
        .expect("coarse");
    let mut units = Vec::new();
    let mut start = 0;
    for (end, grain) in (0..=probes.len())
        .step_by(table.grain())
        .zip(0u32..)
        .skip(1)
    {
        if cuts >> (grain % 64) & 1 == 1 {
            units.push(start..end);
            start = end;
        }
    }
    units.push(start..probes.len());
    let parts = units
        .into_iter()
        .rev()
        .map(|unit| {
            let mut context = Context::default();
            table
                .scan(query, &probes, unit, &mut context)
                .expect("scan")
        })
        .collect();
    let merged = table.merge(query, parts, &mut Context::default());
    merged.expect("merge")
}

/// Runs a search that is stopped when it asks for the `asks`-th time whether anybody still waits for it.
pub fn stopped_after<T>(asks: usize, search: impl FnOnce(&mut Context) -> T) -> T {
    let host = Patience(Cell::new(asks));
    search(&mut context(&host))
}

/// Answers as often as it says that the search is wanted.
struct Patience(Cell<usize>);

impl Host for Patience {
    fn is_wanted(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    fn domain(&self) -> DomainId {
        DomainId(0)
    }

    fn node(&self) -> u32 {
        0
    }

    fn block(&self, code: &mut dyn FnMut()) -> Duration {
        code();
        Duration::ZERO
    }

    fn helpers(&self) -> usize {
        0
    }

    fn run_parts(&self, count: usize, code: Arc<Part>) -> Tally {
        let mut context = context(self);
        for part in 0..count {
            if code(part, &mut context).is_break() {
                break;
            }
        }
        Tally {
            bytes: context.bytes(),
            ..Tally::default()
        }
    }
}

/// Asserts that a search which is stopped wherever it asks says so, and otherwise answers as ever. Returns how often it
/// asks.
pub fn assert_stops_wherever_it_asks(table: &dyn Table, query: &Query) -> usize {
    let expected = unsplit(table, query);
    for asks in 0.. {
        match stopped_after(asks, |context| table.search(query, context)) {
            Ok(found) => {
                assert_eq!(found, expected);
                return asks;
            }
            Err(error) => assert_eq!(error, SearchError::Stopped),
        }
    }
    unreachable!("a search asks a finite number of times")
}

/// Asserts ascending order, ties by id, no id twice, at most `k`.
pub fn assert_well_formed(hits: &[Neighbor], k: usize) {
    assert!(hits.len() <= k, "{} hits for k = {k}", hits.len());
    assert!(hits.is_sorted(), "out of order: {hits:?}");
    let mut ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), hits.len(), "an id twice: {hits:?}");
    assert!(hits.iter().all(|hit| hit.distance.is_finite()), "{hits:?}");
}

/// Share of the exact neighbours that were found, by id: for rows that all differ.
pub fn recall(exact: &dyn Table, table: &dyn Table, queries: &[Query]) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for query in queries {
        let truth: HashSet<u64> = unsplit(exact, query).iter().map(|hit| hit.id).collect();
        let hits = unsplit(table, query);
        wanted += truth.len();
        found += hits.iter().filter(|hit| truth.contains(&hit.id)).count();
    }
    found as f64 / wanted as f64
}

/// Runs `answer` for every number below `count` on eight threads at once and returns the answers in order.
pub fn on_eight_threads<T: Send>(count: usize, answer: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut answers: Vec<(usize, T)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return mine;
                        }
                        mine.push((number, answer(number)));
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("search"))
            .collect()
    });
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Asserts that concurrent searches answer as sequential ones.
pub fn assert_concurrent_equals_sequential(table: &dyn Table, queries: &[Query]) {
    let sequential: Vec<_> = queries.iter().map(|query| unsplit(table, query)).collect();
    let concurrent = on_eight_threads(8 * queries.len(), |number| {
        unsplit(table, &queries[number % queries.len()])
    });
    for (number, answer) in concurrent.iter().enumerate() {
        assert_eq!(answer, &sequential[number % queries.len()]);
    }
}
