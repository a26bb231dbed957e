//! Searches without an executor: on the caller's thread, or on threads that live for one call.

use std::thread;

use chiplet::index::AnyTable;
use chiplet::{Context, SearchError, Table};
use pyo3::prelude::*;

use crate::asked::{Asked, at_row};
use crate::ending::unlocked;
use crate::errors::{OrRaise, Raise};
use crate::hits::{self, Hits, NO_ID};
use crate::input::Filters;
use crate::query::Settings;

/// Queries that a thread is worth starting for.
const EACH_THREAD: usize = 16;

/// Threads of a call, at most.
const MOST_THREADS: usize = 1_024;

/// Queries that a thread holds at a time.
const AT_ONCE: usize = 64;

pub(crate) fn search(
    py: Python<'_>,
    table: &AnyTable,
    mut asked: Asked<'_>,
    threads: Option<usize>,
) -> PyResult<Hits> {
    let k = asked.settings.k;
    if let Some(query) = asked.query() {
        let found = unlocked(py, || table.search(&query, &mut Context::default()));
        return Ok(Hits::of_one(&found.or_raise(py)?, k));
    }
    let count = asked.count;
    let (values, dim) = (asked.rows.values()?, asked.rows.dim());
    let (settings, filters) = (&asked.settings, &asked.filters);
    let mut ids = vec![NO_ID; count * k];
    let mut distances = vec![f32::INFINITY; count * k];
    let searched = unlocked(py, || {
        let threads = threads
            .or_else(|| thread::available_parallelism().ok().map(Into::into))
            .unwrap_or(1)
            .clamp(1, count.div_ceil(EACH_THREAD).clamp(1, MOST_THREADS));
        let each = count.div_ceil(threads).max(1);
        let places = ids.chunks_mut(each * k).zip(distances.chunks_mut(each * k));
        let parts = values.chunks((each * dim).max(1)).zip(places).enumerate();
        let search = |part: usize, values, ids, distances| {
            part_of(
                table,
                settings,
                filters,
                part * each,
                dim,
                (values, ids, distances),
            )
        };
        thread::scope(|scope| {
            let mut parts =
                parts.map(|(part, (values, (ids, distances)))| (part, values, ids, distances));
            let own = parts.next();
            let others: Vec<_> = parts
                .map(|(part, values, ids, distances)| {
                    scope.spawn(move || search(part, values, ids, distances))
                })
                .collect();
            let own = own.map_or(Ok(()), |(part, values, ids, distances)| {
                search(part, values, ids, distances)
            });
            others.into_iter().fold(own, |all, part| {
                all.and(
                    part.join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                )
            })
        })
    });
    match searched {
        Ok(()) => Ok(Hits::of_many(count, k, ids, distances)),
        Err((row, why)) => Err(at_row(py, row, why.raise(py))),
    }
}

type Places<'a> = (&'a [f32], &'a mut [i64], &'a mut [f32]);

/// Answers some of the queries, the first of which is number `first`.
fn part_of(
    table: &AnyTable,
    settings: &Settings,
    filters: &Filters,
    first: usize,
    dim: usize,
    (values, ids, distances): Places<'_>,
) -> Result<(), (usize, SearchError)> {
    let k = settings.k;
    let mut context = Context::default();
    let mut failed = None;
    let mut queries = Vec::new();
    for (at, vectors) in values.chunks((AT_ONCE * dim).max(1)).enumerate() {
        let begin = at * AT_ONCE;
        queries.clear();
        let vectors = vectors.chunks(dim.max(1)).zip(first + begin..);
        queries.extend(vectors.map(|(vector, row)| settings.query(vector, filters.at(row))));
        table.search_each(&queries, &mut context, &mut |query, found| match found {
            Ok(found) => {
                let places = (begin + query) * k..(begin + query + 1) * k;
                hits::fill(&mut ids[places.clone()], &mut distances[places], found);
            }
            Err(why) => {
                failed.get_or_insert((first + begin + query, why));
            }
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
    }
    Ok(())
}
