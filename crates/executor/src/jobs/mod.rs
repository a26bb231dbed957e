//! The tasks that there are: a closure, a query, a part of a batch or a block of queries. And what several workers may
//! do of them: a query's scan units, and parts that the task's own code is made of.
//!
//! Each knows how it is run, how its ticket is told, and how it is counted. The engine knows them as
//! [`Task`](crate::engine::task::Task)s.

pub(crate) mod batch;
pub(crate) mod block;
mod bulk;
pub(crate) mod closure;
mod host;
pub(crate) mod search;
mod split;

use std::panic::{AssertUnwindSafe, catch_unwind};

use chiplet_table::host::contain;

use crate::error::Error;

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
#[inline(always)]
pub(crate) fn guarded<T>(code: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(code))
        .unwrap_or_else(|payload| Err(Error::Panicked(panic_message(payload))))
}
