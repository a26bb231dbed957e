//! What waits in a queue, in time.

use std::time::Duration;

use chiplet_table::Class;

use super::{Pace, Queue};
use crate::{Backlog, Time};

/// What waits in a queue, for whoever decides where to go. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outlook {
    /// As a worker of another group sees it.
    pub backlog: Backlog,
    /// How long a task of each class that is pushed now would wait, as far as is known, if its table asks for no more
    /// than its share.
    pub waits: [u64; 2],
    /// The same for a table that asks for more: what waits of such tables is before it.
    pub waits_over: [u64; 2],
    /// How long the next task has waited, as its order counts it: a bulk task since it no longer gives way, that of a
    /// table over its share since it was due.
    pub lag: u64,
    /// How long the next task has waited since it came.
    pub waited: u64,
    /// Whether the next task is an interactive one of a table within its share, so that others should care.
    pub fair: bool,
}

impl Outlook {
    /// How long a task of `class` that is pushed now would wait, of a table whose tasks come at `pace`.
    pub fn wait(&self, class: Class, pace: Pace) -> Duration {
        let waits = match pace {
            Pace::Within => &self.waits,
            Pace::OverShare => &self.waits_over,
        };
        Duration::from_nanos(waits[class as usize])
    }
}

impl<T> Queue<T> {
    /// What waits, as it looks at `now`.
    ///
    /// Interactive tasks hardly wait for bulk ones. So where an interactive task is next, the bulk work behind it is
    /// no reason to cross, nor is it part of what an interactive task that comes would wait for; except for bulk tasks
    /// that have given way long enough. How many those are is not counted: of bulk work that came evenly it is the
    /// part of the oldest one's wait that lies beyond [`bulk_wait`](super::Discipline::bulk_wait). Where a bulk task is
    /// next, all that waits counts, and it is as old as it counts for.
    ///
    /// Nor does a task of a table within its share wait for what tables over theirs have waiting: that is ordered
    /// behind it. A table that floods would otherwise drive all others out of its home.
    pub fn outlook(&self, now: Time) -> Outlook {
        match self.is_plain() {
            true => self.outlook_of_plain(now),
            false => self.outlook_of_all(now),
        }
    }

    /// Where interactive tasks of tables within their share wait, and no others.
    #[inline(always)]
    pub(crate) fn outlook_of_plain(&self, now: Time) -> Outlook {
        let order = &self.orders[Class::Interactive as usize];
        let Some(front) = order.first() else {
            return Outlook::default();
        };
        let [work, _] = order.work();
        let service = &self.flows[(front.flow, Class::Interactive as usize)].service;
        let waited = now.as_nanos().saturating_sub(front.at);
        let backlog = Backlog {
            workers: self.workers,
            queued: order.len() as u32,
            work,
            service: service.home,
            cold: service.cold_or(&order.cold),
            age: waited,
        };
        let wait = backlog.wait();
        Outlook {
            backlog,
            waits: [wait; 2],
            waits_over: [wait; 2],
            lag: waited,
            waited,
            fair: true,
        }
    }

    #[cold]
    fn outlook_of_all(&self, now: Time) -> Outlook {
        let fronts = self.fronts(0);
        let Some((class, front)) = self.next(fronts) else {
            return Outlook::default();
        };
        let now = now.as_nanos();
        let [[interactive, fair], [bulk, fair_bulk]] =
            [0, 1].map(|class: usize| self.orders[class].work());
        let [queued, queued_bulk] = [0, 1].map(|class: usize| self.orders[class].len() as u64);
        let overdue = match fronts[Class::Bulk as usize] {
            None => 0.0,
            Some(_) if self.discipline.gives_way().is_zero() => 1.0,
            Some(bulk) => {
                let [beyond, waited] =
                    [self.due(bulk), bulk.key].map(|since| now.saturating_sub(since));
                beyond as f64 / waited.max(1) as f64
            }
        };
        let ahead = |bulk: u64| (bulk as f64 * overdue) as u64;
        let (queued, work) = match class {
            Class::Interactive => (queued + ahead(queued_bulk), interactive + ahead(bulk)),
            Class::Bulk => (queued + queued_bulk, interactive + bulk),
        };
        let service = &self.flows[(front.flow, class as usize)].service;
        let since = |came: u64| now.saturating_sub(self.place(class, came));
        let backlog = Backlog {
            workers: self.workers,
            queued: queued as u32,
            work,
            service: service.home,
            cold: service.cold_or(&self.orders[class as usize].cold),
            age: since(front.since),
        };
        let workers = u64::from(self.workers.max(1));
        let waits = |interactive: u64, bulk: u64| {
            [ahead(bulk), bulk].map(|bulk| (interactive + bulk) / workers)
        };
        Outlook {
            backlog,
            waits: waits(fair, fair_bulk),
            waits_over: waits(interactive, bulk),
            lag: since(front.key),
            waited: now.saturating_sub(front.since),
            fair: class == Class::Interactive
                && !front.over
                && !self.orders[class as usize].is_alone_over(),
        }
    }

    /// What waits, as a worker of another group sees it at `now`.
    pub fn backlog(&self, now: Time) -> Backlog {
        self.outlook(now).backlog
    }
}
