//! Busy workers help a queue that has fallen behind theirs.

use chiplet_policy::{Rung, ladder};

use super::Engine;

impl Engine<'_> {
    /// Begins the next task of another group whose queue has fallen behind this one's, though this one's is not empty.
    pub(super) fn relieve(&mut self, worker: usize) -> bool {
        let now = self.time();
        let state = &mut self.workers[worker];
        let group = state.group;
        let helped = state.away.as_ref().map(|(group, _)| *group);
        let helped = helped.filter(|_| state.stealing);
        let victim = state
            .looks
            .next(&self.groups, &self.crossing, group, helped);
        let Some(victim) =
            victim.filter(|&victim| ladder::is_behind(&self.groups, group, victim, now))
        else {
            return false;
        };
        self.groups[victim].state.show_at(now);
        if !ladder::is_behind(&self.groups, group, victim, now) {
            return false;
        }
        let Some(query) = self.take_task(victim, worker) else {
            return false;
        };
        self.go_away(worker);
        self.leave_task_to_others(group);
        self.begin(worker, query, Rung::Remote, victim);
        true
    }
}
