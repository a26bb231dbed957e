//! A task's life as one word, in which worker, ticket, timer and shutdown meet and nowhere else.
//!
//! Each sets bits that stay set, and learns from the same step what the others have set before:
//!
//! 1. the worker that took the task from a queue looks at the word and begins it, or counts how it has ended there
//!    ([`Header::stop_reason`]). A ticket that goes later meets a task that runs;
//! 2. at the deadline the ticket that waits, or the timer, sets [`EXPIRED`] ([`Header::expire`]), unless the task is
//!    settled or done;
//! 3. the worker of a task with a deadline sets [`SETTLED`] before it counts the end ([`Header::settle`]). If the
//!    task has expired, that is what it counts; else it expires no more;
//! 4. the worker leaves the result and sets [`DONE`] ([`Live::tell`]), once. If the ticket is gone or was told
//!    that the task has expired, the worker drops the result; if a waker is there, it calls it;
//! 5. the ticket that finds no end leaves its waker and sets [`WAITER`] ([`Live::ask`]). If the task has ended
//!    meanwhile it takes the result at once;
//! 6. the ticket that goes sets [`GONE`] ([`Live::leave`]), and drops a result that is there.
//!
//! So of 4 and 5 one sees the other, and no answer is lost. Of 4 and 6, too, and one of them drops the result. Of 2 and
//! 3 one is first, and the ticket is told what is counted.

use std::task::{Poll, Waker};

use chiplet_table::host::contain;

use super::task::Header;
use crate::counts::End;
use crate::error::Error;
use crate::report::Answer;
use crate::sync::atomic::Ordering;
use crate::sync::{Slot, Step, left_out};

/// Its worker is counting how it ended: it expires no more.
const SETTLED: u32 = 1;
/// Nothing more becomes of it. The result is there, until it is taken or dropped.
const DONE: u32 = 2;
/// The ticket has left a waker.
const WAITER: u32 = 4;
/// The ticket is gone: nobody waits for the result.
const GONE: u32 = 8;
/// It went without being detached: what has not started is not to start.
const CANCEL: u32 = 16;
/// The ticket is told that the deadline has passed, and not what comes later.
const EXPIRED: u32 = 32;

/// What a task is to run, and then what has come of it: of whoever runs or ends the task, until [`DONE`]; then of who is
/// to take the result. One place for both, as a task is as short as what is in it.
enum Stage<T, C> {
    Code(C),
    Ended(Result<Answer<T>, Error>),
}

/// A task whose ticket gets a `T`, and of which `C` is used up. `jobs` has the kinds of work.
pub(crate) struct Live<T, W, C = ()> {
    pub(crate) header: Header,
    stage: Slot<Stage<T, C>>,
    pub(crate) work: W,
}

impl Header {
    /// Why the task is not to start, or not worth going on with: its ticket was told of an end, or was dropped and not
    /// detached.
    #[inline]
    pub(crate) fn stop_reason(&self) -> Option<Error> {
        match self.state.load(Ordering::Relaxed) & (EXPIRED | DONE | CANCEL) {
            0 => None,
            CANCEL => Some(Error::Cancelled),
            _ => Some(Error::Expired),
        }
    }

    /// Whether the task has ended as far as its ticket is concerned: in its queue, by its deadline, or with an answer.
    pub(crate) fn is_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) & (EXPIRED | DONE) != 0
    }

    /// How a task that has run into `end` is to be counted: so, unless its ticket has been told that it expired. From
    /// now on the ticket is told nothing else than what is counted.
    pub(crate) fn settle(&self, end: End) -> End {
        let state = match left_out(Step::SettledStays) {
            true => self.state.load(Ordering::Acquire),
            false => self.state.fetch_or(SETTLED, Ordering::AcqRel),
        };
        match state & EXPIRED {
            0 => end,
            _ => End::Expired,
        }
    }

    /// The deadline has passed: tells the ticket so, if it waits for a task that has not ended. One that runs, runs on.
    pub(crate) fn expire(&self) {
        let expired =
            |state| (state & (SETTLED | DONE | GONE | EXPIRED) == 0).then_some(state | EXPIRED);
        let set = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, expired);
        if set.is_ok_and(|before| before & WAITER != 0) && !left_out(Step::ExpiryWakes) {
            self.wake();
        }
    }

    /// Whether this is whom the end will wake.
    fn keeps(&self, waker: &Waker) -> bool {
        let known = self.waker.lock();
        known.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Its destructor, as what it does, is the caller's code: both happen outside the lock.
    fn forget_waker(&self) {
        if !left_out(Step::WakerForgotten) {
            let known = self.waker.lock().take();
            drop(known);
        }
    }

    fn wake(&self) {
        let known = self.waker.lock().take();
        if let Some(waker) = known {
            contain(|| waker.wake());
        }
    }
}

impl<T, W, C> Live<T, W, C> {
    /// A task that has not begun.
    #[inline]
    pub(crate) fn new(header: Header, work: W, code: C) -> Self {
        Self {
            header,
            stage: Slot::new(Some(Stage::Code(code))),
            work,
        }
    }

    /// What it begins with, for whoever has taken it from a queue, or could not queue it; once.
    #[inline]
    pub(crate) fn take_code(&self) -> Option<C> {
        match self.stage.take() {
            Some(Stage::Code(code)) => Some(code),
            _ => None,
        }
    }

    /// Delivers a task's result, or drops it if nobody is to be told. Whether that called no code of the caller's.
    #[inline(always)]
    pub(crate) fn tell(&self, result: Result<Answer<T>, Error>) -> bool {
        let unused = self.stage.put(Stage::Ended(result));
        let state = self.header.state.fetch_or(DONE, Ordering::AcqRel);
        debug_assert_eq!(state & DONE, 0, "a task ends once");
        let is_quiet = state & (GONE | EXPIRED | WAITER) == 0;
        if !is_quiet {
            self.tell_whom(state);
        }
        if let Some(Stage::Code(code)) = unused {
            // So is that of code that was not run.
            contain(|| drop(code));
        }
        is_quiet
    }

    #[cold]
    fn tell_whom(&self, state: u32) {
        if state & (GONE | EXPIRED) != 0 {
            if !left_out(Step::UnwantedDropped) {
                // The answer's destructor is the caller's code.
                contain(|| drop(self.stage.take()));
            }
        } else if !left_out(Step::AnswerWakes) {
            self.header.wake();
        }
    }

    /// Ends a task that has not started, unless it has ended before. Says how it is to be counted.
    pub(crate) fn end_in_queue(&self, error: Error) -> End {
        if let Some(reason) = self.header.stop_reason() {
            return End::by(&reason);
        }
        let result = Err(error);
        let end = self.header.settle(End::of(&result));
        self.tell(result);
        end
    }

    /// The ticket goes. With `cancel`, a task that has not started is not to start.
    pub(crate) fn leave(&self, cancel: bool) {
        let gone = if cancel { GONE | CANCEL } else { GONE };
        let state = self.header.state.fetch_or(gone, Ordering::AcqRel);
        if state & WAITER != 0 {
            self.header.forget_waker();
        }
        if state & (DONE | EXPIRED) == DONE && !left_out(Step::LeftoverDropped) {
            drop(self.stage.take());
        }
    }

    /// The result if there is one, else remembers whom to wake.
    ///
    /// # Panics
    /// If the result has been taken before.
    pub(crate) fn ask(&self, waker: &Waker) -> Poll<Result<Answer<T>, Error>> {
        let mut state = self.header.state.load(Ordering::Acquire);
        if state & (EXPIRED | DONE) == 0 {
            if state & WAITER != 0 && self.header.keeps(waker) {
                return Poll::Pending;
            }
            // Cloning and dropping a waker is the caller's code, so both happen outside the lock.
            let mine = Some(waker.clone());
            let before = std::mem::replace(&mut *self.header.waker.lock(), mine);
            drop(before);
            state = self.header.state.fetch_or(WAITER, Ordering::AcqRel);
            if state & (EXPIRED | DONE) == 0 || left_out(Step::WaiterLooks) {
                return Poll::Pending;
            }
            self.header.forget_waker();
        }
        Poll::Ready(self.take(state))
    }

    /// The result, if there is one.
    ///
    /// # Panics
    /// If it has been taken before.
    #[inline]
    pub(crate) fn ready(&self) -> Option<Result<Answer<T>, Error>> {
        let state = self.header.state.load(Ordering::Acquire);
        (state & (EXPIRED | DONE) != 0).then(|| self.take(state))
    }

    /// The result of a task that has ended.
    #[inline]
    fn take(&self, state: u32) -> Result<Answer<T>, Error> {
        if state & EXPIRED != 0 {
            return Err(Error::Expired);
        }
        match self.stage.take() {
            Some(Stage::Ended(result)) => result,
            _ => panic!("a ticket is not asked again after its answer"),
        }
    }
}
