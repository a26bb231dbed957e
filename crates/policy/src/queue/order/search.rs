//! Looking at all that waits, some of it at a time.

use std::cmp::Reverse;

use super::Order;
use crate::TableId;
use crate::queue::flows::{Flows, Place};
use crate::queue::ring::{SearchAt, Slot};

impl<T> Order<T> {
    /// Looks at the waiting tasks from `at` on, as many as there are `steps`, and takes those out for which `dead`
    /// holds, with their table's weight. True if it has come to the end; else `at` is where to go on. A place is a
    /// step, too.
    pub(in crate::queue) fn extract(
        &mut self,
        flows: &mut Flows<T>,
        at: &mut SearchAt,
        steps: &mut usize,
        dead: impl FnMut(&T) -> bool,
        out: impl FnMut(TableId, f32, Slot<T>),
    ) -> bool {
        let over = self.tally.over;
        let is_through = self.look_through(flows, at, steps, dead, out);
        if self.tally.over < over {
            let class = self.class as usize;
            let over = |Reverse((_, place)): &Reverse<(u64, Place)>| flows[(*place, class)].over;
            self.over.retain(over);
        }
        is_through
    }

    fn look_through(
        &mut self,
        flows: &mut Flows<T>,
        at: &mut SearchAt,
        steps: &mut usize,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, f32, Slot<T>),
    ) -> bool {
        let class = self.class as usize;
        let mut tell = |flows: &Flows<T>, slot: Slot<T>| {
            let row = &flows.list[slot.flow as usize];
            out(row.table, row.flows[class].weight, slot);
        };
        let mut slot = at.slot.unwrap_or(self.ring.head());
        while !at.in_flow
            && let Some(position) = self.ring.find(&mut slot, steps, &mut dead)
        {
            let place = self.ring.slot(position).flow;
            let flow = &mut flows[(place, class)];
            let slot = self.ring.remove(flow, position);
            self.leaves(flow, &slot);
            tell(flows, slot);
        }
        at.slot = Some(slot);
        if !at.in_flow && !self.ring.is_end(slot) {
            return false;
        }
        at.in_flow = true;
        while self.tally.over > 0 && at.flow < flows.list.len() {
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            let mut gone = Vec::new();
            let flow = &mut flows[(at.flow as Place, class)];
            let is_through = flow.extract(&mut at.task, steps, &mut dead, |slot| gone.push(slot));
            for slot in gone {
                let flow = &mut flows[(slot.flow, class)];
                flow.len -= 1;
                self.leaves(flow, &slot);
                tell(flows, slot);
            }
            if !is_through {
                return false;
            }
            (at.flow, at.task) = (at.flow + 1, 0);
        }
        true
    }
}
