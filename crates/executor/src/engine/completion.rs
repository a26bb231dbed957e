//! A task's life as one locked value: queued, running, ended, taken.
//!
//! Worker, ticket, timer and shutdown meet here and nowhere else. Every transition happens under its lock,
//! so each of these is decided by whoever locks first:
//!
//! 1. `Queued -> Running` by the worker that took the task ([`Completion::begin`]);
//! 2. `Queued -> Ended(error)` by a cancelled ticket, a passed deadline, or shutdown ([`Completion::end_queued`]);
//! 3. `Queued, Running -> Ended(Expired)` at the deadline, by the ticket that waits ([`Completion::poll`]) or by the
//!    timer ([`Completion::expire`]);
//! 4. `Running -> Settled` by the worker that is about to count how a task with a deadline has ended
//!    ([`Completion::settle`]);
//! 5. `Running, Settled -> Ended(result)` by the worker, once ([`Completion::end`]).
//!
//! So a task ends exactly once. A worker whose task was ended by 3 hears of it from 4, counts the task as expired, and
//! drops its result in 5. Without a deadline 3 cannot happen, and the worker leaves 4 out.
//!
//! The waker is taken under the lock and called after it is released: it may run the caller's code.

use std::task::{Poll, Waker};

use chiplet_table::host::contain;

use crate::counts::End;
use crate::error::Error;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, Step, left_out};

enum State<T> {
    Queued,
    Running,
    /// Its worker is counting how it ended and will say so next. It expires no more.
    Settled,
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

pub(crate) struct Completion<T> {
    inner: Mutex<Inner<T>>,
    /// Whether the state is [`State::Ended`] or [`State::Over`]. Whoever waits awake looks at it again and again, and
    /// must not keep the lock from who ends the task.
    ended: AtomicBool,
}

/// How an outcome is counted.
pub(crate) fn end_of<T>(result: &Result<T, Error>) -> End {
    match result {
        Ok(_) | Err(Error::Search(_)) => End::Done,
        Err(Error::Expired) => End::Expired,
        Err(Error::Panicked(_)) => End::Panicked,
        Err(_) => End::Cancelled,
    }
}

impl<T> Completion<T> {
    pub(crate) fn new() -> Self {
        Self::of(State::Queued)
    }

    /// A task's that counts as running from the beginning: a batch, whose parts wait in its place.
    pub(crate) fn started() -> Self {
        Self::of(State::Running)
    }

    fn of(state: State<T>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                state,
                waker: None,
                unwanted: false,
                cancelled: false,
            }),
            ended: AtomicBool::new(false),
        }
    }

    /// The task ends, as `state` says. Called with the lock.
    fn enter(&self, inner: &mut Inner<T>, state: State<T>) {
        inner.state = state;
        if !left_out(Step::EndShows) {
            self.ended.store(true, Ordering::Release);
        }
    }

    /// Claims the task for running, or says how it ended in the queue.
    pub(crate) fn begin(&self) -> Result<(), End> {
        let mut inner = self.inner.lock();
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
            State::Running | State::Settled => {
                unreachable!("a task is in one queue once, so one worker takes it")
            }
        }
    }

    /// Ends a task that has not started. Says how the task ended, if it has: by this call or before.
    pub(crate) fn end_queued(&self, error: Error) -> Option<End> {
        let (end, waker) = {
            let mut inner = self.inner.lock();
            match &inner.state {
                State::Queued => {
                    let result = Err(error);
                    let end = end_of(&result);
                    let state = match inner.unwanted {
                        true => State::Over(end),
                        false => State::Ended(result),
                    };
                    self.enter(&mut inner, state);
                    (end, inner.waker.take())
                }
                State::Running | State::Settled => return None,
                State::Ended(result) => return Some(end_of(result)),
                State::Over(end) => return Some(*end),
            }
        };
        wake(waker);
        Some(end)
    }

    /// The deadline has passed: tells the ticket so, if it waits for a task that has not ended. One that runs, runs on.
    pub(crate) fn expire(&self) {
        let waker = {
            let mut inner = self.inner.lock();
            if inner.unwanted || !matches!(inner.state, State::Queued | State::Running) {
                return;
            }
            self.enter(&mut inner, State::Ended(Err(Error::Expired)));
            inner.waker.take()
        };
        if !left_out(Step::ExpiryWakes) {
            wake(waker);
        }
    }

    /// How a task that has run into `end` is to be counted: so, unless its ticket has been told that it expired. From
    /// now on the ticket is told nothing else than what is counted.
    pub(crate) fn settle(&self, end: End) -> End {
        let mut inner = self.inner.lock();
        match &inner.state {
            State::Ended(result) => end_of(result),
            State::Over(end) => *end,
            State::Queued | State::Running | State::Settled => {
                debug_assert!(
                    matches!(inner.state, State::Running),
                    "only a running task is settled, and once"
                );
                if !left_out(Step::SettledStays) {
                    inner.state = State::Settled;
                }
                end
            }
        }
    }

    /// Delivers a running task's result, or drops it if the ticket has been told that the task expired.
    pub(crate) fn end(&self, result: Result<T, Error>) {
        let (dropped, waker) = {
            let mut inner = self.inner.lock();
            debug_assert!(
                !matches!(inner.state, State::Queued),
                "only a running task ends this way"
            );
            let told = matches!(inner.state, State::Ended(_) | State::Over(_));
            if told {
                (Some(result), None)
            } else if inner.unwanted {
                self.enter(&mut inner, State::Over(end_of(&result)));
                (Some(result), None)
            } else {
                self.enter(&mut inner, State::Ended(result));
                (None, inner.waker.take())
            }
        };
        // The answer's destructor and the waker are the caller's code: outside the lock, and contained.
        if let Some(result) = dropped {
            contain(|| drop(result));
        }
        if !left_out(Step::AnswerWakes) {
            wake(waker);
        }
    }

    /// Why a running task is not worth going on with, if so: its ticket was told that it expired, or was dropped and
    /// not detached.
    pub(crate) fn stop_reason(&self) -> Option<Error> {
        let inner = self.inner.lock();
        match inner.state {
            State::Ended(_) | State::Over(_) => Some(Error::Expired),
            _ => inner.cancelled.then_some(Error::Cancelled),
        }
    }

    /// Whether the task has ended as far as its ticket is concerned: in its queue, by its deadline, or with an answer.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The ticket goes; a task that has not started is cancelled.
    pub(crate) fn abandon(&self, cancel: bool) {
        let leftovers = {
            let mut inner = self.inner.lock();
            inner.unwanted = true;
            inner.cancelled = cancel;
            let result = match &inner.state {
                State::Queued if cancel => {
                    self.enter(&mut inner, State::Over(End::Cancelled));
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

    /// The result if there is one, else remembers whom to wake. If the deadline has passed (`due`) and there is none,
    /// that is the result.
    pub(crate) fn poll(&self, waker: &Waker, due: bool) -> Poll<Result<T, Error>> {
        // Cloning and dropping a waker is the caller's code, so both happen outside the lock.
        let mut mine = None;
        loop {
            let mut inner = self.inner.lock();
            match &inner.state {
                State::Ended(result) => {
                    let over = State::Over(end_of(result));
                    match std::mem::replace(&mut inner.state, over) {
                        State::Ended(result) => return Poll::Ready(result),
                        _ => unreachable!("matched above"),
                    }
                }
                State::Over(_) => panic!("a ticket was polled after it had given its answer"),
                State::Queued | State::Running if due => {
                    self.enter(&mut inner, State::Over(End::Expired));
                    let known = inner.waker.take();
                    drop(inner);
                    drop(known);
                    return Poll::Ready(Err(Error::Expired));
                }
                State::Queued | State::Running | State::Settled => {}
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

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_waits_awake_keeps_the_lock_from_nobody() {
        let completion = Arc::new(Completion::<u32>::started());
        let inner = completion.inner.lock();
        let (tell, told) = channel();
        let waits = Arc::clone(&completion);
        std::thread::spawn(move || tell.send(waits.is_ended()));
        let seen = told.recv_timeout(Duration::from_secs(60));
        assert_eq!(seen, Ok(false), "it waits for the lock");
        drop(inner);
        completion.end(Ok(7));
        assert!(completion.is_ended());
    }
}
