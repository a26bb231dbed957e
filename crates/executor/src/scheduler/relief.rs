//! Busy workers help a queue that has fallen behind theirs.

use chiplet_policy::{Rung, ladder};

use super::{Hub, Invite, Local};

impl<T, U: Invite> Hub<T, U> {
    /// The next task of `victim`, whose queue has fallen behind this group's, though that is not empty.
    pub(super) fn relieve(&self, local: &mut Local<U>, victim: usize) -> Option<(T, Rung)> {
        // Whoever is to stand by takes nothing new; it learns that from its own queue, next.
        if self.is_off(local) {
            return None;
        }
        let is_behind = |local: &Local<U>| ladder::is_behind(self, local.group, victim, local.now);
        let task = self.take_from(victim, local, |local, _| is_behind(local))?;
        self.go_away(local);
        // A push may have left a task of this group to this worker.
        self.leave_task_to_others(local.group);
        let own = self.groups[local.group].domain;
        Some((task, self.rung(own, victim)))
    }
}
