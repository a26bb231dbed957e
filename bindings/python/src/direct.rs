//! Searches without an executor: on the caller's thread, or with threads that live for one call.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use chiplet::index::AnyTable;
use chiplet::{Context, SearchError, Table};
use pyo3::prelude::*;

use crate::asked::{Asked, at_row};
use crate::errors::{OrRaise, Raise};
use crate::gil::{Asking, unlocked};
use crate::hits::{self, Hits, NO_ID};
use crate::input::Filters;
use crate::query::Settings;
use crate::sync::lock;
use crate::waiting::SIGNALS;

/// Threads of a call, at most.
const MOST_THREADS: usize = 1_024;

/// Queries that a thread takes at a time: enough for a table that answers several together.
const AT_ONCE: usize = 64;

/// Some of the queries, and where their answers go.
struct Piece<'a> {
    /// Number of the first query.
    first: usize,
    /// `[n][dim]`
    vectors: &'a [f32],
    /// `[n][k]`
    ids: &'a mut [i64],
    /// `[n][k]`
    distances: &'a mut [f32],
}

/// Why a search has ended before its end.
enum Ended {
    /// This query cannot be answered.
    Refused(usize, SearchError),
    /// A signal has raised this.
    Raised(PyErr),
    /// The interpreter ends.
    Over,
}

pub(crate) fn search(
    py: Python<'_>,
    table: &AnyTable,
    mut asked: Asked<'_>,
    threads: Option<usize>,
) -> PyResult<Hits> {
    let k = asked.settings.k;
    if let Some(query) = asked.query() {
        let found = unlocked(py, || table.search(&query, &mut Context::default()));
        return Hits::of_one(&found.or_raise(py)?, k).or_raise(py);
    }
    let (count, dim) = (asked.count, asked.rows.dim());
    let values = asked.rows.values()?;
    let (settings, filters) = (&asked.settings, &asked.filters);
    let room = || (vec![NO_ID; count * k], vec![f32::INFINITY; count * k]);
    let (mut ids, mut distances) = unlocked(py, room);
    let searched = unlocked(py, || {
        let places = ids
            .chunks_mut(AT_ONCE * k)
            .zip(distances.chunks_mut(AT_ONCE * k));
        let pieces = values.chunks((AT_ONCE * dim).max(1)).zip(places);
        let pieces = pieces
            .enumerate()
            .map(|(number, (vectors, (ids, distances)))| Piece {
                first: number * AT_ONCE,
                vectors,
                ids,
                distances,
            });
        let pieces = Mutex::new(pieces);
        let ended = Mutex::new(None);
        let work = |mut look: Box<dyn FnMut() -> Result<(), Ended>>| {
            while lock(&ended).is_none() {
                let Some(piece) = lock(&pieces).next() else {
                    break;
                };
                if let Err(why) = answer(table, settings, filters, dim, piece).and_then(|()| look())
                {
                    lock(&ended).get_or_insert(why);
                }
            }
        };
        let threads = threads
            .or_else(|| thread::available_parallelism().ok().map(Into::into))
            .unwrap_or(1)
            .clamp(1, count.div_ceil(AT_ONCE).clamp(1, MOST_THREADS));
        thread::scope(|scope| {
            for _ in 1..threads {
                let started =
                    thread::Builder::new().spawn_scoped(scope, || work(Box::new(|| Ok(()))));
                // With fewer threads it takes longer.
                if started.is_err() {
                    break;
                }
            }
            work(Box::new(signals()));
        });
        lock(&ended).take()
    });
    match searched {
        None => Ok(Hits::of_many(count, k, ids, distances)),
        Some(Ended::Refused(row, why)) => Err(at_row(py, row, why.raise(py))),
        Some(Ended::Raised(why)) => Err(why),
        // Nobody comes back then.
        Some(Ended::Over) => unreachable!("the interpreter has ended"),
    }
}

/// Asks Python for its signals now and then.
fn signals() -> impl FnMut() -> Result<(), Ended> {
    let mut asked = Instant::now();
    move || {
        if asked.elapsed() < SIGNALS {
            return Ok(());
        }
        asked = Instant::now();
        let _asking = Asking::begin().ok_or(Ended::Over)?;
        Python::attach(|py| py.check_signals()).map_err(Ended::Raised)
    }
}

fn answer(
    table: &AnyTable,
    settings: &Settings,
    filters: &Filters,
    dim: usize,
    piece: Piece<'_>,
) -> Result<(), Ended> {
    let k = settings.k;
    let Piece {
        first,
        vectors,
        ids,
        distances,
    } = piece;
    let queries = vectors.chunks(dim.max(1)).zip(first..);
    let queries: Vec<_> = queries
        .map(|(vector, row)| settings.query(vector, filters.at(row)))
        .collect();
    let mut ended = Ok(());
    table.search_each(&queries, &mut Context::default(), &mut |query, found| {
        let places = query * k..(query + 1) * k;
        let told = found
            .and_then(|found| hits::fill(&mut ids[places.clone()], &mut distances[places], found));
        if let (Err(why), Ok(())) = (told, &ended) {
            ended = Err(Ended::Refused(first + query, why));
        }
    });
    ended
}
