//! Busy workers help a queue that has fallen behind theirs.

use chiplet_policy::{LeftHome, StealLevel, steal_order};

use super::Engine;

impl Engine<'_> {
    /// Begins the next task of `victim`, whose queue has fallen behind this group's, though that is not empty.
    pub(super) fn steal_while_busy(&mut self, worker: usize, victim: usize) -> bool {
        let (group, now) = (self.workers[worker].group, self.timeline.time());
        self.groups[victim].state.show_at(now);
        if !steal_order::is_behind(&self.groups, group, victim, now) {
            return false;
        }
        let Some(query) = self.take_task(victim, worker) else {
            return false;
        };
        self.go_away(worker);
        self.leave_task_to_others(group);
        let level = StealLevel::Away(LeftHome::StolenByBusy);
        self.begin(worker, query, level, victim);
        true
    }
}
