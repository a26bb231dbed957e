//! Tasks that a worker has taken besides the one that it runs, several short ones under one lock of its group
//! ([`Group::prefetch`]). It takes them from here without that, and so may a sibling that finds nothing else.
//!
//! They are put here under the group's lock, by the worker itself, and only while no worker of the group is without work.
//! So whoever joins the sleepers under that lock sees them when it looks here afterwards, and there are none to come
//! before it is awake again. The timed look puts back what it has seen twice: its worker is held up, and other groups
//! see only what is in the queue.

use std::collections::VecDeque;
use std::ops::Range;

use chiplet_policy::Time;
use chiplet_policy::group::Group;
use chiplet_policy::queue::Run;
use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, Step, left_out};

/// For each worker what it, or who stands in for it, has taken ahead. `T` is a task.
pub(super) struct Prefetched<T>(Box<[CachePadded<Of<T>>]>);

/// What one worker has taken ahead.
struct Of<T> {
    /// Whether there may be any; written under the lock of `tasks`.
    any: AtomicBool,
    tasks: Mutex<Tasks<T>>,
}

struct Tasks<T> {
    /// Each with what its worker is to run it by.
    list: VecDeque<(T, Run)>,
    /// The timed look has seen them.
    seen: bool,
}

impl<T> Prefetched<T> {
    pub(super) fn new(workers: usize) -> Self {
        let of = |_| Of {
            any: AtomicBool::new(false),
            tasks: Mutex::new(Tasks {
                list: VecDeque::new(),
                seen: false,
            }),
        };
        Self((0..workers).map(of).map(CachePadded::new).collect())
    }

    /// Whether there may be tasks that `worker` has taken ahead. Without a lock: whoever sleeps sees the others' last
    /// step by the group's.
    #[inline]
    pub(super) fn may_be_with(&self, worker: usize) -> bool {
        self.0[worker].any.load(Ordering::Relaxed)
    }

    /// Whether any of `workers` may have some.
    pub(super) fn may_be_in(&self, mut workers: Range<usize>) -> bool {
        workers.any(|worker| self.may_be_with(worker))
    }

    /// The next one.
    #[inline]
    pub(super) fn take(&self, worker: usize) -> Option<(T, Run)> {
        let of = &self.0[worker];
        let mut tasks = of.tasks.lock();
        let task = tasks.list.pop_front();
        if tasks.list.is_empty() {
            of.any.store(false, Ordering::Relaxed);
        }
        task
    }

    /// Takes up to `most` tasks of its `group` ahead for `worker`, which has just taken the one of `run`. As
    /// [`Group::prefetch`].
    pub(super) fn fill(
        &self,
        worker: usize,
        (group, run): (&mut Group<T>, &Run),
        most: usize,
        now: Time,
    ) -> bool {
        let of = &self.0[worker];
        let mut tasks = of.tasks.lock();
        tasks.seen = false;
        let calls = group.prefetch(run, most, now, |task, run| {
            tasks.list.push_back((task, run))
        });
        if !left_out(Step::ShownBeforeUnlock) {
            self.show(worker, !tasks.list.is_empty());
        }
        calls
    }

    /// Says whether `worker` has any.
    pub(super) fn show(&self, worker: usize, any: bool) {
        self.0[worker].any.store(any, Ordering::Relaxed);
    }

    /// All that `worker` has, or only if the timed look has seen them before.
    pub(super) fn take_all(&self, worker: usize, seen: bool) -> Vec<(T, Run)> {
        let of = &self.0[worker];
        let mut tasks = of.tasks.lock();
        let was_seen = std::mem::replace(&mut tasks.seen, true);
        if seen && !was_seen {
            return Vec::new();
        }
        self.show(worker, false);
        tasks.list.drain(..).collect()
    }
}
