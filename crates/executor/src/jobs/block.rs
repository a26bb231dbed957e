//! A block of queries that differ by their vectors, with answers in flat arrays.
//!
//! A few parts are in queues at a time, and go on with the next queries when they come to their end (`bulk.rs`). A part
//! keeps the queries that it asks, whose vectors it overwrites, and a piece of the answers, which is copied when it is
//! settled. So no query takes an allocation.

use std::ops::Range;
use std::time::Instant;

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

use super::batch::miscounted;
use super::bulk::{self, BulkTask, Load};
use super::guarded;
use crate::block::{Block, BlockAnswers};
use crate::counts::{End, Served};
use crate::engine::task::Header;
use crate::error::{Error, SubmitError};

/// What `found` says of a row that has no answer.
const UNANSWERED: u32 = u32::MAX;

/// A block that has not been cut, or why there can be none.
pub(crate) fn task(header: Header, block: Block) -> Result<BulkTask<Block>, SubmitError> {
    let answers = BlockAnswers::with_room(block.len(), block.template().k());
    let answers = answers.ok_or(SubmitError::OutOfMemory)?;
    Ok(bulk::task(header, block, answers))
}

/// What a part has found, and the queries that it asks.
#[derive(Default)]
pub(crate) struct Found {
    queries: Vec<Query>,
    rows: BlockAnswers,
}

impl BlockAnswers {
    /// Of no row yet, with room for so many. `None` without the memory for that.
    fn with_room(rows: usize, k: usize) -> Option<Self> {
        let mut answers = Self {
            k,
            ..Self::default()
        };
        let hits = rows.checked_mul(k)?;
        answers.ids.try_reserve_exact(hits).ok()?;
        answers.distances.try_reserve_exact(hits).ok()?;
        answers.found.try_reserve_exact(rows).ok()?;
        Some(answers)
    }

    /// Has so many rows, the new ones without an answer.
    fn resize(&mut self, rows: usize) {
        self.ids.resize(rows * self.k, u64::MAX);
        self.distances.resize(rows * self.k, f32::INFINITY);
        self.found.resize(rows, UNANSWERED);
    }

    /// Keeps an answer to a row, unless there is one. True: this is the first.
    fn answer(&mut self, row: usize, hits: Result<&[Neighbor], Error>) -> bool {
        if self.found[row] != UNANSWERED {
            return false;
        }
        let hits = match hits {
            Ok(hits) => &hits[..hits.len().min(self.k)],
            Err(error) => {
                self.fail(row, &error);
                return true;
            }
        };
        self.found[row] = hits.len() as u32;
        let places = row * self.k..row * self.k + hits.len();
        let places = self.ids[places.clone()]
            .iter_mut()
            .zip(&mut self.distances[places]);
        for (hit, (id, distance)) in hits.iter().zip(places) {
            (*id, *distance) = (hit.id, hit.distance);
        }
        true
    }

    /// A row that has no answer has ended so. It is told with the row before it, if that has ended alike just now.
    fn fail(&mut self, row: usize, error: &Error) {
        self.found[row] = 0;
        match self.failed.last_mut() {
            Some((rows, before)) if rows.end == row && before == error => rows.end += 1,
            _ => self.failed.push((row..row + 1, error.clone())),
        }
    }

    /// Rows of `among` that have no answer have ended so.
    fn fail_unanswered(&mut self, among: Range<usize>, error: &Error) {
        for row in among {
            if self.found[row] == UNANSWERED {
                self.fail(row, error);
            }
        }
    }

    /// Rows that have ended alike, one after the other, are told together.
    fn join_failed(&mut self) {
        self.failed.sort_by_key(|(rows, _)| rows.start);
        self.failed.dedup_by(|(next, error), (rows, before)| {
            let joins = rows.end == next.start && before == error;
            if joins {
                rows.end = next.end;
            }
            joins
        });
    }
}

impl Load for Block {
    type Answers = BlockAnswers;
    type Found = Found;

    fn len(&self) -> usize {
        Block::len(self)
    }

    fn is_fed(&self, _: usize) -> bool {
        true
    }

    fn expires(&self, _: usize) -> Option<Instant> {
        self.template().expires()
    }

    fn answer(
        &self,
        table: &dyn Table,
        queries: Range<usize>,
        context: &mut Context<'_>,
        why: &dyn Fn(SearchError) -> Error,
        found: &mut Found,
    ) {
        let Found {
            queries: asked,
            rows,
        } = found;
        rows.k = self.template().k();
        let (first, count) = (rows.found.len(), queries.len());
        rows.resize(first + count);
        let mut answers = 0;
        let searched = guarded(|| {
            self.ask(queries, asked)?;
            table.search_each(&asked[..count], context, &mut |number, hits| {
                let is_first = number < count && rows.answer(first + number, hits.map_err(why));
                answers += usize::from(is_first);
            });
            Ok(())
        });
        let error = match searched {
            Err(error) => error,
            Ok(()) if answers == count => return,
            Ok(()) => miscounted(answers, count),
        };
        rows.fail_unanswered(first..first + count, &error);
    }

    fn fail(found: &mut Found, count: usize, error: &Error) {
        let first = found.rows.found.len();
        found.rows.resize(first + count);
        found.rows.fail_unanswered(first..first + count, error);
    }

    fn put(&self, answers: &mut BlockAnswers, first: usize, found: &mut Found) -> Served {
        let rows = &mut found.rows;
        let k = answers.k;
        // A part that failed as a whole has never been told.
        rows.k = k;
        let count = rows.found.len();
        rows.resize(count);
        let end = first + count;
        if answers.found.len() < end {
            answers.resize(end);
        }
        answers.ids[first * k..end * k].copy_from_slice(&rows.ids);
        answers.distances[first * k..end * k].copy_from_slice(&rows.distances);
        answers.found[first..end].copy_from_slice(&rows.found);
        let mut ends = Served::default();
        let mut failed = 0;
        for (at, error) in rows.failed.drain(..) {
            failed += at.len();
            ends.count(End::by(&error), at.len() as u64);
            let at = first + at.start..first + at.end;
            answers.failed.push((at, error));
        }
        ends.count(End::Done, (count - failed) as u64);
        rows.ids.clear();
        rows.distances.clear();
        rows.found.clear();
        ends
    }

    fn complete(&self, answers: &mut BlockAnswers, rest: &Error) {
        let len = self.len();
        answers.resize(len);
        answers.fail_unanswered(0..len, rest);
        answers.join_failed();
    }
}
