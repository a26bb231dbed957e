//! What workers did: each notes the tasks that it ends, and its group's rows add the notes up.
//!
//! A worker writes a note into a ring of its own, without a lock, *before* it tells the task's ticket. The rows of its
//! group are under one lock. Whoever reads them takes all notes out first, and so does a worker whose ring is full. So
//! a task is counted when its ticket has its answer, and a worker takes the lock once in [`NOTES`] tasks.
//!
//! A snapshot reads what queues accepted and what waits there, and then the ends. What has ended meanwhile counts as
//! ended, so what is left has been running all the time: never more tasks than there are workers. The order of locks
//! is: counters, balancer, one queue's or one group's rows.

mod note;
mod rows;

use std::sync::Arc;

use chiplet_policy::{LeftHome, StealLevel, TableId, Usage};
use crossbeam_utils::CachePadded;
use rtrb::{Producer, PushError, RingBuffer};

use crate::counts::Steals;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, Step, left_out};
pub(crate) use note::Note;
use rows::Rows;
pub(crate) use rows::{GroupStats, TableStats};

/// Notes of one worker that are not added up yet, at most.
const NOTES: usize = match cfg!(any(chiplet_loom, chiplet_shuttle)) {
    true => 2,
    false => 64,
};

impl OwnCounts {
    /// The worker begins a task or unit that it has taken from `level`.
    #[inline]
    pub(crate) fn begun(&self, level: StealLevel) {
        let count = &self.steals[column(level)];
        // Nobody else writes it.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.set_occupied(true);
    }

    /// Whether the worker is on a task or unit now.
    #[inline]
    pub(crate) fn set_occupied(&self, occupied: bool) {
        self.occupied.store(occupied, Ordering::Relaxed);
    }
}

/// The rows of each group, and what each worker shows of itself.
pub(crate) struct Stats {
    groups: Box<[CachePadded<Mutex<Rows>>]>,
    own: Box<[Arc<CachePadded<OwnCounts>>]>,
}

/// What only its worker writes.
#[derive(Default)]
pub(crate) struct OwnCounts {
    /// Whether it is on a task or scan unit now.
    occupied: AtomicBool,
    /// Tasks and units that it has begun, by where they came from.
    steals: [AtomicU64; 5],
}

impl Stats {
    /// For so many groups and workers.
    pub(crate) fn new(groups: usize, workers: usize) -> Self {
        Self {
            groups: (0..groups).map(|_| CachePadded::default()).collect(),
            own: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// The notes of a worker that begins in `group`.
    pub(crate) fn join(&self, group: usize) -> Notes {
        let (own, theirs) = RingBuffer::new(NOTES);
        let ring = self.groups[group].lock().add_ring(theirs);
        Notes { own, group, ring }
    }

    /// What only this worker counts, for itself.
    pub(crate) fn own_counts(&self, worker: usize) -> Arc<CachePadded<OwnCounts>> {
        Arc::clone(&self.own[worker])
    }

    /// Whether a worker is on a task or unit now, and where those that it has begun came from.
    pub(crate) fn of(&self, worker: usize) -> (bool, Steals) {
        let own = &self.own[worker];
        let count = |level| own.steals[column(level)].load(Ordering::Relaxed);
        let steals = Steals {
            own: count(StealLevel::Own),
            domain: count(StealLevel::Domain),
            remote: count(StealLevel::Away(LeftHome::StolenByIdle)),
            rebalanced: count(StealLevel::Away(LeftHome::Rebalanced)),
            overflow: count(StealLevel::Away(LeftHome::Overflow)),
        };
        (own.occupied.load(Ordering::Relaxed), steals)
    }

    /// What the workers of a group did. No table may be retired meanwhile.
    pub(crate) fn read(&self, group: usize) -> GroupStats {
        self.gather(group);
        rows::read(&self.groups[group], || ())
    }

    /// What the tables used of a group since the last call. No table may be retired meanwhile.
    pub(crate) fn drain_used(&self, group: usize, each: impl FnMut(TableId, Usage)) {
        self.gather(group);
        rows::drain_used(&self.groups[group], each);
    }

    /// Moves a removed table's counts to the retired ones. Nobody ends a task of it any more.
    pub(crate) fn retire(&self, table: TableId) {
        for group in 0..self.groups.len() {
            self.gather(group);
            self.groups[group].lock().sums.retire(table);
        }
    }

    /// Adds all notes of a group's workers up, so that a reader sees what has ended by now.
    fn gather(&self, group: usize) {
        let mut ring = 0;
        while self.groups[group].lock().gather(ring) {
            ring += 1;
        }
    }
}

/// Which of a worker's counts a task is, by where it came from.
#[inline]
fn column(level: StealLevel) -> usize {
    match level {
        StealLevel::Own => 0,
        StealLevel::Domain => 1,
        StealLevel::Away(LeftHome::Rebalanced) => 2,
        StealLevel::Away(LeftHome::Overflow) => 3,
        StealLevel::Away(_) => 4,
    }
}

/// A worker's notes, as it writes them.
pub(crate) struct Notes {
    own: Producer<Note>,
    group: usize,
    /// Their number in the group's rows.
    ring: usize,
}

impl Notes {
    /// Takes note of what this worker has done, before anybody is told of it.
    #[inline]
    pub(crate) fn add(&mut self, note: Note, stats: &Stats) {
        if let Err(PushError::Full(note)) = self.own.push(note) {
            self.add_to_full(note, stats);
        }
    }

    #[cold]
    fn add_to_full(&mut self, note: Note, stats: &Stats) {
        if !left_out(Step::FullNotesAdded) {
            stats.groups[self.group].lock().gather(self.ring);
        }
        // Nobody else adds notes, so there is room now.
        let _ = self.own.push(note);
    }
}
