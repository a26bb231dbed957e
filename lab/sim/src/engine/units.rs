//! A query's probes, in one place, from which each worker takes the next unit.

use crate::trace::Visit;

/// A query's probes.
pub(super) struct Units {
    pub(super) visits: Vec<Visit>,
    pub(super) next: usize,
    pub(super) left: u128,
    pub(super) inside: usize,
    /// Units taken so far.
    pub(super) taken: u32,
    /// The worker that runs the query.
    pub(super) runner: usize,
    /// Time of others.
    pub(super) helped: u64,
    /// The runner waits until all have left.
    pub(super) at_barrier: bool,
}

/// A query that has been shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) query: usize,
    pub(super) serial: u64,
}

/// Where a worker is in its unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) visit: usize,
    pub(super) end: usize,
    /// Bytes of that list that have been scanned.
    pub(super) offset: u64,
}

impl Units {
    pub(super) fn new(visits: Vec<Visit>, runner: usize) -> Self {
        Self {
            left: visits.iter().map(|visit| u128::from(visit.bytes)).sum(),
            visits,
            next: 0,
            inside: 0,
            taken: 0,
            runner,
            helped: 0,
            at_barrier: false,
        }
    }
}
