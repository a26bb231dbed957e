//! Short tasks are taken several at once: for each by itself, its group's lock would cost about as much as it takes.

use super::flows::NOWHERE;
use super::{Queue, Run};
use crate::Time;

/// What a worker takes at once, in nanoseconds of work: so long a task that has been taken waits for others at most, if
/// all take as long as expected.
const AT_ONCE: u64 = 10_000;

/// So many besides the first.
const MOST: usize = 15;

impl<T> Queue<T> {
    /// Takes the tasks that came next after that of `run`, `most` at most, while all together are expected to take
    /// 10 us, and gives each to `keep` with what its worker is to [run](Run) it by. None where there is something to
    /// choose: a table is backlogged, a bulk task waits, or the task's deadline is to be judged.
    #[inline(never)]
    pub fn prefetch(&mut self, run: &Run, most: usize, now: Time, mut keep: impl FnMut(T, Run)) {
        let [interactive, bulk] = &mut self.orders;
        let is_known = self.flows[(run.place, run.class as usize)].cost > 0;
        if !is_known || bulk.len() > 0 {
            return;
        }
        let (mut next, mut work) = (*run, run.charged);
        for _ in 0..most.min(MOST) {
            let Some(cost) = interactive.cost_of_next(&self.flows) else {
                return;
            };
            work = work.saturating_add(cost);
            if work > AT_ONCE {
                return;
            }
            let _ = next.hand_over();
            let taken = interactive.take(&mut self.flows, NOWHERE, &mut next, now);
            let Some(task) = taken else { return };
            keep(task, next);
        }
    }

    /// Queues a task again that was [taken ahead](Queue::prefetch) and not begun: before all that came later. Hands it
    /// back if the system has no memory for that.
    pub fn put_back(&mut self, task: T, run: &Run) -> Result<(), T> {
        let order = &mut self.orders[run.class as usize];
        match order.make_room(1) {
            Ok(()) => order.put_back(&mut self.flows, run.place, run.slot(task)),
            Err(_) => return Err(task),
        }
        Ok(())
    }
}

impl Run {
    /// Whether other tasks may be taken together with the one that was.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.charged <= AT_ONCE
    }
}
