//! Many queries behind one ticket, each with settings and a deadline of its own.
//!
//! A batch is cut into as many parts as its home has workers at work, and they are queued under one lock, or fed to the
//! queue if that can never hold all of them (`bulk.rs`).

use std::ops::Range;
use std::time::Instant;

use chiplet_table::Class;
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

use super::bulk::{self, BulkTask, LONGEST_PART, Load};
use super::guarded;
use crate::counts::{End, Served};
use crate::engine::task::Header;
use crate::error::Error;

/// The answers to a batch, in the order of its queries. Each is what the query's own ticket would have told.
pub type Answers = Vec<Result<Vec<Neighbor>, Error>>;

/// What stands for an answer that is not there yet. No query of a ticket that is still asked ends so.
const UNANSWERED: Result<Vec<Neighbor>, Error> = Err(Error::Cancelled);

/// Queries that came together.
pub(crate) struct Batch(pub(crate) Vec<Query>);

/// When the last of the queries has expired; `None` if one never does.
pub(crate) fn deadline(queries: &[Query]) -> Option<Instant> {
    let mut last = None;
    for query in queries {
        last = last.max(Some(query.expires()?));
    }
    last
}

/// The class of a batch of a table whose own is `default`: bulk if all of the queries are.
pub(crate) fn class(queries: &[Query], default: Class) -> Class {
    let class = |query: &Query| query.requested_class().unwrap_or(default);
    match queries.iter().all(|query| class(query) == Class::Bulk) {
        true => Class::Bulk,
        false => Class::Interactive,
    }
}

/// A batch that has not been cut.
pub(crate) fn task(header: Header, queries: Vec<Query>) -> BulkTask<Batch> {
    let answers = vec![UNANSWERED; queries.len()];
    bulk::task(header, Batch(queries), answers)
}

impl Load for Batch {
    type Answers = Answers;
    type Found = Answers;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_fed(&self, places: usize) -> bool {
        self.len().div_ceil(LONGEST_PART) > places
    }

    fn expires(&self, number: usize) -> Option<Instant> {
        self.0[number].expires()
    }

    fn answer(
        &self,
        table: &dyn Table,
        queries: Range<usize>,
        context: &mut Context<'_>,
        why: &dyn Fn(SearchError) -> Error,
        found: &mut Answers,
    ) {
        let queries = &self.0[queries];
        if let [query] = queries {
            found.push(guarded(|| table.search(query, context).map_err(why)));
            return;
        }
        let answers = guarded(|| Ok(table.search_batch(queries, context)));
        let failure = match answers {
            Ok(answers) if answers.len() == queries.len() => {
                found.extend(answers.into_iter().map(|answer| answer.map_err(why)));
                return;
            }
            Ok(answers) => miscounted(answers.len(), queries.len()),
            Err(error) => error,
        };
        Self::fail(found, queries.len(), &failure);
    }

    fn fail(found: &mut Answers, count: usize, error: &Error) {
        found.resize(found.len() + count, Err(error.clone()));
    }

    fn put(&self, answers: &mut Answers, first: usize, found: &mut Answers) -> Served {
        let mut ends = Served::default();
        for (place, answer) in answers[first..].iter_mut().zip(found.drain(..)) {
            ends.count(End::of(&answer), 1);
            *place = answer;
        }
        ends
    }

    fn complete(&self, answers: &mut Answers, rest: &Error) {
        for answer in answers.iter_mut().filter(|answer| **answer == UNANSWERED) {
            *answer = Err(rest.clone());
        }
    }
}

/// A table gave so many answers to so many queries.
pub(super) fn miscounted(answers: usize, queries: usize) -> Error {
    Error::Search(SearchError::Backend(format!(
        "the table gave {answers} answers to {queries} queries"
    )))
}
