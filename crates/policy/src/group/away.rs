//! What passes between groups, and between the threads of one slot.

use std::time::Duration;

use super::{Cover, Group};
use crate::Time;
use crate::queue::{Moved, Run};

/// Between two timed looks: half of the default bound on a task's wait
/// ([`StealConfig::max_wait`](crate::StealConfig::max_wait)).
pub const LOOK: Duration = Duration::from_millis(2);

/// What the timed look finds at a group.
#[must_use]
#[derive(Debug)]
pub struct Looked {
    /// A sleeper for a task that has waited since before the last look: it was left to a worker that was awake without
    /// work, or about to be, and that has not come.
    pub wake: Option<usize>,
    /// Workers of other groups that are wanted: as many as tasks wait, if the queue is worth crossing for.
    pub wanted: usize,
    /// The queue has refused tasks, and is to be searched for dead ones ([`Group::search`]).
    pub searches: bool,
}

impl<T> Group<T> {
    /// The next task, for a worker of another group that knows by `run` which table it has taken before.
    pub fn give(&mut self, run: &mut Run, now: Time) -> Option<T> {
        let task = self.queue.take(true, run, now);
        // Should it be worth more without this task, another worker sees that in its next look.
        self.show_at(now);
        task
    }

    /// One of its workers runs another group's task now.
    pub fn go_away(&mut self) {
        self.away += 1;
        self.show_spare();
    }

    /// A sleeper for another group, if this one can spare it.
    pub fn lend(&mut self) -> Option<usize> {
        match self.load.spare {
            true => self.wake_one(),
            false => None,
        }
    }

    /// The timed look at this group.
    pub fn look(&mut self, now: Time) -> Looked {
        self.show_at(now);
        let outlook = self.queue.outlook(now);
        let is_old = outlook.backlog.age >= LOOK.as_nanos() as u64;
        Looked {
            wake: match is_old && self.is_left_to_others() {
                true => self.wake_one(),
                false => None,
            },
            wanted: if self.load.overloaded {
                self.queue.len()
            } else {
                0
            },
            searches: self.search.is_due(now),
        }
    }

    /// Whether `worker` is not to take tasks.
    pub fn is_off(&self, worker: usize) -> bool {
        self.slots.is_off(worker)
    }

    /// Has one thread of `slot` take tasks, or none. Gives whom to wake so that it learns its order: one that has slept
    /// and is to stand by, or one that has stood by and is wanted. Once all slots are ordered the caller says
    /// [`Group::ordered`].
    pub fn order(
        &mut self,
        slot: impl Iterator<Item = usize> + Clone,
        wanted: bool,
    ) -> Option<usize> {
        match (self.slots.holder(slot.clone()), wanted) {
            (Some(holder), false) => {
                self.slots.send_off(holder);
                let slept = self.take_off(holder);
                self.woken += usize::from(slept);
                slept.then_some(holder)
            }
            (None, true) => Some(self.slots.recall(slot)),
            _ => None,
        }
    }

    /// The queue has as many workers from now on as are at work. Returns how many.
    pub fn ordered(&mut self) -> usize {
        let at_work = self.slots.at_work();
        self.queue.set_workers(at_work);
        at_work
    }

    /// Workers for what has been queued here at once. Others see it as it is at `now`.
    pub fn wake_for_all(&mut self, now: Time) -> Vec<usize> {
        self.show_at(now);
        self.wake(self.queue.len().saturating_sub(self.spinning))
    }

    /// `worker` of `slot` is off, and stands by. `None`: it is to take tasks after all, as it has been recalled or
    /// whoever has its slot's place has blocked with nobody to take it.
    ///
    /// It may have been woken for a task, or have spun in place of a sleeper: says whom to wake in its place, if it is
    /// `wanted` or a task waits, as [`Group::hand_on`] does.
    pub fn stand_by(
        &mut self,
        worker: usize,
        slot: impl Iterator<Item = usize>,
        wanted: bool,
    ) -> Option<Result<Option<usize>, bool>> {
        if self.slots.take_place(worker, slot) || !self.is_off(worker) {
            return None;
        }
        self.slots.park(worker);
        self.show_spare();
        Some(match wanted {
            true => Ok(self.wake_one()),
            false => self.hand_on(),
        })
    }

    /// `worker` stands by no longer.
    pub fn end_standby(&mut self, worker: usize) {
        self.slots.leave(worker);
        self.show_spare();
    }

    /// `worker` of `slot` is about to wait for something that takes no processor, inside another group's task if it is
    /// `away`.
    pub fn block(
        &mut self,
        worker: usize,
        slot: impl Iterator<Item = usize> + Clone,
        away: bool,
    ) -> Cover {
        self.away -= usize::from(away);
        let cover = self.slots.block(worker, slot);
        self.show_spare();
        cover
    }

    /// The substitute that [`Group::block`] named could not be started.
    pub fn do_without(&mut self, worker: usize, substitute: usize) {
        self.slots.take_back(worker, substitute);
        self.show_spare();
    }

    /// `worker` goes on with its task.
    pub fn unblock(&mut self, worker: usize, away: bool) {
        self.slots.unblock(worker);
        self.away += usize::from(away);
        self.show_spare();
    }

    /// Takes out everything, if nobody of the group is at work: it goes to other groups.
    pub fn vacate(&mut self) -> Vec<Moved<T>> {
        match self.queue.workers() == 0 && !self.queue.is_empty() {
            true => self.queue.move_out(),
            false => Vec::new(),
        }
    }
}
