//! When a queue that refuses tasks is searched for dead ones.

use std::time::Duration;

use crate::Time;

/// A queue that refuses is searched for dead tasks again after this time, and after twice as long each time that none
/// was found.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest such pause: the time in which a queue of a million tasks is searched about once.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// So many tasks are looked at in a turn: some tenths of a millisecond, for which the queue's lock is held.
pub(super) const STEPS: usize = 1_000;

/// A request to search a queue for dead tasks, whose places the living could use.
#[derive(Default)]
pub(super) struct Search {
    /// Whether anybody was refused since the last search, or that goes on.
    pub(super) wanted: bool,
    next: Time,
    pause: Duration,
}

impl Search {
    /// Whether to search now, if anybody was refused and it is not too soon.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.wanted && self.next <= now
    }

    /// A turn at `now` has found so many; the search is through with it if `is_through`.
    pub(super) fn found(&mut self, dead: usize, is_through: bool, now: Time) {
        if dead > 0 {
            self.pause = Duration::ZERO;
        }
        if is_through {
            self.pause = (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE);
            self.next = now + self.pause;
            self.wanted = false;
        }
    }
}
