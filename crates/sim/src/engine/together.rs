//! Queries of one table that wait in one queue and become one task, which reads each list once.

use super::Engine;
use crate::workload::Plan;

impl Engine<'_> {
    /// Adds a query that has come to one that waits, if there is one with room.
    pub(super) fn gather(&mut self, group: usize, query: usize) -> bool {
        let most = self.scenario.settings.ideas.together.max(1) as usize - 1;
        // Who asks by himself, or for a time, waits for himself.
        if self.queries[query].row.is_some() {
            return false;
        }
        let key = (group, self.queries[query].item);
        let Some(&first) = self.gathering.get(&key) else {
            return false;
        };
        let mates = &mut self.queries[first].mates;
        if mates.len() >= most {
            return false;
        }
        mates.push(query);
        true
    }

    /// Others may join a query that has been queued.
    pub(super) fn open_to_others(&mut self, group: usize, query: usize) {
        let state = &self.queries[query];
        let plan = &self.scenario.prepared.plans[state.table as usize];
        if self.scenario.settings.ideas.together > 1 && matches!(plan, Plan::Lists { .. }) {
            self.gathering.insert((group, state.item), query);
        }
    }

    /// Nobody joins a query any more: it begins.
    pub(super) fn close_to_others(&mut self, group: usize, query: usize) {
        let key = (group, self.queries[query].item);
        if self.gathering.get(&key) == Some(&query) {
            self.gathering.remove(&key);
        }
    }
}
