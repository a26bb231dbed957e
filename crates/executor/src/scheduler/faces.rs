//! What groups see of each other without a lock.

use std::time::Duration;

use chiplet_policy::group::{Faces, Next, Shown};
use chiplet_policy::queue::Pace;
use chiplet_policy::{Class, Time};

use super::Hub;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One group as others see it. Written under its lock.
pub(super) struct Seen {
    /// The queue's length.
    queued: AtomicU32,
    /// [`Face::waits`](chiplet_policy::group::Face::waits), in nanoseconds.
    waits: [[AtomicU64; 2]; 2],
    /// What a cold cache would cost the next task, in nanoseconds.
    price: AtomicU64,
    /// Since when the next task waits: nanoseconds, moved by one bit, with [`FAIR`]. 0 stands for an empty queue.
    since: AtomicU64,
    /// Workers that are not standing by. Written hardly ever.
    at_work: AtomicU32,
}

/// In [`Seen::since`]: others should care for the next task.
const FAIR: u64 = 1;

impl Seen {
    pub(super) fn new(at_work: u32) -> Self {
        Self {
            queued: AtomicU32::new(0),
            waits: [(); 2].map(|()| [(); 2].map(|()| AtomicU64::new(0))),
            price: AtomicU64::new(0),
            since: AtomicU64::new(0),
            at_work: AtomicU32::new(at_work),
        }
    }

    pub(super) fn set_at_work(&self, workers: usize) {
        self.at_work.store(workers as u32, Ordering::Release);
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Acquire) as usize
    }
}

impl<T, U> Hub<T, U> {
    /// Shows the others what has become of a group's queue. The caller holds its lock, and calls for help once it has
    /// released it if [`Shown::calls`] says so.
    pub(super) fn show(&self, group: usize, shown: &Shown) {
        let seen = &self.groups[group].seen;
        seen.queued.store(shown.queued, Ordering::Release);
        if shown.drained && self.groups.len() > 1 {
            // Those who have stayed for what waited here go home.
            self.seats.iter().for_each(|seat| seat.parker.unpark());
        }
        let Some(face) = &shown.face else { return };
        if let Some(price) = face.price {
            seen.price.store(price.as_nanos() as u64, Ordering::Relaxed);
        }
        let since = face.next.map_or(0, |next| {
            (next.since.as_nanos().max(1) << 1) | (u64::from(next.fair) * FAIR)
        });
        seen.since.store(since, Ordering::Relaxed);
        let waits = face.waits.as_flattened();
        for (seen, wait) in seen.waits.as_flattened().iter().zip(waits) {
            seen.store(wait.as_nanos() as u64, Ordering::Relaxed);
        }
        // Not written unless it changes: its cache line is read with every task, by clients and workers.
        match shown.needy {
            Some(true) => self.needy.insert(group),
            Some(false) => self.needy.remove(group),
            None => {}
        }
    }

    /// Shows the others whether the group has workers to spare, where that has changed. The caller holds its lock.
    pub(super) fn show_spare(&self, group: usize, spare: Option<bool>) {
        match spare {
            Some(true) => self.spare.insert(group),
            Some(false) => self.spare.remove(group),
            None => {}
        }
    }
}

impl<T, U> Faces for Hub<T, U> {
    fn queued(&self, group: usize) -> u32 {
        self.groups[group].seen.queued.load(Ordering::Acquire)
    }

    fn wait(&self, group: usize, class: Class, pace: Pace) -> Duration {
        let wait = &self.groups[group].seen.waits[pace as usize][class as usize];
        Duration::from_nanos(wait.load(Ordering::Relaxed))
    }

    fn price(&self, group: usize) -> Duration {
        Duration::from_nanos(self.groups[group].seen.price.load(Ordering::Relaxed))
    }

    fn next(&self, group: usize) -> Option<Next> {
        let since = self.groups[group].seen.since.load(Ordering::Relaxed);
        (since > 0).then(|| Next {
            since: Time::from_nanos(since >> 1),
            fair: since & FAIR != 0,
        })
    }

    fn is_needy(&self, group: usize) -> bool {
        self.needy.contains(group)
    }

    fn is_any_needy(&self) -> bool {
        !self.needy.is_empty()
    }

    fn is_spare(&self, group: usize) -> bool {
        self.spare.contains(group)
    }

    fn is_vacant(&self, group: usize) -> bool {
        self.groups[group].seen.at_work() == 0
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn nearest(&self, group: usize) -> &[usize] {
        &self.groups[group].nearest
    }
}
