//! What groups see of each other without a lock.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use chiplet_policy::group::{Face, Faces, Group, Next};
use chiplet_policy::queue::Pace;
use chiplet_policy::{Class, Time};

use super::Hub;
use crate::sync::MutexGuard;
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

    /// Shows how what waits looks.
    fn show_tasks(&self, face: &Face) {
        let price = face.price.as_nanos() as u64;
        self.price.store(price, Ordering::Relaxed);
        let since = face.next.map_or(0, |next| {
            (next.since.as_nanos().max(1) << 1) | (u64::from(next.fair) * FAIR)
        });
        self.since.store(since, Ordering::Relaxed);
        let waits = face.waits.as_flattened();
        for (seen, wait) in self.waits.as_flattened().iter().zip(waits) {
            seen.store(wait.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn set_at_work(&self, workers: usize) {
        self.at_work.store(workers as u32, Ordering::Release);
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Acquire) as usize
    }
}

/// A group under its lock. What has changed of it for others is shown before the lock is released.
pub(super) struct Held<'a, T, U> {
    hub: &'a Hub<T, U>,
    group: usize,
    state: MutexGuard<'a, Group<T>>,
}

impl<T, U> Hub<T, U> {
    /// Locks a group.
    pub(super) fn hold(&self, group: usize) -> Held<'_, T, U> {
        Held {
            hub: self,
            group,
            state: self.groups[group].state.lock(),
        }
    }
}

impl<T, U> Held<'_, T, U> {
    /// Shows what has changed, without releasing the lock.
    pub(super) fn show(&mut self) {
        let (hub, group) = (self.hub, self.group);
        let news = self.state.news();
        let seen = &hub.groups[group].seen;
        if news.tasks {
            seen.show_tasks(self.state.face());
        }
        if news.queued {
            seen.queued
                .store(self.state.face().queued, Ordering::Release);
            if self.state.is_drained() && hub.groups.len() > 1 {
                // Those who have stayed for what waited here go home.
                hub.seats.iter().for_each(|seat| seat.parker.unpark());
            }
        }
        // Not written unless they change: their cache lines are read with every task, by clients and workers.
        let face = self.state.face();
        for (changed, set, is_in) in [
            (news.needy, &hub.needy, face.needy),
            (news.spare, &hub.spare, face.spare),
        ] {
            match is_in {
                _ if !changed => {}
                true => set.insert(group),
                false => set.remove(group),
            }
        }
    }
}

impl<T, U> Deref for Held<'_, T, U> {
    type Target = Group<T>;

    fn deref(&self) -> &Group<T> {
        &self.state
    }
}

impl<T, U> DerefMut for Held<'_, T, U> {
    fn deref_mut(&mut self) -> &mut Group<T> {
        &mut self.state
    }
}

impl<T, U> Drop for Held<'_, T, U> {
    fn drop(&mut self) {
        self.show();
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
