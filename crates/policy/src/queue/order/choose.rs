//! Going on with a table that a worker's private cache holds, out of turn but not far.

use std::cmp::Reverse;

use super::runs::Reorder;
use super::{Front, LEAD, Order, nanos};
use crate::queue::Run;
use crate::queue::lanes::Place;

/// Tasks, or lanes over their share, looked at for one of a table that the worker ran last. The first elements of a heap
/// are among its smallest.
const LOOK_AHEAD: usize = 7;

impl<T> Order<T> {
    /// Which lane's task is next: `front`'s, or out of turn that of a table which the worker's private cache holds.
    pub(super) fn choose(&self, front: Front, worker: Option<usize>, run: &Run, now: u64) -> Place {
        let lanes = match front.over {
            false => self.tally.lanes - self.tally.over,
            true => self.tally.over,
        };
        let reorder = self.worth.reorder(self.reorder);
        if self.run_length <= 1 || lanes == 1 || reorder == Reorder::NONE {
            return front.lane;
        }
        let age = now.saturating_sub(front.since);
        // Tables that flood wait for ever longer. How far they may be out of proportion must not grow with that.
        let age = match front.over {
            false => age,
            true => age.min(nanos(LEAD)),
        };
        let ahead = match front.over {
            false => reorder.of(age),
            // How far the tags get on in that time.
            true => (reorder.of(age) as f64 / self.tally.over_weight) as u64,
        };
        let latest = front.place.saturating_add(ahead);
        let may_go = |place: Place| {
            let lane = &self.lanes[place];
            lane.over == front.over
                && lane.len() > 0
                && match front.over {
                    false => lane.oldest() <= Some(latest),
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
        let mine = |place: Place| {
            let by = self.lanes[place].last;
            worker.is_some() && (by.is_none() || by == worker) && Some(place) != last
        };
        let is_next = |&place: &Place| mine(place) && may_go(place);
        let found = match front.over {
            false => {
                let mut ahead = self.within.iter().take(LOOK_AHEAD);
                ahead
                    .find(|token| is_next(&token.lane))
                    .map(|token| token.lane)
            }
            true => {
                let ahead = self.over.as_slice().iter().take(LOOK_AHEAD);
                ahead.map(|Reverse((_, place))| *place).find(is_next)
            }
        };
        found.unwrap_or(front.lane)
    }
}
