//! Tasks that leave a queue before a worker takes them: dead ones, and those that go to another group's queue.

use chiplet_table::Class;

use super::flows::NOWHERE;
use super::slots::Slot;
use super::{Queue, Terms};
use crate::{TableId, Time};

/// A task that leaves for another group's queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved<T> {
    /// Its table.
    pub table: TableId,
    /// On which terms it waits.
    pub terms: Terms,
    /// When it came.
    pub at: Time,
    /// The task itself.
    pub task: T,
}

impl<T> Queue<T> {
    /// Takes out every queued task for which `dead` holds: [`Intake::leaving`](super::Intake::leaving) until the caller
    /// has ended them and counted how.
    pub fn extract(&mut self, dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        self.searched = (0, 0);
        self.search(usize::MAX, dead).0
    }

    /// As [`Queue::extract`], of the next tasks after those that it has looked at before; it looks at no more than
    /// about `steps`. Says whether it has come to the end: then it begins anew.
    pub fn search(
        &mut self,
        mut steps: usize,
        mut dead: impl FnMut(&T) -> bool,
    ) -> (Vec<(TableId, T)>, bool) {
        let mut out = Vec::new();
        let mut leaving = Vec::new();
        let mut is_through = true;
        let (mut class, mut at) = self.searched;
        while let Some(order) = self.orders.get_mut(class) {
            let leaves = |table, queries, task| {
                leaving.push((table, queries));
                out.push((table, task));
            };
            is_through = order.search(&mut self.flows, &mut at, &mut steps, &mut dead, leaves);
            if !is_through {
                break;
            }
            (class, at) = (class + 1, 0);
        }
        self.searched = if is_through { (0, 0) } else { (class, at) };
        for (table, queries) in leaving {
            self.intake_mut(table).leaving += u64::from(queries);
        }
        (out, is_through)
    }

    /// Takes out everything, for another group's queue.
    pub fn move_out(&mut self) -> Vec<Moved<T>> {
        let mut out = Vec::new();
        for order in &mut self.orders {
            order.move_out(&mut self.flows, |table, terms, at, task| {
                let moved = Moved {
                    table,
                    terms,
                    at,
                    task,
                };
                out.push(moved);
            });
        }
        out
    }

    /// Queues tasks that have been accepted in another group; they keep their age. They have no place left to go back
    /// to, so memory that the system refuses ends the process here, as it does by default. Looks at all that waits.
    pub fn adopt(&mut self, mut moved: Vec<Moved<T>>) {
        moved.sort_by_key(|moved| moved.at);
        let mut slots = Class::ALL.map(|_| Vec::new());
        for Moved {
            table,
            terms,
            at,
            task,
        } in moved
        {
            let Ok(place) = self.flows.find_or_add(table, NOWHERE) else {
                std::process::abort()
            };
            let of = (terms.queries, terms.expiry());
            let slot = Slot::new(task, at.as_nanos(), of, place);
            slots[terms.class as usize].push((terms.weight, slot));
        }
        for (order, slots) in self.orders.iter_mut().zip(slots) {
            order.adopt(&mut self.flows, slots);
        }
    }
}
