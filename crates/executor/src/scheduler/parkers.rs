//! Where each thread sleeps, and what it is called for. The protocol is in `README.md` here.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Condvar, Mutex};

/// One thread's bed: a token that `unpark` leaves and `park` consumes, so a wake-up before the park is kept.
#[derive(Default)]
pub(super) struct Parker {
    token: Mutex<bool>,
    signal: Condvar,
}

impl Parker {
    /// Waits for the token. With a limit it may return early.
    pub(super) fn park(&self, until: Option<Instant>) {
        let mut token = self.token.lock();
        while !*token {
            token = match until {
                None => self.signal.wait(token),
                Some(until) => {
                    *self.signal.wait_until(token, until) = false;
                    return;
                }
            };
        }
        *token = false;
    }

    /// Whether it has been unparked, once.
    #[cfg(feature = "replay")]
    pub(super) fn take_token(&self) -> bool {
        std::mem::take(&mut self.token.lock())
    }

    pub(super) fn unpark(&self) {
        *self.token.lock() = true;
        self.signal.notify_one();
    }
}

/// What a worker is woken for besides work of its own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Call {
    None = 0,
    /// To help another group, if its own can spare it.
    Help,
    /// To help another group whose oldest task has waited too long.
    Overdue,
}

/// One for each thread.
pub(super) struct Parkers(Box<[ThreadParker]>);

#[derive(Default)]
struct ThreadParker {
    parker: CachePadded<Parker>,
    /// A [`Call`]: it was woken to help another group and has not found work there yet. Whoever is diverted passes the
    /// call on.
    call: AtomicU8,
}

impl Parkers {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| ThreadParker::default()).collect())
    }

    pub(super) fn park(&self, thread: usize, until: Option<Instant>) {
        self.0[thread].parker.park(until);
    }

    pub(super) fn unpark(&self, thread: usize) {
        self.0[thread].parker.unpark();
    }

    pub(super) fn unpark_all(&self) {
        self.0.iter().for_each(|thread| thread.parker.unpark());
    }

    /// Whether `thread` has been unparked, once.
    #[cfg(feature = "replay")]
    pub(super) fn take_token(&self, thread: usize) -> bool {
        self.0[thread].parker.take_token()
    }

    /// Says what `thread` is woken for. Under the lock of its group: it may be awake already, and next asks for work of
    /// its own.
    pub(super) fn call(&self, thread: usize, call: Call) {
        self.0[thread].call.store(call as u8, Ordering::Release);
    }

    /// Whether `thread` has a call that it has not answered.
    #[inline]
    pub(super) fn is_called(&self, thread: usize) -> bool {
        self.0[thread].call.load(Ordering::Acquire) != Call::None as u8
    }

    /// Whether `thread` has been called for a task that is overdue.
    pub(super) fn is_called_for_overdue(&self, thread: usize) -> bool {
        self.0[thread].call.load(Ordering::Acquire) == Call::Overdue as u8
    }

    /// Takes the call that `thread` has not answered: it has found work elsewhere, which answers any, or passes it on.
    /// Until then the call stands, as it may yet find work at home. False: there is none.
    pub(super) fn take_call(&self, thread: usize) -> bool {
        let call = &self.0[thread].call;
        let none = Call::None as u8;
        self.is_called(thread) && call.swap(none, Ordering::AcqRel) != none
    }
}
