//! What groups see of each other without a lock.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use chiplet_policy::Class;
use chiplet_policy::group::{Faces, Group, Next};
use chiplet_policy::queue::Pace;

use super::Hub;
use crate::sync::MutexGuard;

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
            seen.show_queued(self.state.face().queued);
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
        self.groups[group].seen.queued()
    }

    fn wait(&self, group: usize, class: Class, pace: Pace) -> Duration {
        self.groups[group].seen.wait(class, pace)
    }

    fn price(&self, group: usize) -> Duration {
        self.groups[group].seen.price()
    }

    fn next(&self, group: usize) -> Option<Next> {
        self.groups[group].seen.next()
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
