//! How one task was served.

use std::time::Duration;

use chiplet_policy::{LeftHome, StealLevel};
use chiplet_topology::DomainId;

/// How one task was served ([`Ticket::with_report`](crate::Ticket::with_report)). The times are those that the
/// executor's counters took for it.
///
/// A batch ([`Executor::submit_batch`](crate::Executor::submit_batch)) or a block has one report for all of its parts
/// that ended in time for the answer: the wait is that of the part that started first, the service time is the sum of
/// theirs, so it may be longer than the time that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// From submit to start.
    pub wait: Duration,
    /// From start to answer; if the query was cut, until its units were merged.
    pub service: Duration,
    /// Where the answer was given: the domain of the worker that ran the task, merged its units, or ended the last
    /// part of a batch.
    pub domain: DomainId,
    /// The pieces that workers ran: scan units of a query that was cut, parts of a batch, else 1. 0 if no worker had a
    /// hand in it: the batch was empty, or none of its parts ended before its deadline. Then the times are zero and
    /// the domain is the table's main home.
    pub units: u32,
    /// Why another domain ran it than the home that its submit chose, if one did; of several pieces the reason of the
    /// one that came farthest. [`Steals`](crate::Steals) counts the same.
    pub left_home: Option<LeftHome>,
}

/// What a task's ticket gets.
pub(crate) type Answer<T> = (T, Record);

/// A [`Report`] as it is kept until somebody asks for it: its times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) wait: u64,
    pub(crate) service: u64,
    pub(crate) domain: DomainId,
    pub(crate) units: u32,
    pub(crate) level: StealLevel,
}

impl From<Record> for Report {
    fn from(record: Record) -> Self {
        Self {
            wait: Duration::from_nanos(record.wait),
            service: Duration::from_nanos(record.service),
            domain: record.domain,
            units: record.units,
            left_home: record.level.left_home(),
        }
    }
}

impl Record {
    /// Of nothing that has run, in a batch whose table is at home there.
    pub(crate) fn idle(home: DomainId) -> Self {
        Self {
            wait: 0,
            service: 0,
            domain: home,
            units: 0,
            level: StealLevel::Own,
        }
    }

    /// Adds that of the part of a batch that ends now.
    pub(crate) fn add(&mut self, part: Self) {
        self.wait = match self.units {
            0 => part.wait,
            _ => self.wait.min(part.wait),
        };
        self.service += part.service;
        self.domain = part.domain;
        self.units += part.units;
        self.level = self.level.max(part.level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waited_for_its_first_part_and_took_what_all_took() {
        let part = |wait, service, domain, level| Record {
            wait,
            service,
            domain: DomainId(domain),
            units: 1,
            level,
        };
        let mut report = Record::idle(DomainId(7));
        assert_eq!((report.units, report.domain), (0, DomainId(7)));
        report.add(part(5, 1, 0, StealLevel::Own));
        assert_eq!(report, part(5, 1, 0, StealLevel::Own));
        report.add(part(3, 10, 1, StealLevel::Away(LeftHome::Overflow)));
        report.add(part(4, 100, 0, StealLevel::Own));
        let expected = Record {
            units: 3,
            ..part(3, 111, 0, StealLevel::Away(LeftHome::Overflow))
        };
        assert_eq!(report, expected);
    }
}
