//! A task that a ticket waits for: what it has to do, what is known of it, and its one ending.
//!
//! `jobs` has the kinds of work. Whatever a task does, here it is claimed, found unwanted, told of its deadline,
//! counted and answered.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use chiplet_policy::{StealLevel, Time};

use chiplet_table::host::contain;

use super::completion::Live;
use super::deadline::Expire;
use super::stats::Note;
use super::task::{Header, Task};
use super::worker::Worker;
use crate::counts::End;
use crate::error::Error;
use crate::report::{Answer, Record};
use crate::sync::{Step, left_out};

/// What a task does.
pub(crate) trait Work<T>: Send + Sync + Sized {
    /// The deadline of `task` has passed before there was an answer. Its ticket is told that, unless there is something
    /// better to tell.
    fn expire<C>(task: &Live<T, Self, C>) {
        task.header.expire();
    }
}

/// Work that one worker takes from a queue.
pub(crate) trait Run<T, C = ()>: Work<T> {
    /// Runs it on this worker, which took it from `level`, and ends it with [`Live::end`] or [`Live::pass_over`]; work
    /// that is shared out may end later and elsewhere.
    fn run(task: &Arc<Live<T, Self, C>>, worker: &mut Worker, started: Time, level: StealLevel);
}

/// The part of a task that its ticket sees.
pub(crate) trait Outcome<T>: Expire {
    fn header(&self) -> &Header;

    /// The answer alone.
    fn answer(&self) -> Option<Result<T, Error>>;

    /// As [`Live::leave`].
    fn abandon(&self, cancel: bool);

    /// As [`Live::ask`].
    fn poll(&self, waker: &Waker) -> Poll<Result<Answer<T>, Error>>;
}

impl<T, W, C> Live<T, W, C> {
    /// Why it is not worth going on with at `now`, if so: its deadline has passed, or its ticket is gone.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Error> {
        match self.header.is_expired(now) {
            true => Err(Error::Expired),
            false => self.header.stop_reason().map_or(Ok(()), Err),
        }
    }

    /// Ends it with `result`, as `record` says that it was served: counts it, then tells its ticket. It has used so
    /// many bytes and nanoseconds of the worker, as far as neither has been counted before.
    #[inline(always)]
    pub(crate) fn end(
        &self,
        worker: &Worker,
        record: Record,
        used: (u64, u64),
        result: Result<T, Error>,
    ) {
        let end = self.settled(&result);
        let note = Note {
            table: self.header.entry.id,
            end,
            tasks: 1,
            times: Some([record.wait, record.service]),
            used,
        };
        let is_late = left_out(Step::NoteBeforeAnswer);
        if !is_late {
            worker.note(note);
        }
        let quietly = self.tell(result.map(|answer| (answer, record)));
        worker.has_answered(quietly);
        if is_late {
            worker.note(note);
        }
    }

    /// Ends a task that has been taken too late to be answered. It is not begun, so nothing is learned of how long its
    /// table's tasks take.
    pub(crate) fn pass_over(&self, worker: &Worker, started: Time) {
        let end = self.settled(&Err(Error::Expired));
        let waited = self.header.waited(started).as_nanos() as u64;
        worker.note(Note {
            times: Some([waited, 0]),
            ..Note::untouched(self.header.entry.id, end, 1)
        });
        self.tell(Err(Error::Expired));
        worker.has_answered(false);
    }

    /// How a task that has run into `result` is to be counted. A ticket may be told at any moment that its deadline has
    /// passed, so this is settled first; without a deadline there is nothing to settle.
    fn settled(&self, result: &Result<T, Error>) -> End {
        let end = End::of(result);
        match self.header.has_deadline() {
            true => self.header.settle(end),
            false => end,
        }
    }
}

impl<T, W, C> Task for Live<T, W, C>
where
    T: Send + 'static,
    W: Run<T, C> + 'static,
    C: Send + 'static,
{
    fn header(&self) -> &Header {
        &self.header
    }

    fn share(self: Arc<Self>) -> Arc<dyn Task> {
        self
    }

    fn end_queued(&self, error: Error) -> End {
        self.end_in_queue(error)
    }

    #[inline(always)]
    fn execute(self: Arc<Self>, worker: &mut Worker, started: Time, level: StealLevel) {
        W::run(&self, worker, started, level);
        contain(|| drop(self));
    }
}

impl<T: Send, W: Work<T>, C: Send> Expire for Live<T, W, C> {
    fn expire(&self) {
        W::expire(self);
    }
}

impl<T: Send, W: Work<T>, C: Send> Outcome<T> for Live<T, W, C> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn answer(&self) -> Option<Result<T, Error>> {
        let answer = self.ready()?;
        Some(answer.map(|(answer, _)| answer))
    }

    fn abandon(&self, cancel: bool) {
        self.leave(cancel);
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Answer<T>, Error>> {
        self.ask(waker)
    }
}
