//! Busy workers help a queue that has fallen behind theirs.

use chiplet_policy::{LeftHome, StealLevel, steal_order};

use super::Invite;
use super::find_task::FindTask;

impl<T, U: Invite> FindTask<'_, T, U> {
    /// The next task of `victim`, whose queue has fallen behind this group's, though that is not empty.
    pub(super) fn steal_while_busy(&mut self, victim: usize) -> Option<(T, StealLevel)> {
        let (groups, own, now) = (&self.scheduler.groups, self.local.group, self.local.now);
        // Whoever is to stand by takes nothing new; it learns that from its own queue, next.
        if groups.lock(own).is_off(self.local.worker) {
            return None;
        }
        let task = self.take_from(victim, |_| steal_order::is_behind(groups, own, victim, now))?;
        self.go_away();
        // A push may have left a task of this group to this worker.
        self.scheduler.leave_task_to_others(own);
        Some((task, StealLevel::Away(LeftHome::StolenByBusy)))
    }
}
