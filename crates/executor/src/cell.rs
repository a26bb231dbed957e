//! A task's life as one locked value: queued, running, ended, taken.
//!
//! Worker, ticket and shutdown meet here and nowhere else. Every transition happens under the cell's lock,
//! so each of these is decided by whoever locks first:
//!
//! 1. `Queued -> Running` by the worker that took the task ([`Cell::begin`]);
//! 2. `Queued -> Ended(error)` by a cancelled ticket, a passed deadline, or shutdown ([`Cell::end_queued`]);
//! 3. `Running -> Ended(result)` by the worker, once ([`Cell::end`]).
//!
//! So a task ends exactly once. The waker is taken under the lock and called after it is released: it may run
//! the caller's code.

use std::task::{Poll, Waker};

use crate::counts::End;
use crate::error::Error;
use crate::sync::{Mutex, Step, left_out};

enum State<T> {
    Queued,
    Running,
    Ended(Result<T, Error>),
    /// The ticket has the result, or nobody will ask for it.
    Over(End),
}

struct Inner<T> {
    state: State<T>,
    waker: Option<Waker>,
    /// The ticket is gone: nobody waits for the result.
    unwanted: bool,
    /// It went without being detached: what has not started is not to start.
    cancelled: bool,
}

pub(crate) struct Cell<T>(Mutex<Inner<T>>);

/// How an outcome is counted.
pub(crate) fn end_of<T>(result: &Result<T, Error>) -> End {
    match result {
        Ok(_) | Err(Error::Search(_)) => End::Done,
        Err(Error::Expired) => End::Expired,
        Err(Error::Panicked(_)) => End::Panicked,
        Err(_) => End::Cancelled,
    }
}

impl<T> Cell<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            state: State::Queued,
            waker: None,
            unwanted: false,
            cancelled: false,
        }))
    }

    /// Claims the task for running, or says how it ended in the queue.
    pub(crate) fn begin(&self) -> Result<(), End> {
        let mut inner = self.0.lock();
        match &inner.state {
            State::Queued => {
                inner.state = State::Running;
                Ok(())
            }
            _ if left_out(Step::BeginAsks) => {
                inner.state = State::Running;
                Ok(())
            }
            State::Ended(result) => Err(end_of(result)),
            State::Over(end) => Err(*end),
            State::Running => unreachable!("a task is in one queue once, so one worker takes it"),
        }
    }

    /// Ends a task that has not started. Says how the task ended, if it has: by this call or before.
    pub(crate) fn end_queued(&self, error: Error) -> Option<End> {
        let (end, waker) = {
            let mut inner = self.0.lock();
            match &inner.state {
                State::Queued => {
                    let result = Err(error);
                    let end = end_of(&result);
                    inner.state = if inner.unwanted {
                        State::Over(end)
                    } else {
                        State::Ended(result)
                    };
                    (end, inner.waker.take())
                }
                State::Running => return None,
                State::Ended(result) => return Some(end_of(result)),
                State::Over(end) => return Some(*end),
            }
        };
        wake(waker);
        Some(end)
    }

    /// Delivers a running task's result.
    pub(crate) fn end(&self, result: Result<T, Error>) {
        let (unwanted, waker) = {
            let mut inner = self.0.lock();
            debug_assert!(
                matches!(inner.state, State::Running),
                "only a running task ends this way"
            );
            if inner.unwanted {
                inner.state = State::Over(end_of(&result));
                (Some(result), None)
            } else {
                inner.state = State::Ended(result);
                (None, inner.waker.take())
            }
        };
        // The answer's destructor and the waker are the caller's code: outside the lock, and contained.
        if let Some(result) = unwanted {
            contain(|| drop(result));
        }
        if !left_out(Step::AnswerWakes) {
            wake(waker);
        }
    }

    /// Whether the ticket was dropped, and not detached.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.lock().cancelled
    }

    /// Whether the task has ended while still in its queue.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.0.lock().state, State::Ended(_) | State::Over(_))
    }

    /// The ticket goes; a task that has not started is cancelled.
    pub(crate) fn abandon(&self, cancel: bool) {
        let leftovers = {
            let mut inner = self.0.lock();
            inner.unwanted = true;
            inner.cancelled = cancel;
            let result = match &inner.state {
                State::Queued if cancel => {
                    inner.state = State::Over(End::Cancelled);
                    None
                }
                State::Ended(result) => {
                    let over = State::Over(end_of(result));
                    Some(std::mem::replace(&mut inner.state, over))
                }
                _ => None,
            };
            (result, inner.waker.take())
        };
        // Both destructors are the caller's code, so they run outside the lock.
        drop(leftovers);
    }

    /// The result if there is one, else remembers whom to wake.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<T, Error>> {
        // Cloning and dropping a waker is the caller's code, so both happen outside the lock.
        let mut mine = None;
        loop {
            let mut inner = self.0.lock();
            match &inner.state {
                State::Ended(result) => {
                    let over = State::Over(end_of(result));
                    match std::mem::replace(&mut inner.state, over) {
                        State::Ended(result) => return Poll::Ready(result),
                        _ => unreachable!("matched above"),
                    }
                }
                State::Over(_) => panic!("a ticket was polled after it had given its answer"),
                State::Queued | State::Running => {}
            }
            if inner
                .waker
                .as_ref()
                .is_some_and(|known| known.will_wake(waker))
            {
                return Poll::Pending;
            }
            if let Some(mine) = mine.take() {
                let replaced = inner.waker.replace(mine);
                drop(inner);
                drop(replaced);
                return Poll::Pending;
            }
            drop(inner);
            mine = Some(waker.clone());
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain(|| waker.wake());
    }
}

/// Runs the caller's code where a panic must not reach the worker.
pub(crate) fn contain(code: impl FnOnce()) {
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)) {
        // A payload is the caller's too, and its destructor may panic in turn; then it is leaked.
        if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)))
        {
            std::mem::forget(again);
        }
        tracing::error!("a waker or an answer's destructor panicked; the worker goes on");
    }
}
