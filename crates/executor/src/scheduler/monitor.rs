//! The timed look: notices tasks that have waited too long when nobody submits and nobody goes to sleep, and queues
//! that refuse tasks while dead ones hold their places.
//!
//! A push wakes nobody if a worker of its group spins and is about to see the task. That worker may lose its core to
//! another program just then, for a time slice or longer. So the thread looks after such tasks too, and wakes a sleeper
//! of the group for one that has waited for [`LOOK`].
//!
//! A queue becomes worth crossing for when a task is pushed or taken, which is when its length changes. It may also
//! become so by age alone: its workers are inside long tasks, and other groups' workers have been asleep since before.
//! One thread looks every [`LOOK`] while tasks wait anywhere, and calls for help for the queues that need it by
//! then. Go's `sysmon` is the model.
//!
//! The thread costs nothing while no task waits: it parks once a look has found every queue empty. A push that leaves
//! its task waiting wakes it ([`Monitor::arm`]). Both sides write, fence and read, so one of them sees the other: the
//! pusher writes `queued` and reads `armed`, the thread writes `armed` and reads `queued`.

use chiplet_policy::Time;
use chiplet_policy::group::{LOOK, PublishedLoads};

use super::Scheduler;
use super::parkers::Parker;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Step, left_out, now};

#[derive(Default)]
pub(super) struct Monitor {
    /// The thread looks, or has been woken to.
    armed: AtomicBool,
    closed: AtomicBool,
    parker: Parker,
}

impl Monitor {
    /// Makes sure that the thread looks. The caller has published that a task waits.
    pub(super) fn arm(&self) {
        fence(Ordering::SeqCst);
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.parker.unpark();
        }
    }

    /// Waits until it is woken.
    #[cfg(all(test, chiplet_loom))]
    pub(super) fn park(&self) {
        self.parker.park(None);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.parker.unpark();
    }

    #[cfg(any(feature = "replay", all(test, not(any(chiplet_loom, chiplet_shuttle)))))]
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }
}

impl<T, U> Scheduler<T, U> {
    /// The thread: looks while tasks wait, until the scheduler is closed. `clear` ends the dead tasks of a group's
    /// queue, or those of one table in it.
    pub(crate) fn watch(&self, clear: impl Fn(usize)) {
        let mut waiting = false;
        while !self.monitor.closed.load(Ordering::Acquire) {
            if waiting {
                self.monitor.parker.park(Some(now() + LOOK));
                waiting = self.look(self.clock.now(), &clear);
            } else {
                self.disarm();
                self.monitor.parker.park(None);
                waiting = true;
            }
        }
    }

    /// The thread is about to park: from now on a push wakes it. What was pushed before keeps it awake.
    pub(super) fn disarm(&self) {
        self.monitor.armed.store(false, Ordering::Release);
        if !left_out(Step::FenceOfMonitor) {
            fence(Ordering::SeqCst);
        }
        let taken_ahead = self.prefetched.may_be_with(0..self.layout.workers());
        if taken_ahead || (0..self.groups.count()).any(|group| self.groups.queued(group) > 0) {
            self.monitor.arm();
        }
    }

    /// Wakes a sleeper for every task that has waited beside it, calls for help for every queue that is worth crossing
    /// for at `now`, and has those cleared that have refused tasks. True if any task waits anywhere.
    pub(super) fn look(&self, now: Time, clear: impl Fn(usize)) -> bool {
        let mut waiting = false;
        for group in 0..self.groups.count() {
            for worker in self.layout.workers_of(group) {
                let ahead = self.prefetched.may_be_with(worker..worker + 1);
                waiting |= ahead;
                if ahead && self.prefetched.is_seen(worker) {
                    self.put_back(worker, now);
                }
            }
            if self.groups.queued(group) == 0 {
                continue;
            }
            waiting = true;
            let looked = self.hold(group).look(now);
            if let Some(worker) = looked.wake
                && !left_out(Step::LookWakes)
            {
                self.parkers.unpark(worker);
            }
            if looked.wanted > 0 {
                self.call_help(group, looked.wanted);
            }
            if looked.searches {
                clear(group);
            }
        }
        waiting
    }
}
