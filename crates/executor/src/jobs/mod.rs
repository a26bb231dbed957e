//! The tasks that there are: a closure, a query, a part of a batch of queries. And what several workers may do of
//! them: a query's scan units, and parts that the task's own code is made of.
//!
//! Each knows how it is run, how its ticket is told, and how it is counted. The engine knows them as
//! [`Task`](crate::engine::task::Task)s.

pub(crate) mod batch;
pub(crate) mod closure;
mod parts;
pub(crate) mod search;
mod units;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::counts::End;
use crate::engine::completion::{Completion, contain, end_of};
use crate::engine::task::Header;
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::report::Answer;

/// How a task that has run into `result` is to be counted. A ticket may be told at any moment that its deadline has
/// passed, so this is settled first; without a deadline there is nothing to settle, and no lock to take.
fn settled<T>(
    header: &Header,
    completion: &Completion<Answer<T>>,
    result: &Result<T, Error>,
) -> End {
    let end = end_of(result);
    match header.expires {
        Some(_) => completion.settle(end),
        None => end,
    }
}

/// The text of a panic.
fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a payload that is not text".to_owned()
    };
    contain(|| drop(payload));
    text
}

/// Runs the caller's code; a panic becomes an error.
fn guarded<T>(code: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(code))
        .unwrap_or_else(|payload| Err(Error::Panicked(panic_message(payload))))
}

/// Ends a task that has been taken too late to be answered. It is not begun, so nothing is learned of how long its
/// table's tasks take.
fn pass_over<T>(
    header: &Header,
    completion: &Completion<Answer<T>>,
    worker: &mut Worker,
    started: Instant,
) {
    let end = settled(header, completion, &Err(Error::Expired));
    let waited = header.waited(started);
    worker.stats().passed_over(&header.entry, end, waited);
    completion.end(Err(Error::Expired));
}
