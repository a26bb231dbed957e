//! Tasks that a worker has taken besides the one that it runs, several short ones under one lock of its group
//! ([`Queue::prefetch`]). It takes them from here without that, and so may a sibling that finds nothing else.
//!
//! They come here under the group's lock, and only while nobody of the group is without work. So whoever joins the
//! sleepers under that lock sees them when it looks here afterwards, and there are none to come before it is awake
//! again. Other groups see only what is in the queue: the timed look puts back there what it has seen twice, as its
//! worker is held up; a worker that blocks does, and whoever closes the scheduler or sends workers away.

use std::collections::VecDeque;
use std::ops::Range;

use chiplet_policy::Time;
use chiplet_policy::queue::{Queue, Run};
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
    /// The thread that took them.
    by: usize,
    /// The timed look has seen them.
    seen: bool,
}

impl<T> Prefetched<T> {
    pub(super) fn new(workers: usize) -> Self {
        let of = |_| Of {
            any: AtomicBool::new(false),
            tasks: Mutex::new(Tasks {
                list: VecDeque::new(),
                by: 0,
                seen: false,
            }),
        };
        Self((0..workers).map(of).map(CachePadded::new).collect())
    }

    /// Whether any of `workers` may have some. Without a lock: what was there when the caller joined the sleepers, it
    /// sees.
    #[inline]
    pub(super) fn may_be_with(&self, mut workers: Range<usize>) -> bool {
        workers.any(|worker| self.0[worker].any.load(Ordering::Relaxed))
    }

    /// The next one of `worker`; if it says which `thread` took them, only one of those.
    #[inline]
    pub(super) fn take(&self, worker: usize, thread: Option<usize>) -> Option<(T, Run)> {
        let of = &self.0[worker];
        if !of.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut tasks = of.tasks.lock();
        if thread.is_some_and(|thread| thread != tasks.by) {
            return None;
        }
        let task = tasks.list.pop_front();
        of.any.store(!tasks.list.is_empty(), Ordering::Relaxed);
        task
    }

    /// `thread`, which has the place of `worker`, takes up to `most` tasks of its group's `queue` ahead, having taken
    /// that of `run`. Says whether there were any. Called under the group's lock.
    pub(super) fn fill(
        &self,
        (worker, thread): (usize, usize),
        (queue, run): (&mut Queue<T>, &Run),
        most: usize,
        now: Time,
    ) -> bool {
        let of = &self.0[worker];
        let mut tasks = of.tasks.lock();
        (tasks.by, tasks.seen) = (thread, false);
        queue.prefetch(run, most, now, |task, run| {
            tasks.list.push_back((task, run))
        });
        let any = !tasks.list.is_empty();
        if !left_out(Step::ShownBeforeUnlock) {
            of.any.store(any, Ordering::Relaxed);
        }
        any
    }

    /// Late, as [`Prefetched::fill`] has to do it.
    pub(super) fn show(&self, worker: usize) {
        self.0[worker].any.store(true, Ordering::Relaxed);
    }

    /// Puts back into the `queue` of its group what `worker` has, if there is memory for that. Called under the group's
    /// lock.
    pub(super) fn put_back(&self, worker: usize, queue: &mut Queue<T>) {
        let of = &self.0[worker];
        let mut tasks = of.tasks.lock();
        while let Some((task, run)) = tasks.list.pop_back() {
            if let Err(task) = queue.put_back(task, &run) {
                tasks.list.push_back((task, run));
                break;
            }
        }
        of.any.store(!tasks.list.is_empty(), Ordering::Relaxed);
    }

    /// Whether the timed look has seen what `worker` has before; from now on it has.
    pub(super) fn is_seen(&self, worker: usize) -> bool {
        let mut tasks = self.0[worker].tasks.lock();
        std::mem::replace(&mut tasks.seen, true)
    }
}
