//! Tasks that leave a queue before a worker takes them: dead ones, and those that go to another group's queue.

use chiplet_table::Class;

use super::flow::{SearchAt, Slot};
use super::flows::NOWHERE;
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
        self.searched = SearchAt::default();
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
        while let Some(order) = self.orders.get_mut(self.searched.order) {
            let at = &mut self.searched;
            let leaves = |table, _, task, slot: &Slot<T>| {
                leaving.push((table, slot.queries));
                out.push((table, task));
            };
            is_through = order.extract(&mut self.flows, at, &mut steps, &mut dead, leaves);
            if !is_through {
                break;
            }
            *at = SearchAt {
                order: at.order + 1,
                ..SearchAt::default()
            };
        }
        if is_through {
            self.searched = SearchAt::default();
        }
        for (table, queries) in leaving {
            self.intake_mut(table).leaving += u64::from(queries);
        }
        (out, is_through)
    }

    /// Takes out everything, for another group's queue.
    pub fn move_out(&mut self) -> Vec<Moved<T>> {
        let mut out = Vec::new();
        for (class, order) in Class::ALL.into_iter().zip(&mut self.orders) {
            let (mut from, mut steps) = (SearchAt::default(), usize::MAX);
            let moves = |table, weight, task, slot: &Slot<T>| {
                let terms = Terms {
                    class,
                    weight,
                    queries: slot.queries,
                    effort: slot.effort,
                    ..Terms::default()
                };
                out.push(Moved {
                    table,
                    terms,
                    at: Time::from_nanos(slot.at),
                    task,
                });
            };
            order.extract(&mut self.flows, &mut from, &mut steps, |_| true, moves);
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
            let slot = Slot {
                task: Some(task),
                at: at.as_nanos(),
                queries: terms.queries,
                effort: terms.effort,
            };
            slots[terms.class as usize].push((place, terms.weight, slot));
        }
        for (order, slots) in self.orders.iter_mut().zip(slots) {
            order.adopt(&mut self.flows, slots);
        }
    }
}
