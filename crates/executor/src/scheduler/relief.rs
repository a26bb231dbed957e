//! Busy workers help a queue that has fallen behind theirs.
//!
//! Nobody is idle then, so nobody crosses: but what waits there waits longer than anything elsewhere. Its workers have
//! stopped, because the system runs something else on their cores or their tasks take much longer than usual.

use std::time::Duration;

use chiplet_policy::queue::Outlook;
use chiplet_policy::{Time, is_worth_relieving};

use super::{Found, Hub, LONG_WAIT, Local, Offer};
use crate::sync::atomic::Ordering;

/// A busy worker looks at one other group's queue before every eighth task: that costs a cache miss.
const LOOK_BEHIND: u32 = 8;

impl<T, U: Offer> Hub<T, U> {
    /// The next task of another group whose queue has fallen behind this one's, though this one's is not empty.
    pub(super) fn relieve(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        if !self.is_watched() {
            return None;
        }
        // Once it has found one behind it looks each time, until that has caught up.
        local.looks = local.looks.wrapping_add(1);
        if !local.stealing && !local.looks.is_multiple_of(LOOK_BEHIND) {
            return None;
        }
        let nearest = &self.groups[local.group].nearest;
        let victim = match &local.away {
            Some((victim, _)) if local.stealing => *victim,
            _ => nearest[(local.looks / LOOK_BEHIND) as usize % nearest.len()],
        };
        // Whoever is to stand by takes nothing new; it learns that from its own queue, next.
        if !self.is_behind(victim, local) || self.is_off(local) {
            return None;
        }
        let task = self.take_from(victim, local, |local, _| self.is_behind(victim, local))?;
        self.go_away(local);
        // A push may have left a task of this group to this worker.
        self.leave_task_to_others(local.group);
        let own = self.groups[local.group].domain;
        Some(Found::Task(task, self.rung(own, victim)))
    }

    /// Whether the queue of `other` has fallen behind this worker's, and neither is empty.
    fn is_behind(&self, other: usize, local: &Local<U>) -> bool {
        let [own, other] = [local.group, other].map(|group| &self.groups[group].seen);
        let [own_since, since] = [own, other].map(|seen| seen.since.load(Ordering::Relaxed));
        if own_since == 0 || since & FAIR == 0 {
            return false;
        }
        let now = local.now.as_nanos();
        let lag = |since: u64| Duration::from_nanos(now.saturating_sub(since >> 1));
        let price = Duration::from_nanos(other.price.load(Ordering::Relaxed));
        lag(since) >= LONG_WAIT && is_worth_relieving(lag(own_since), lag(since), price)
    }
}

/// In [`Seen::since`](super::Seen): others should care for the next task.
const FAIR: u64 = 1;

impl<T, U> Hub<T, U> {
    /// Since when the next task has waited: nanoseconds since the hub began, moved by one bit, with [`FAIR`]. 0 stands for
    /// an empty queue.
    pub(super) fn since(&self, outlook: &Outlook, now: Time) -> u64 {
        let lag = outlook.lag.as_nanos() as u64;
        let since = now.as_nanos().saturating_sub(lag).max(1);
        (since << 1) | (u64::from(outlook.fair) * FAIR)
    }
}
