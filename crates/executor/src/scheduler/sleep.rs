//! How a worker sleeps, and sets of groups. The protocol is in `README.md` here.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Condvar, Mutex, Step, left_out};

/// One worker's bed: a token that `unpark` leaves and `park` consumes, so a wake-up before the park is kept.
#[derive(Default)]
pub(crate) struct Parker {
    token: Mutex<bool>,
    signal: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            token: Mutex::new(false),
            signal: Condvar::new(),
        }
    }

    pub(crate) fn park(&self) {
        let mut token = self.token.lock();
        while !*token {
            token = self.signal.wait(token);
        }
        *token = false;
    }

    /// As [`Parker::park`], at most until `deadline`; it may return early.
    pub(crate) fn park_until(&self, deadline: Instant) {
        let mut token = self.token.lock();
        if !*token {
            token = self.signal.wait_until(token, deadline);
        }
        *token = false;
    }

    /// Whether it has been unparked, once.
    #[cfg(feature = "replay")]
    pub(super) fn take_token(&self) -> bool {
        std::mem::take(&mut self.token.lock())
    }

    pub(crate) fn unpark(&self) {
        *self.token.lock() = true;
        self.signal.notify_one();
    }
}

/// A set of groups: those with a worker to spare, those whose queue is worth crossing for, or those that have spilled
/// something.
///
/// A bit changes only under a lock of its group (its own, or that of what is spilled), and only when its group crosses
/// the threshold. Reading is lock-free; a reader that acts on a bit confirms it under that lock.
pub(crate) struct GroupSet {
    /// Each on a line of its own: two sets of one word would else lie on the same one.
    words: Box<[CachePadded<AtomicU64>]>,
}

impl GroupSet {
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            words: (0..groups.div_ceil(64))
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Adds `group`, then orders that before the caller's next look at another set or queue.
    pub(crate) fn insert(&self, group: usize) {
        self.words[group / 64].fetch_or(1 << (group % 64), Ordering::AcqRel);
        if !left_out(Step::FenceOfSpare) {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn remove(&self, group: usize) {
        self.words[group / 64].fetch_and(!(1 << (group % 64)), Ordering::AcqRel);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words
            .iter()
            .all(|word| word.load(Ordering::Acquire) == 0)
    }

    pub(crate) fn contains(&self, group: usize) -> bool {
        self.words[group / 64].load(Ordering::Acquire) & (1 << (group % 64)) != 0
    }
}
