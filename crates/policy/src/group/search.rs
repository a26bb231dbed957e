//! When a queue that refuses tasks is searched for dead ones.

use std::time::Duration;

use crate::Time;

/// A queue that refuses is searched for dead tasks again after this time.
const PAUSE: Duration = Duration::from_millis(64);

/// So many tasks are looked at in a turn: some tenths of a millisecond, for which the queue's lock is held.
pub(super) const STEPS: usize = 1_000;

/// A request to search a queue for dead tasks, whose places the living could use.
#[derive(Default)]
pub(super) struct Search {
    /// Whether anybody was refused since the last search, or that goes on.
    pub(super) wanted: bool,
    next: Time,
}

impl Search {
    /// Whether to search now, if anybody was refused and it is not too soon.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.wanted && self.next <= now
    }

    /// It is through with the queue at `now`.
    pub(super) fn ends(&mut self, now: Time) {
        (self.wanted, self.next) = (false, now + PAUSE);
    }
}
