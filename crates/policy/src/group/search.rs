//! When a queue that refuses tasks is searched for dead ones.

use std::time::Duration;

use crate::{TableId, Time};

/// A queue that refuses is searched for dead tasks again after this time, and after twice as long each time that none
/// was found.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest such pause: the time in which a queue of a million tasks is searched about once.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// A request to search a queue for dead tasks, whose places the living could use.
#[derive(Default)]
pub(super) struct Search {
    /// Who was refused since the last search: one table at its bound, or with `None` anybody.
    wanted: Option<Option<TableId>>,
    next: Option<Time>,
    pause: Duration,
}

impl Search {
    /// A task of `table` was refused, because the queue is full or with `at_bound` the table's part of it.
    pub(super) fn refused(&mut self, table: TableId, at_bound: bool) {
        let whom = at_bound.then_some(table);
        self.wanted = match self.wanted {
            None => Some(whom),
            Some(before) if before == whom => Some(whom),
            Some(_) => Some(None),
        };
    }

    /// Whom to search for now, if anybody was refused and it is not too soon.
    pub(super) fn due(&mut self, now: Time) -> Option<Option<TableId>> {
        // Asked before every task, and hardly ever wanted: nothing is written then.
        let too_soon = self.next.is_some_and(|next| now < next);
        if too_soon || self.wanted.is_none() {
            return None;
        }
        self.wanted.take()
    }

    /// A search at `now` has found so many.
    pub(super) fn found(&mut self, dead: usize, now: Time) {
        self.pause = match dead {
            0 => (2 * self.pause).clamp(PAUSE, LONGEST_PAUSE),
            _ => PAUSE,
        };
        self.next = Some(now + self.pause);
    }
}
