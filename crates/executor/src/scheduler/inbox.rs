//! What a group's lock protects: its queue, and who of its workers sleeps or is about to.
//!
//! Plain data: nothing here blocks or unparks. The steps that change it are in `wake.rs`, `ladder.rs` and `standby.rs`.

use std::time::Duration;

use chiplet_policy::queue::Queue;
use chiplet_policy::{TableId, Time};

use super::duty::Duty;

/// A queue that refuses is searched for dead tasks again after this time, and after twice as long each time that none
/// was found.
const SEARCH_PAUSE: Duration = Duration::from_millis(2);

/// The longest such pause: the time in which a queue of a million tasks is searched about once.
const LONGEST_SEARCH_PAUSE: Duration = Duration::from_millis(64);

/// A request to search a queue for dead tasks, whose places the living could use.
#[derive(Default)]
pub(super) struct Search {
    /// Who was refused since the last search: one table at its bound, or with `None` anybody.
    wanted: Option<Option<TableId>>,
    next: Option<Time>,
    pause: Duration,
}

impl Search {
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
            0 => (2 * self.pause).clamp(SEARCH_PAUSE, LONGEST_SEARCH_PAUSE),
            _ => SEARCH_PAUSE,
        };
        self.next = Some(now + self.pause);
    }
}

pub(crate) struct Inbox<T> {
    pub(crate) queue: Queue<T>,
    pub(super) search: Search,
    /// Parked workers of this group, and those about to park.
    pub(super) sleepers: Vec<usize>,
    /// Workers that were taken off `sleepers` and have not come to look yet.
    pub(super) woken: usize,
    /// Workers of this group that are awake without work and look at the queue.
    pub(super) spinning: usize,
    /// Workers of this group that run another group's task now.
    pub(super) stealing: usize,
    /// Whether this group stands in the set of groups that could help others.
    pub(super) offered: bool,
    /// Whether this group stands in the set of groups whose queue is worth crossing for.
    pub(super) needy: bool,
    pub(super) duty: Duty,
}

impl<T> Inbox<T> {
    pub(super) fn new(queue: Queue<T>, duty: Duty) -> Self {
        Self {
            queue,
            search: Search::default(),
            sleepers: Vec::new(),
            woken: 0,
            spinning: 0,
            stealing: 0,
            offered: false,
            needy: false,
            duty,
        }
    }

    /// A task of `table` was refused, because the queue is full or with `at_bound` the table's part of it.
    pub(super) fn refused(&mut self, table: TableId, at_bound: bool) {
        let whom = at_bound.then_some(table);
        let wanted = &mut self.search.wanted;
        *wanted = match *wanted {
            None => Some(whom),
            Some(before) if before == whom => Some(whom),
            Some(_) => Some(None),
        };
    }

    /// Takes up to `wanted` workers off the sleepers, those that slept shortest first. The caller unparks them.
    pub(super) fn wake(&mut self, wanted: usize) -> Vec<usize> {
        let keep = self.sleepers.len().saturating_sub(wanted);
        let woken = self.sleepers.split_off(keep);
        self.woken += woken.len();
        woken
    }

    /// As [`Inbox::wake`], for one.
    pub(super) fn wake_one(&mut self) -> Option<usize> {
        let worker = self.sleepers.pop()?;
        self.woken += 1;
        Some(worker)
    }

    /// Whether what waits is left to workers that are awake while others sleep.
    pub(super) fn is_left_to_others(&self) -> bool {
        !self.queue.is_empty() && !self.sleepers.is_empty()
    }

    /// Workers that have nothing to do, asleep, about to be, or just woken.
    pub(super) fn idle(&self) -> usize {
        self.sleepers.len() + self.spinning + self.woken
    }

    /// Tells `worker` that it is to stand by. True if it is to be unparked because it sleeps.
    pub(super) fn send_off(&mut self, worker: usize) -> bool {
        self.duty.send_off(worker);
        let slept = self.sleepers.iter().position(|&other| other == worker);
        if let Some(index) = slept {
            self.sleepers.remove(index);
            self.woken += 1;
        }
        slept.is_some()
    }
}
