//! What groups see of each other without a lock: each one's `PublishedLoad`, and which of them are in some state.

use std::time::Duration;

use chiplet_policy::Time;
use chiplet_policy::group::{Next, PublishedLoad};
use chiplet_policy::queue::Pace;
use chiplet_table::Class;
use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Step, left_out};

/// One group as others see it. Written under its lock.
#[derive(Default)]
pub(super) struct Published {
    /// The queue's length.
    queued: AtomicU32,
    /// [`PublishedLoad::work`](chiplet_policy::group::PublishedLoad::work).
    work: [[AtomicU64; 2]; 2],
    /// What a cold cache would cost the next task, in nanoseconds.
    price: AtomicU64,
    /// Since when the next task waits: nanoseconds, moved by one bit, with [`FAIR`]. 0 stands for an empty queue.
    since: AtomicU64,
    /// Workers that are not standing by. Written hardly ever.
    at_work: AtomicU32,
}

/// In [`Published::since`]: others should care for the next task.
const FAIR: u64 = 1;

impl Published {
    pub(super) fn new(at_work: u32) -> Self {
        Self {
            at_work: AtomicU32::new(at_work),
            ..Self::default()
        }
    }

    /// Shows how many tasks wait.
    pub(super) fn show_queued(&self, queued: u32) {
        self.queued.store(queued, Ordering::Release);
    }

    /// Shows how what waits looks.
    pub(super) fn show_tasks(&self, load: &PublishedLoad) {
        self.price.store(load.price, Ordering::Relaxed);
        let since = load.next.map_or(0, |next| {
            (next.since.as_nanos().max(1) << 1) | (u64::from(next.fair) * FAIR)
        });
        self.since.store(since, Ordering::Relaxed);
        let work = load.work.as_flattened();
        for (seen, work) in self.work.as_flattened().iter().zip(work) {
            seen.store(*work, Ordering::Relaxed);
        }
    }

    pub(super) fn set_at_work(&self, workers: usize) {
        self.at_work.store(workers as u32, Ordering::Release);
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Acquire) as usize
    }

    pub(super) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Acquire)
    }

    pub(super) fn work(&self, class: Class, pace: Pace) -> u64 {
        self.work[pace as usize][class as usize].load(Ordering::Relaxed)
    }

    pub(super) fn price(&self) -> Duration {
        Duration::from_nanos(self.price.load(Ordering::Relaxed))
    }

    pub(super) fn next(&self) -> Option<Next> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then(|| Next {
            since: Time::from_nanos(since >> 1),
            fair: since & FAIR != 0,
        })
    }
}

/// A set of groups: those with a worker to spare, or those whose queue is worth crossing for.
///
/// A bit changes only under the lock of its group, and only when that crosses the threshold. Reading is lock-free; a
/// reader that acts on a bit confirms it under that lock.
pub(crate) struct GroupSet {
    /// Each on a line of its own: two sets of one word would else lie on the same one.
    words: Box<[CachePadded<AtomicU64>]>,
}

impl GroupSet {
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            words: (0..groups.div_ceil(64))
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Adds `group`, then orders that before the caller's next look at another set or queue.
    pub(crate) fn insert(&self, group: usize) {
        self.words[group / 64].fetch_or(1 << (group % 64), Ordering::AcqRel);
        if !left_out(Step::FenceOfSpare) {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn remove(&self, group: usize) {
        self.words[group / 64].fetch_and(!(1 << (group % 64)), Ordering::AcqRel);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words
            .iter()
            .all(|word| word.load(Ordering::Acquire) == 0)
    }

    pub(crate) fn contains(&self, group: usize) -> bool {
        self.words[group / 64].load(Ordering::Acquire) & (1 << (group % 64)) != 0
    }
}
