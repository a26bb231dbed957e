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
    /// How long a task of each class that is pushed now would wait, as far as is known, if its flow is in the ring.
    pub waits: [u64; 2],
    /// The same if its flow is backlogged: all that waits is before it.
    pub waits_backlogged: [u64; 2],
    /// Whether the next task is an interactive one of the ring, so that others should care.
    pub fair: bool,
}

impl Outlook {
    /// How long a task of `class` that is pushed now would wait, of a table whose tasks come at `pace`.
    pub fn wait(&self, class: Class, pace: Pace) -> Duration {
        let waits = match pace {
            Pace::Within => &self.waits,
            Pace::Backlogged => &self.waits_backlogged,
        };
        Duration::from_nanos(waits[class as usize])
    }
}

impl<T> Queue<T> {
    /// What waits, as it looks at `now`.
    ///
    /// Interactive tasks hardly wait for bulk ones. So while some wait, the bulk work behind them is no reason to
    /// cross, nor is it part of what an interactive task that comes would wait for.
    ///
    /// Nor does a task in the ring wait for what backlogged flows have waiting. A table that floods would otherwise drive
    /// all others out of its home.
    #[inline(always)]
    pub fn outlook(&self, now: Time) -> Outlook {
        let Some((class, front)) = self.front() else {
            return Outlook::default();
        };
        let order = &self.orders[class as usize];
        let service = &self.flows[(front.flow, class as usize)].service;
        let waited = now.as_nanos().saturating_sub(front.since);
        let ([all, fair], [bulk, fair_bulk]) = (self.orders[0].work(), self.orders[1].work());
        let workers = u64::from(self.workers.max(1));
        let waits = |interactive: u64, bulk: u64| {
            let waits = interactive / workers;
            [waits, waits + bulk / workers]
        };
        let waits_backlogged = waits(all, bulk);
        Outlook {
            backlog: Backlog {
                workers: self.workers,
                queued: order.len() as u32,
                work: order.work()[0],
                service: service.home,
                cold: service.cold_or(&order.cold),
                age: waited,
            },
            // Mostly nothing else waits.
            waits: match (fair, fair_bulk) == (all, bulk) {
                true => waits_backlogged,
                false => waits(fair, fair_bulk),
            },
            waits_backlogged,
            fair: class == Class::Interactive && !front.is_backlogged,
        }
    }

    /// What waits, as a worker of another group sees it at `now`.
    pub fn backlog(&self, now: Time) -> Backlog {
        self.outlook(now).backlog
    }
}
