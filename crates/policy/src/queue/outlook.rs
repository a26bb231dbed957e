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
    /// What a task that is pushed now would wait for: by the [`Pace`] of its table, then by its class. All that waits
    /// is before it if its flow is backlogged.
    pub work: [[u64; 2]; 2],
    /// Whether the next task is an interactive one of the ring, so that others should care.
    pub fair: bool,
}

impl Outlook {
    /// How long a task of `class` that is pushed now would wait, of a table whose tasks come at `pace`.
    pub fn wait(&self, class: Class, pace: Pace) -> Duration {
        let work = self.work[pace as usize][class as usize];
        Duration::from_nanos(work / u64::from(self.backlog.workers.max(1)))
    }
}

impl<T> Queue<T> {
    /// What waits, as it looks at `now`.
    ///
    /// Interactive tasks hardly wait for bulk ones. So while some wait, the bulk work behind them is no reason to
    /// cross, nor is it part of what an interactive task that comes would wait for.
    ///
    /// Nor does a task in the ring wait for what backlogged flows have waiting. A table that floods would otherwise
    /// drive all others out of its home.
    #[inline(always)]
    pub fn outlook(&self, now: Time) -> Outlook {
        let Some((class, front)) = self.front() else {
            return Outlook::default();
        };
        let order = &self.orders[class as usize];
        let service = &self.flows[(front.flow, class as usize)].service;
        let ([all, fair], [bulk, fair_bulk]) = (self.orders[0].work(), self.orders[1].work());
        let before = |interactive: u64, bulk| [interactive, interactive.wrapping_add(bulk)];
        Outlook {
            backlog: Backlog {
                workers: self.workers,
                queued: order.len() as u32,
                work: order.work()[0],
                service: service.home,
                cold: service.cold.factor().or_else(|| order.cold.factor()),
                age: now.as_nanos().saturating_sub(front.since),
            },
            work: [before(fair, fair_bulk), before(all, bulk)],
            fair: class == Class::Interactive && !front.is_flood,
        }
    }

    /// What waits, as a worker of another group sees it at `now`.
    pub fn backlog(&self, now: Time) -> Backlog {
        self.outlook(now).backlog
    }
}
