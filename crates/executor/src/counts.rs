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
    const ALL: [Self; 4] = [Self::Done, Self::Cancelled, Self::Expired, Self::Panicked];

    /// How an outcome is counted.
    #[inline]
    pub(crate) fn of<T>(result: &Result<T, Error>) -> Self {
        result.as_ref().err().map_or(Self::Done, Self::by)
    }

    /// How a task is counted that has ended so.
    #[inline]
    pub(crate) fn by(error: &Error) -> Self {
        match error {
            Error::Search(_) => Self::Done,
            Error::Expired => Self::Expired,
            Error::Panicked(_) => Self::Panicked,
            _ => Self::Cancelled,
        }
    }
}

/// What workers did for one table: how many tasks ended in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served([u64; 4]);

impl Served {
    pub(crate) fn count(&mut self, end: End, tasks: u64) {
        self.0[end as usize] += tasks;
    }

    /// Tasks that have ended so.
    pub(crate) fn of(self, end: End) -> u64 {
        self.0[end as usize]
    }

    /// The ways in which any ended, each with how many.
    pub(crate) fn by_end(self) -> impl Iterator<Item = (End, u64)> {
        let ends = End::ALL.into_iter().zip(self.0);
        ends.filter(|&(_, tasks)| tasks > 0)
    }

    /// Tasks that have ended.
    pub(crate) fn ended(self) -> u64 {
        self.0.into_iter().sum()
    }

    pub(crate) fn absorb(&mut self, other: Served) {
        for (end, tasks) in other.by_end() {
            self.count(end, tasks);
        }
    }
}

/// Where tasks stand: `accepted` = `queued` + `running` + `done` + `expired` + `cancelled` + `panicked`, in
/// every snapshot. Each query of a batch is a task here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Tasks taken in.
    pub accepted: u64,
    /// Waiting for a worker.
    pub queued: u64,
    /// Taken by a worker and not ended: started, or one of up to 15 short tasks that wait for the one which it runs.
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
        let queued = (queued + intake.leaving).min(present);
        Self {
            accepted,
            queued,
            running: present - queued,
            done: served.of(End::Done),
            expired: served.of(End::Expired) + intake.expired,
            cancelled: served.of(End::Cancelled) + intake.cancelled,
            panicked: served.of(End::Panicked),
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
        *self = self.with(other, |own, other| own + other);
    }

    /// What was counted since `earlier`, and what stands now.
    pub(crate) fn since(self, earlier: Counts) -> Counts {
        Counts {
            queued: self.queued,
            running: self.running,
            ..self.with(earlier, u64::saturating_sub)
        }
    }

    fn with(self, other: Counts, join: fn(u64, u64) -> u64) -> Counts {
        Counts {
            accepted: join(self.accepted, other.accepted),
            queued: join(self.queued, other.queued),
            running: join(self.running, other.running),
            done: join(self.done, other.done),
            expired: join(self.expired, other.expired),
            cancelled: join(self.cancelled, other.cancelled),
            panicked: join(self.panicked, other.panicked),
            shed: join(self.shed, other.shed),
        }
    }
}

/// Tasks and scan units that workers have begun, by where they got them from. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
        *self = self.with(other, |own, other| own + other);
    }

    /// What was counted since `earlier`.
    pub(crate) fn since(self, earlier: Steals) -> Steals {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Steals, join: fn(u64, u64) -> u64) -> Steals {
        Steals {
            own: join(self.own, other.own),
            domain: join(self.domain, other.domain),
            remote: join(self.remote, other.remote),
            rebalanced: join(self.rebalanced, other.rebalanced),
            overflow: join(self.overflow, other.overflow),
        }
    }
}
