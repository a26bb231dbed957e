//! Where each thread sleeps, and what it is called for. The protocol is in `README.md` here.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicBool, Ordering};
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

/// One for each thread.
pub(super) struct Parkers(Box<[ThreadParker]>);

#[derive(Default)]
struct ThreadParker {
    parker: CachePadded<Parker>,
    /// It was called to help another group and has not found work there yet. Whoever is diverted passes the call on.
    is_called: AtomicBool,
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

    /// Says that `thread` is woken to help another group. Under the lock of its own: it may be awake already, and next
    /// asks for work of its own.
    pub(super) fn call(&self, thread: usize) {
        self.0[thread].is_called.store(true, Ordering::Release);
    }

    /// Whether `thread` has a call that it has not answered.
    #[inline]
    pub(super) fn is_called(&self, thread: usize) -> bool {
        self.0[thread].is_called.load(Ordering::Acquire)
    }

    /// Takes the call that `thread` has not answered: it has found work elsewhere, which answers any, or passes it on.
    /// Until then the call stands, as it may yet find work at home. False: there is none.
    pub(super) fn take_call(&self, thread: usize) -> bool {
        self.is_called(thread) && self.0[thread].is_called.swap(false, Ordering::AcqRel)
    }
}
