//! Going on with a table that a worker's private cache holds, out of turn but not far.

use std::cmp::Reverse;

use super::{Front, LEAD, Order, nanos};
use crate::TableId;
use crate::queue::Run;

/// Lanes looked at for one that the worker ran last. Bounded, so that taking is O(log n) in the number of tables; the
/// first elements of a heap are among its smallest.
const LOOK_AHEAD: usize = 7;

impl<T> Order<T> {
    /// Whose task is next: `front`'s, or out of turn that of a table which the worker's private cache holds.
    pub(super) fn choose(
        &self,
        front: Front,
        worker: Option<usize>,
        run: &Run,
        now: u64,
    ) -> TableId {
        let heap = match front.over {
            false => &self.within,
            true => &self.over,
        };
        if self.run_length <= 1 || heap.len() == 1 {
            return front.table;
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
        let latest = front
            .place
            .saturating_add((age * self.reorder * speed) as u64);
        let may_go = |table: TableId| {
            let lane = self.lanes.get(&table);
            let lane = lane.filter(|lane| lane.over == front.over && lane.len() > 0);
            lane.is_some_and(|lane| match front.over {
                false => lane.key() <= Some(latest),
                true => lane.tag <= latest,
            })
        };
        if let Some(table) = run.table
            && run.left > 0
            && may_go(table)
        {
            return table;
        }
        // Of the first lanes in order, one that no other worker has in its cache. The table whose run is over comes
        // last.
        let ahead = heap.as_slice().iter().take(LOOK_AHEAD);
        let mine = |table: &TableId| {
            let last = self.lanes.get(table).and_then(|lane| lane.last);
            worker.is_some() && (last.is_none() || last == worker) && Some(*table) != run.table
        };
        let mut candidates = ahead.map(|Reverse((_, table))| *table);
        candidates
            .find(|table| mine(table) && may_go(*table))
            .unwrap_or(front.table)
    }
}
