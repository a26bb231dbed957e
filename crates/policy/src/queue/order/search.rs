//! Looking at all that waits, some of it at a time.

use std::cmp::Reverse;

use super::Order;
use crate::TableId;
use crate::queue::lanes::{Lanes, Place};
use crate::queue::ring::{SearchAt, Slot};

impl<T> Order<T> {
    /// Looks at the waiting tasks from `at` on, as many as there are `steps`, and takes those out for which `dead`
    /// holds, with their table's weight. True if it has come to the end; else `at` is where to go on. A place is a step,
    /// too.
    pub(in crate::queue) fn extract(
        &mut self,
        lanes: &mut Lanes<T>,
        at: &mut SearchAt,
        steps: &mut usize,
        dead: impl FnMut(&T) -> bool,
        out: impl FnMut(TableId, f32, Slot<T>),
    ) -> bool {
        let over = self.tally.over;
        let is_through = self.look_through(lanes, at, steps, dead, out);
        if self.tally.over < over {
            let class = self.class as usize;
            let over = |Reverse((_, place)): &Reverse<(u64, Place)>| lanes[(*place, class)].over;
            self.over.retain(over);
        }
        is_through
    }

    fn look_through(
        &mut self,
        lanes: &mut Lanes<T>,
        at: &mut SearchAt,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, f32, Slot<T>),
    ) -> bool {
        let class = self.class as usize;
        let mut tell = |lanes: &Lanes<T>, slot: Slot<T>| {
            let seat = &lanes.list[slot.lane as usize];
            out(seat.table, seat.lanes[class].weight, slot);
        };
        let mut slot = at.slot.unwrap_or(self.ring.head());
        while !at.in_lanes
            && let Some(position) = self.ring.find(&mut slot, steps, &mut dead)
        {
            let place = self.ring.slot(position).lane;
            let lane = &mut lanes[(place, class)];
            let slot = self.ring.remove(lane, position);
            self.leaves(lane, &slot);
            tell(lanes, slot);
        }
        at.slot = Some(slot);
        if !at.in_lanes && !self.ring.is_end(slot) {
            return false;
        }
        at.in_lanes = true;
        while self.tally.over > 0 && at.lane < lanes.list.len() {
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            let mut gone = Vec::new();
            let lane = &mut lanes[(at.lane as Place, class)];
            let is_through = lane.extract(&mut at.task, steps, &mut dead, |slot| gone.push(slot));
            for slot in gone {
                let lane = &mut lanes[(slot.lane, class)];
                lane.len -= 1;
                self.leaves(lane, &slot);
                tell(lanes, slot);
            }
            if !is_through {
                return false;
            }
            (at.lane, at.task) = (at.lane + 1, 0);
        }
        true
    }
}
