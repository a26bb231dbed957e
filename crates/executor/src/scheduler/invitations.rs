//! Invitations: what a worker has started and has more of than it can do soon, for its siblings to take part in.
//!
//! The scheduler does not know what is shared out. An invitation lies on the deque of the worker that made it, and
//! whoever takes it joins there. It lapses when nothing is left to join, and is dropped then by whoever finds it.

use chiplet_policy::Rung;
use chiplet_policy::group::Faces;
use chiplet_policy::queue::Underway;
use chiplet_topology::DomainId;

use super::{Hub, Local, deque};
use crate::sync::atomic::Ordering;
use crate::sync::{Step, left_out};

/// An invitation, as the scheduler sees it.
pub(crate) trait Invite: Clone {
    /// Whether there is still enough left for one more worker.
    fn is_open(&self) -> bool;
}

impl<T, U> Hub<T, U> {
    /// Lets others take `invitations`, and wakes up to `wanted` workers that may, all at once: a cascade of single wake-ups
    /// would start the last of them late.
    pub(crate) fn invite(
        &self,
        local: &Local<U>,
        invitations: impl ExactSizeIterator<Item = U>,
        wanted: usize,
    ) {
        // First, so that the count is never less than what lies on the deques.
        self.groups[local.group]
            .invitations
            .fetch_add(invitations.len(), Ordering::Relaxed);
        for invitation in invitations {
            local.invitations.push(invitation);
        }
        if left_out(Step::InvitationWakes) {
            return;
        }
        self.rouse(local.group, wanted, usize::MAX);
    }

    /// Wakes up to `wanted` sleepers of `group`, all at once, unless more than `at_most` tasks wait, for which they are
    /// woken anyway; returns how many that were. A submitter calls it when there will be invitations in a moment: waking
    /// takes longer than that.
    pub(crate) fn rouse(&self, group: usize, wanted: usize, at_most: usize) -> usize {
        let woken = self.hold(group).rouse(wanted, at_most);
        for &worker in &woken {
            self.seats[worker].parker.unpark();
        }
        woken.len()
    }

    /// This worker joins what a sibling has started, though a task waits that a push may have left to it: it was
    /// looking at the queue then, or had been woken. Somebody else sees to that task, as if it came only now.
    pub(super) fn leave_task_to_others(&self, group: usize) {
        if self.queued(group) == 0 || left_out(Step::JoiningHandsOn) {
            return;
        }
        let successor = self.hold(group).hand_on();
        match successor {
            Ok(Some(worker)) => self.seats[worker].parker.unpark(),
            Ok(None) => self.seek_help(group, 1),
            Err(true) => self.leave_to_spinning(),
            Err(false) => {}
        }
    }

    /// Whether a task of this worker's own group goes before another piece of `task`, in which it takes part.
    pub(crate) fn gives_way(&self, local: &Local<U>, task: &Underway) -> bool {
        self.queued(local.group) > 0 && {
            let now = self.clock.now();
            let mut state = self.groups[local.group].state.lock();
            state.queue.goes_before(task, now)
        }
    }

    /// Whether there may be an invitation on a deque of `group`. A hint: nothing is lost by a stale answer, as the
    /// deques themselves are looked at before a worker sleeps.
    pub(super) fn may_join(&self, group: usize) -> bool {
        self.groups[group].invitations.load(Ordering::Relaxed) > 0
    }

    /// Whether a deque of `workers` other than this one's holds an invitation, lapsed ones included.
    pub(super) fn invitations_within(
        &self,
        local: &Local<U>,
        mut workers: impl Iterator<Item = usize>,
    ) -> bool {
        workers.any(|worker| worker != local.worker && !self.seats[worker].invitations.is_empty())
    }

    pub(super) fn rung(&self, own: DomainId, victim: usize) -> Rung {
        if self.groups[victim].domain == own {
            Rung::Domain
        } else {
            Rung::Remote
        }
    }

    fn count_taken(&self, group: usize) {
        self.groups[group]
            .invitations
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T, U: Invite> Hub<T, U> {
    /// What this worker has started itself and left to others.
    pub(super) fn own_invitation(&self, local: &mut Local<U>) -> Option<U> {
        loop {
            let invitation = local.invitations.pop()?;
            self.count_taken(local.group);
            if invitation.is_open() {
                return Some(invitation);
            }
        }
    }

    pub(super) fn siblings_invitation(&self, local: &mut Local<U>) -> Option<U> {
        let workers = self.groups[local.group].threads();
        self.steal(local, workers)
    }

    /// Takes an open invitation of one of `workers`, and drops those that have lapsed.
    fn steal(
        &self,
        local: &mut Local<U>,
        workers: impl Iterator<Item = usize> + Clone,
    ) -> Option<U> {
        local.turn = local.turn.wrapping_add(1);
        let count = workers.clone().count();
        let first = local.turn % count;
        let (behind, ahead) = (workers.clone().take(first), workers.skip(first));
        ahead
            .chain(behind)
            .filter(|&victim| victim != local.worker)
            .find_map(|victim| self.steal_from(victim))
    }

    fn steal_from(&self, victim: usize) -> Option<U> {
        loop {
            match self.seats[victim].invitations.steal() {
                deque::Steal::Success(invitation) => {
                    self.count_taken(self.seats[victim].group);
                    if invitation.is_open() {
                        return Some(invitation);
                    }
                }
                deque::Steal::Empty => return None,
                deque::Steal::Retry => {}
            }
        }
    }
}
