//! Plain counters of how tasks ended.

use chiplet_policy::queue::Intake;

use crate::error::Error;

/// How many tables' counters are copied while a worker's or a queue's lock is held: some microseconds, however many
/// tables there are. So long, or as long as copying one histogram takes, a reader may hold up a worker.
pub(crate) const TABLES_AT_ONCE: usize = 64;

/// How an accepted task ended. Each accepted task has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Cancelled,
    Expired,
    Panicked,
}

impl End {
    /// How an outcome is counted.
    pub(crate) fn of<T>(result: &Result<T, Error>) -> Self {
        match result {
            Ok(_) | Err(Error::Search(_)) => Self::Done,
            Err(Error::Expired) => Self::Expired,
            Err(Error::Panicked(_)) => Self::Panicked,
            Err(_) => Self::Cancelled,
        }
    }
}

/// What workers did for one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) done: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) panicked: u64,
}

impl Served {
    pub(crate) fn count(&mut self, end: End) {
        self.count_many(end, 1);
    }

    pub(crate) fn count_many(&mut self, end: End, tasks: u64) {
        match end {
            End::Done => self.done += tasks,
            End::Cancelled => self.cancelled += tasks,
            End::Expired => self.expired += tasks,
            End::Panicked => self.panicked += tasks,
        }
    }

    /// The ways in which any ended, each with how many.
    pub(crate) fn by_end(self) -> impl Iterator<Item = (End, u64)> {
        let ends = [
            (End::Done, self.done),
            (End::Cancelled, self.cancelled),
            (End::Expired, self.expired),
            (End::Panicked, self.panicked),
        ];
        ends.into_iter().filter(|&(_, tasks)| tasks > 0)
    }

    /// Tasks that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.done + self.cancelled + self.expired + self.panicked
    }

    pub(crate) fn absorb(&mut self, other: Served) {
        self.done += other.done;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.panicked += other.panicked;
    }
}

/// Where tasks stand: `accepted` = `queued` + `running` + `done` + `expired` + `cancelled` + `panicked`, in
/// every snapshot. Each query of a batch is a task here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Tasks taken in.
    pub accepted: u64,
    /// Waiting for a worker.
    pub queued: u64,
    /// Started and not ended.
    pub running: u64,
    /// Answered, also with a [`SearchError`](chiplet_table::SearchError).
    pub done: u64,
    /// Ended by their deadline. If the ticket says so first, the task stays among `queued` or `running` until a worker
    /// has found it or is done with it.
    pub expired: u64,
    /// Ended because nobody wanted the answer, or by shutdown.
    pub cancelled: u64,
    /// Ended by a panic.
    pub panicked: u64,
    /// Refused because the queue was full or there was no memory for a longer one; not among `accepted`.
    pub shed: u64,
}

impl Counts {
    /// `served` was read after `intake` and what is `queued`: what has ended since neither waits nor runs any more.
    pub(crate) fn from_parts(intake: Intake, queued: u64, served: Served) -> Self {
        let ended = served.ended() + intake.cancelled + intake.expired;
        // Some may have come since, too.
        let accepted = intake.accepted.max(ended);
        let present = accepted - ended;
        let queued = queued.min(present);
        Self {
            accepted,
            queued,
            running: present - queued,
            done: served.done,
            expired: served.expired + intake.expired,
            cancelled: served.cancelled + intake.cancelled,
            panicked: served.panicked,
            shed: intake.shed,
        }
    }

    /// Tasks that have ended, in whatever way.
    #[doc(hidden)]
    pub fn ended(&self) -> u64 {
        self.done + self.expired + self.cancelled + self.panicked
    }

    /// Adds another table's counts.
    #[doc(hidden)]
    pub fn absorb(&mut self, other: Counts) {
        self.accepted += other.accepted;
        self.queued += other.queued;
        self.running += other.running;
        self.done += other.done;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.panicked += other.panicked;
        self.shed += other.shed;
    }
}

/// Tasks and scan units that workers have begun, by where they got them from. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steals {
    /// Tasks at home, and a worker's own scan units.
    pub own: u64,
    /// A sibling's scan units.
    pub domain: u64,
    /// Stolen from another domain ([`LeftHome::StolenByBusy`](crate::LeftHome), `StolenByIdle`).
    pub remote: u64,
    /// Tasks that their submit queued away from home, because they would have waited longer there
    /// ([`LeftHome::Rebalanced`](crate::LeftHome)).
    pub rebalanced: u64,
    /// Tasks that their submit queued away from home, because that was full ([`LeftHome::Overflow`](crate::LeftHome)).
    pub overflow: u64,
}

impl Steals {
    /// Adds another worker's.
    pub(crate) fn absorb(&mut self, other: Steals) {
        self.own += other.own;
        self.domain += other.domain;
        self.remote += other.remote;
        self.rebalanced += other.rebalanced;
        self.overflow += other.overflow;
    }
}
