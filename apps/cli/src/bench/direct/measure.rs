//! The loop that is timed.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet_table::{Context, Query, SearchError};

use super::super::arguments::Arguments;
use super::super::dataset::Dataset;
use super::super::usage::Usage;
use super::allowed::Allowed;
use super::build::{Any, Built};

/// What is measured at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Point {
    /// Of `--ef` or `--nprobe`.
    pub(super) param: u32,
    /// Searchers.
    pub(super) threads: u32,
}

/// A point's figures of all rounds.
pub(super) struct Result {
    pub(super) point: Point,
    pub(super) once: Once,
    /// Of each round: queries a second of all searchers together.
    pub(super) rates: Vec<f64>,
    /// Of each round: cores the process had for each searcher. Below 1 something else ran on them.
    pub(super) shares: Vec<f64>,
}

/// What does not differ from round to round.
#[derive(Clone, Copy)]
pub(super) struct Once {
    pub(super) recall: f64,
    /// KB a query: the cache lines of rows and links that it reads. `None` where the search does not tell.
    pub(super) kb: Option<f64>,
}

/// A table, its queries, and what has been measured on them.
pub(super) struct Bench<'a> {
    arguments: &'a Arguments,
    table: &'a Any,
    source: &'a Dataset,
    allowed: &'a Allowed,
    stop: &'a AtomicBool,
    /// For each parameter.
    once: HashMap<u32, Once>,
    /// For each point, a rate and a share a round.
    rounds: HashMap<Point, Vec<(f64, f64)>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        arguments: &'a Arguments,
        built: &'a Built,
        source: &'a Dataset,
        allowed: &'a Allowed,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            arguments,
            table: &built.table,
            source,
            allowed,
            stop,
            once: HashMap::new(),
            rounds: HashMap::new(),
        }
    }

    pub(super) fn source(&self) -> &'a Dataset {
        self.source
    }

    /// Measures one point once more. Nothing is noted if the run was stopped meanwhile.
    pub(super) fn measure(&mut self, point: Point) -> anyhow::Result<()> {
        if self.stopped() {
            return Ok(());
        }
        let queries = self.queries(point.param);
        if !self.once.contains_key(&point.param) {
            let once = Once {
                recall: self.recall(&queries)?,
                kb: self.kb(&queries)?,
            };
            self.once.insert(point.param, once);
        }
        let threads = point.threads as usize;
        let mut shares = vec![Vec::new(); threads];
        for (number, query) in queries.into_iter().enumerate() {
            shares[number % threads].push(query);
        }
        let length = self.arguments.duration;
        let together = self.arguments.direct.together as usize;
        let ready = Barrier::new(threads);
        let before = Usage::of_process();
        let rates = thread::scope(|scope| {
            let searchers: Vec<_> = shares
                .iter()
                .map(|share| {
                    scope.spawn(|| search(self.table, share, together, length, &ready, self.stop))
                })
                .collect();
            let rates = searchers.into_iter().map(|searcher| match searcher.join() {
                Ok(rate) => rate,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            rates.collect::<std::result::Result<Vec<f64>, SearchError>>()
        })?;
        let cores = (Usage::of_process() - before).cores();
        if !self.stopped() {
            let share = cores / f64::from(point.threads);
            let found = (rates.iter().sum(), share);
            self.rounds.entry(point).or_default().push(found);
        }
        Ok(())
    }

    /// Figures of those `points` that have any, in their order.
    pub(super) fn results(&self, points: &[Point]) -> Vec<Result> {
        let measured = points.iter().filter_map(|point| {
            let (rates, shares) = self.rounds.get(point)?.iter().copied().unzip();
            Some(Result {
                point: *point,
                once: self.once[&point.param],
                rates,
                shares,
            })
        });
        measured.collect()
    }

    /// Drops all figures but those that stay as they are.
    pub(super) fn forget(&mut self) {
        self.rounds.clear();
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn queries(&self, param: u32) -> Vec<Query> {
        let k = self.arguments.k as usize;
        let index = self.arguments.direct.index;
        let rows = self.source.queries.rows();
        rows.map(|row| self.allowed.ask(index.ask(Query::new(row).top(k), param)))
            .collect()
    }

    /// Mean recall over all queries.
    fn recall(&self, queries: &[Query]) -> std::result::Result<f64, SearchError> {
        let mut context = Context::default();
        let mut sum = 0.0;
        let answers = self.table.search_many(queries, &mut context)?;
        for (number, hits) in answers.iter().enumerate() {
            let ids = hits.iter().map(|hit| hit.id as u32);
            sum += self.allowed.recall(number, ids);
        }
        Ok(sum / queries.len() as f64)
    }

    /// Mean KB of the cache lines that a query reads.
    fn kb(&self, queries: &[Query]) -> std::result::Result<Option<f64>, SearchError> {
        let mut bytes = 0;
        for query in queries {
            let Some(of_query) = self.table.bytes_read(query)? else {
                return Ok(None);
            };
            bytes += of_query;
        }
        Ok(Some(bytes as f64 / 1e3 / queries.len() as f64))
    }
}

/// Asks `queries` once, waits for the other searchers, then asks them all again and again for `length`. Returns queries
/// a second.
fn search(
    table: &Any,
    queries: &[Query],
    together: usize,
    length: Duration,
    ready: &Barrier,
    stop: &AtomicBool,
) -> std::result::Result<f64, SearchError> {
    let mut context = Context::default();
    // The others wait at the barrier also if this pass fails.
    let warm = pass(table, queries, together, &mut context);
    ready.wait();
    warm?;
    let began = Instant::now();
    let mut asked = 0;
    loop {
        pass(table, queries, together, &mut context)?;
        asked += queries.len();
        let passed = began.elapsed();
        if passed >= length || stop.load(Ordering::Relaxed) {
            return Ok(asked as f64 / passed.as_secs_f64());
        }
    }
}

/// Asks `queries`, `together` in each call.
fn pass(
    table: &Any,
    queries: &[Query],
    together: usize,
    context: &mut Context,
) -> std::result::Result<(), SearchError> {
    if together > 1 {
        for queries in queries.chunks(together) {
            black_box(table.search_many(queries, context)?);
        }
        return Ok(());
    }
    let table = table.table();
    for query in queries {
        black_box(table.search(query, context)?);
    }
    Ok(())
}
