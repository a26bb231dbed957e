//! The probes of a query that several workers scan: in one place, from which each takes the next unit.
//!
//! A worker *enters* with its first unit, takes one after the other, and *leaves* when it finds none. Once nothing is
//! left to take, nobody enters any more, so one worker is the last to leave: it merges and answers. The first failure
//! takes away what is left.

use std::ops::Range;
use std::time::Duration;

use chiplet_policy::{StealLevel, Time};
use chiplet_table::{Neighbor, Probe};

use crate::engine::worker::Worker;
use crate::error::Error;
use crate::scheduler::Late;
use crate::sync::Mutex;

/// A query's probes, and what has come of them.
pub(super) struct Units {
    pub(super) started: Time,
    pub(super) probes: Vec<Probe>,
    grain: usize,
    /// Workers that may take part.
    team: usize,
    progress: Mutex<Progress>,
}

struct Progress {
    /// The first probe that nobody has taken.
    next: usize,
    /// What is left to take, in bytes.
    left: u128,
    /// Workers that have entered and not left.
    inside: usize,
    found: Found,
}

/// What all units together have come to, for the worker that leaves last.
pub(super) struct Found {
    /// Answers, each with the first probe of its unit, in their order; or the first failure.
    pub(super) parts: Result<Vec<(usize, Vec<Neighbor>)>, Error>,
    /// Units that have been scanned.
    pub(super) units: u32,
    /// Where the query and its units were taken from, the farthest of it.
    pub(super) farthest: StealLevel,
    /// Time of workers that have left, other than the query's own.
    pub(super) helped: Duration,
    /// The query as its own worker has left it, if others were inside then: whoever leaves last says what it took.
    pub(super) late: Option<Late>,
}

/// What these probes cost, in bytes.
pub(super) fn cost(probes: &[Probe]) -> u128 {
    let costs = probes.iter().map(|probe| u128::from(probe.cost_bytes));
    costs.sum()
}

impl Units {
    /// The query's own worker has entered by this; of these probes the first `taken` are its unit.
    pub(super) fn new(
        probes: Vec<Probe>,
        grain: usize,
        taken: usize,
        team: usize,
        (started, level): (Time, StealLevel),
    ) -> Self {
        let progress = Progress {
            next: taken,
            left: cost(&probes[taken..]),
            inside: 1,
            found: Found {
                parts: Ok(Vec::new()),
                units: 0,
                farthest: level,
                helped: Duration::ZERO,
                late: None,
            },
        };
        Self {
            started,
            probes,
            grain,
            team,
            progress: Mutex::new(progress),
        }
    }

    /// Whether there is something for one more worker to take.
    pub(super) fn is_open(&self) -> bool {
        self.left().is_some()
    }

    /// What nobody has taken yet, in bytes; `None` if there is nothing to take.
    fn left(&self) -> Option<u128> {
        let progress = self.progress.lock();
        (progress.next < self.probes.len()).then_some(progress.left)
    }

    /// The next unit of a worker. One that `enters` has to [`Units::leave`] if it gets one.
    pub(super) fn take(&self, worker: &Worker, enters: bool) -> Option<Range<usize>> {
        // Looked at before the lock below, which is taken for long enough without that.
        let mut hands = worker.hands(0, self.left()?);
        let mut progress = self.progress.lock();
        let rest = &self.probes[progress.next..];
        if rest.is_empty() {
            return None;
        }
        hands.inside = progress.inside + usize::from(enters);
        let unit = worker.next_unit(rest, self.grain, progress.left, &hands, self.team);
        progress.left = progress.left.saturating_sub(cost(&rest[..unit]));
        let first = progress.next;
        progress.next += unit;
        progress.inside = hands.inside;
        Some(first..first + unit)
    }

    /// What has come of the unit that begins with probe `first`, for a worker that came from `level`.
    pub(super) fn put(
        &self,
        first: usize,
        level: StealLevel,
        result: Result<Vec<Neighbor>, Error>,
    ) {
        let mut progress = self.progress.lock();
        progress.found.units += 1;
        progress.found.farthest = progress.found.farthest.max(level);
        match (&mut progress.found.parts, result) {
            (Ok(parts), Ok(part)) => parts.push((first, part)),
            (Err(_), _) => {}
            (Ok(_), Err(error)) => {
                progress.found.parts = Err(error);
                progress.next = self.probes.len();
                progress.left = 0;
            }
        }
    }

    /// A worker that has entered leaves, having found nothing to take or being no longer wanted. Others than the
    /// query's own have given `time` to it; for that one others have worked so long besides. The last one gets what was
    /// found, and has to answer and to say what the query took. If the query's own worker is not, it hands the query
    /// over, by `late`.
    pub(super) fn leave(
        &self,
        time: Duration,
        late: impl FnOnce() -> Option<Late>,
    ) -> Option<Found> {
        let mut progress = self.progress.lock();
        progress.inside -= 1;
        progress.found.helped += time;
        if progress.inside > 0 || progress.next < self.probes.len() {
            if let Some(late) = late() {
                progress.found.late = Some(late);
            }
            return None;
        }
        let mut found = Found {
            parts: std::mem::replace(&mut progress.found.parts, Ok(Vec::new())),
            late: progress.found.late.take(),
            ..progress.found
        };
        drop(progress);
        if let Ok(parts) = &mut found.parts {
            parts.sort_unstable_by_key(|&(first, _)| first);
        }
        Some(found)
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use super::*;

    /// A query of one unit, which its own worker has taken, and into which so many others have come.
    fn with_helpers(count: usize) -> Units {
        let started = (Time::ZERO, StealLevel::Own);
        let units = Units::new(Vec::new(), 1, 0, 4, started);
        units.progress.lock().inside += count;
        units
    }

    #[test]
    fn hands_that_leave_after_the_querys_own_worker_count_like_those_before() {
        let milli = Duration::from_millis;
        let units = with_helpers(3);
        assert!(units.leave(milli(1), || None).is_none());
        assert!(units.leave(milli(2), || Some(Late::default())).is_none());
        assert!(units.leave(milli(4), || None).is_none());
        let found = units.leave(milli(8), || None).unwrap();
        assert_eq!(found.helped, milli(15));
        assert!(found.late.is_some(), "it says what the query took");
    }

    #[test]
    fn a_query_whose_own_worker_leaves_last_is_not_handed_over() {
        let units = with_helpers(1);
        assert!(units.leave(Duration::from_millis(1), || None).is_none());
        let found = units.leave(Duration::ZERO, || unreachable!("it is the last"));
        let found = found.unwrap();
        assert_eq!(found.helped, Duration::from_millis(1));
        assert!(found.late.is_none());
    }
}
