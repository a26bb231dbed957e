//! Busy workers help a queue that has fallen behind theirs ([`ladder::Looks`]).

use chiplet_policy::ladder;

use super::{Found, Hub, Local, Offer};

impl<T, U: Offer> Hub<T, U> {
    /// The next task of another group whose queue has fallen behind this one's, though this one's is not empty.
    pub(super) fn relieve(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        let helped = local.away.as_ref().map(|(group, _)| *group);
        let helped = helped.filter(|_| local.stealing);
        let crossing = &self.rules.crossing;
        let victim = local.looks.next(self, crossing, local.group, helped)?;
        let is_behind = |local: &Local<U>| ladder::is_behind(self, local.group, victim, local.now);
        // Whoever is to stand by takes nothing new; it learns that from its own queue, next.
        if !is_behind(local) || self.is_off(local) {
            return None;
        }
        let task = self.take_from(victim, local, |local, _| is_behind(local))?;
        self.go_away(local);
        // A push may have left a task of this group to this worker.
        self.leave_task_to_others(local.group);
        let own = self.groups[local.group].domain;
        Some(Found::Task(task, self.rung(own, victim)))
    }
}
