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
//! The thread costs nothing while no task waits: it parks once [`QUIET_LOOKS`] looks in a row have found every queue
//! empty. A push that leaves its task waiting wakes it ([`Watch::arm`]). Both sides write, fence and read, so one of
//! them sees the other: the pusher writes `queued` and reads `armed`, the thread writes `armed` and reads `queued`.

use chiplet_policy::group::{Faces, LOOK, Looked};
use chiplet_policy::{Time, ladder};

use super::Hub;
use super::seats::{Call, Parker};
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Step, left_out, now};

/// Looks in a row that find nothing waiting before the thread parks.
const QUIET_LOOKS: u32 = 8;

pub(super) struct Watch {
    /// The thread looks, or has been woken to.
    armed: AtomicBool,
    closed: AtomicBool,
    parker: Parker,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            armed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            parker: Parker::new(),
        }
    }

    /// Makes sure that the thread looks. The caller has published that a task waits.
    pub(super) fn arm(&self) {
        fence(Ordering::SeqCst);
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.parker.unpark();
        }
    }

    /// Waits until it is woken.
    pub(super) fn park(&self) {
        self.parker.park();
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.parker.unpark();
    }

    #[cfg(any(feature = "replay", all(test, not(any(chiplet_loom, chiplet_shuttle)))))]
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl<T, U> Hub<T, U> {
    /// The thread: looks while tasks wait, until the hub is closed. `clear` ends the dead tasks of a group's queue, or
    /// those of one table in it.
    pub(crate) fn watch(&self, clear: impl Fn(usize)) {
        self.watch.park();
        let mut quiet = 0;
        while !self.watch.is_closed() {
            if quiet < QUIET_LOOKS {
                self.watch.parker.park_until(now() + LOOK);
                quiet += 1;
                if self.look(self.clock.now(), &clear) {
                    quiet = 0;
                }
            } else {
                self.disarm();
                self.watch.park();
                quiet = 0;
            }
        }
    }

    /// The thread is about to park: from now on a push wakes it. What was pushed before keeps it awake.
    pub(super) fn disarm(&self) {
        self.watch.armed.store(false, Ordering::Release);
        if !left_out(Step::FenceOfWatch) {
            fence(Ordering::SeqCst);
        }
        if (0..self.groups.count()).any(|group| self.groups.queued(group) > 0) {
            self.watch.arm();
        }
    }

    /// Wakes a sleeper for every task that has waited beside it, calls for help for every queue that is worth crossing
    /// for at `now`, and has those cleared that have refused tasks. True if any task waits anywhere.
    pub(super) fn look(&self, now: Time, clear: impl Fn(usize)) -> bool {
        let mut waiting = false;
        for group in 0..self.groups.count() {
            if self.groups.queued(group) == 0 {
                continue;
            }
            waiting = true;
            let is_due = self.groups.lock(group).search_due(now);
            if is_due {
                clear(group);
            }
            self.rouse_for_old(group, now);
            if self.rules.crossing.is_priced() {
                self.look_at(group, now);
            }
        }
        waiting
    }

    /// Wakes a sleeper of `group` if a task has waited there since before the last look: it was left to a worker that
    /// was awake without work, or about to be, and that has not come.
    fn rouse_for_old(&self, group: usize, now: Time) {
        let sleeper = self.hold(group).rouse_for_old(now);
        if let Some(worker) = sleeper
            && !left_out(Step::LookWakes)
        {
            self.seats.unpark(worker);
        }
    }

    /// Calls for help for the queue of `group` if it is worth crossing for.
    fn look_at(&self, group: usize, now: Time) {
        let Looked { wanted, overdue } = self.hold(group).look(now);
        let called = match wanted {
            0 => 0,
            wanted => self.call_help(group, wanted),
        };
        if overdue && called < wanted {
            // No more groups have workers to spare, so some lend one that they would rather keep.
            let mut hub = self;
            let call = |hub: &mut &Self, other| hub.call_helper(other, Call::Overdue);
            ladder::call_lenders(&mut hub, |hub| &hub.groups, group, wanted - called, call);
        }
    }
}
