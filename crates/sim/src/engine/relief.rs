//! Busy workers help a queue that has fallen behind theirs.

use chiplet_policy::{Rung, is_worth_relieving};

use super::Engine;
use super::route::LONG_WAIT;

/// A busy worker looks at one other group's queue before every eighth task, as in the executor.
const LOOK_BEHIND: u32 = 8;

impl Engine<'_> {
    /// Begins the next task of another group whose queue has fallen behind this one's, though this one's is not empty.
    pub(super) fn relieve(&mut self, worker: usize) -> bool {
        if !self.is_watched() {
            return false;
        }
        let state = &mut self.workers[worker];
        let group = state.group;
        // Once it has found one behind it looks each time, until that has caught up.
        state.looks = state.looks.wrapping_add(1);
        if !state.stealing && !state.looks.is_multiple_of(LOOK_BEHIND) {
            return false;
        }
        let nearest = &self.groups[group].nearest;
        let victim = match &state.away {
            Some((victim, _)) if state.stealing => *victim,
            _ => nearest[(state.looks / LOOK_BEHIND) as usize % nearest.len()],
        };
        if !self.is_behind(victim, group) {
            return false;
        }
        let Some(query) = self.take_task(victim, worker) else {
            return false;
        };
        self.go_away(worker);
        self.begin(worker, query, Rung::Remote, victim);
        true
    }

    /// Whether the queue of `other` has fallen behind that of `own`, and neither is empty.
    fn is_behind(&mut self, other: usize, own: usize) -> bool {
        if self.groups[own].queue.is_empty() || self.groups[other].queue.is_empty() {
            return false;
        }
        let now = self.time();
        let [own_lag, lag] = [own, other].map(|group| self.groups[group].queue.outlook(now));
        let price = self.groups[other].price;
        lag.fair && lag.lag >= LONG_WAIT && is_worth_relieving(own_lag.lag, lag.lag, price)
    }
}
