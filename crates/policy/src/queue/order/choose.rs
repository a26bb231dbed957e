//! Going on with a table that a worker's private cache holds, out of turn but not far.

use std::cmp::Reverse;

use super::{Front, LEAD, Order, nanos};
use crate::queue::Run;
use crate::queue::lanes::Place;

/// Lanes looked at for one that the worker ran last. Bounded, so that taking is O(log n) in the number of tables; the
/// first elements of a heap are among its smallest.
const LOOK_AHEAD: usize = 7;

impl<T> Order<T> {
    /// Which lane's task is next: `front`'s, or out of turn that of a table which the worker's private cache holds.
    pub(super) fn choose(&self, front: Front, worker: Option<usize>, run: &Run, now: u64) -> Place {
        let heap = match front.over {
            false => &self.within,
            true => &self.over,
        };
        let reorder = self.worth.reorder(self.reorder);
        if self.run_length <= 1 || heap.len() == 1 || reorder == 0.0 {
            return front.lane;
        }
        let age = now.saturating_sub(front.since);
        // Tables that flood wait for ever longer. How far they may be out of proportion must not grow with that.
        let age = match front.over {
            false => age,
            true => age.min(nanos(LEAD)),
        } as f64;
        // How far the tags get on in a time.
        let speed = match front.over {
            false => 1.0,
            true => 1.0 / self.tally.over_weight,
        };
        let latest = front.place.saturating_add((age * reorder * speed) as u64);
        let may_go = |place: Place| {
            let lane = &self.lanes[place];
            lane.over == front.over
                && lane.len() > 0
                && match front.over {
                    false => lane.key() <= Some(latest),
                    true => lane.tag <= latest,
                }
        };
        let last = run.table;
        let last = last.and_then(|table| self.lanes.find_near(table, run.place));
        if let Some(place) = last
            && run.left > 0
            && may_go(place)
        {
            return place;
        }
        // Of the first lanes in order, one that no other worker has in its cache. The table whose run is over comes
        // last.
        let ahead = heap.as_slice().iter().take(LOOK_AHEAD);
        let mine = |place: Place| {
            let by = self.lanes[place].last;
            worker.is_some() && (by.is_none() || by == worker) && Some(place) != last
        };
        let mut candidates = ahead.map(|Reverse((_, place))| *place);
        candidates
            .find(|&place| mine(place) && may_go(place))
            .unwrap_or(front.lane)
    }
}
