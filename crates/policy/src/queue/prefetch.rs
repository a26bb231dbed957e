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
    /// [`AT_ONCE`], and gives each to `keep` with what its worker is to [run](Run) it by. Only while no table is
    /// backlogged, no bulk task waits, and none of them has a deadline: there is nothing to choose then.
    #[inline(never)]
    pub(crate) fn prefetch(
        &mut self,
        run: &Run,
        most: usize,
        now: Time,
        mut keep: impl FnMut(T, Run),
    ) {
        let [interactive, bulk] = &mut self.orders;
        let (mut next, mut work) = (*run, run.charged);
        for _ in 0..most.min(MOST) {
            match interactive.cost_of_next(&self.flows) {
                Some(cost) if bulk.len() == 0 => work = work.saturating_add(cost),
                _ => return,
            }
            if work > AT_ONCE {
                return;
            }
            let _ = next.hand_over();
            let taken = interactive.take(&mut self.flows, NOWHERE, &mut next, now);
            let Some(task) = taken else { return };
            keep(task, next);
        }
    }

    /// Queues tasks again that were [taken ahead](Queue::prefetch) and not begun; they keep their age.
    pub(crate) fn put_back(&mut self, tasks: Vec<(T, Run)>) {
        let tasks = tasks.into_iter().map(|(task, run)| {
            let place = run.last(&self.flows);
            let row = self.flows.list.get(place as usize);
            run.goes_back(
                task,
                row.map_or(1.0, |row| row.flows[run.class as usize].weight),
            )
        });
        let tasks = tasks.collect();
        self.adopt(tasks);
    }
}

impl Run {
    /// Whether other tasks may be taken together with the one that was.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.charged <= AT_ONCE
    }
}
