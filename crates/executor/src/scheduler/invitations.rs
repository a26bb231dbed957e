//! Invitations: what a worker has started and has more of than it can do soon, for its siblings to take part in.
//!
//! The scheduler does not know what is shared out. An invitation lies on the deque of the worker that made it, and
//! whoever takes it joins there. It lapses when nothing is left to join, and is dropped then by whoever finds it.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::deque;

/// An invitation, as the scheduler sees it.
pub(crate) trait Invite: Clone {
    /// Whether there is still enough left for one more worker.
    fn is_open(&self) -> bool;
}

/// Everybody's deques, as others reach them.
pub(super) struct Invitations<U> {
    deques: Box<[deque::Stealer<U>]>,
    /// How many lie on the deques of each group, at least. Written when something is shared out, not with every task.
    counts: Box<[CachePadded<AtomicUsize>]>,
}

impl<U> Invitations<U> {
    pub(super) fn new(groups: usize, deques: Box<[deque::Stealer<U>]>) -> Self {
        let counts = (0..groups).map(|_| CachePadded::new(AtomicUsize::new(0)));
        Self {
            deques,
            counts: counts.collect(),
        }
    }

    /// Lays `invitations` on the deque of a worker of `group`.
    pub(super) fn lay_out(
        &self,
        group: usize,
        own: &deque::Worker<U>,
        invitations: impl ExactSizeIterator<Item = U>,
    ) {
        // First, so that the count is never less than what lies on the deques.
        self.counts[group].fetch_add(invitations.len(), Ordering::Relaxed);
        for invitation in invitations {
            own.push(invitation);
        }
    }

    /// Whether there may be an invitation on a deque of `group`. A hint: nothing is lost by a stale answer, as the
    /// deques themselves are looked at before a worker sleeps.
    pub(super) fn may_be_in(&self, group: usize) -> bool {
        self.counts[group].load(Ordering::Relaxed) > 0
    }

    /// Whether a deque of `threads` besides that of `own` holds an invitation, lapsed ones included.
    pub(super) fn are_within(&self, own: usize, mut threads: impl Iterator<Item = usize>) -> bool {
        threads.any(|thread| thread != own && !self.deques[thread].is_empty())
    }

    fn count_taken(&self, group: usize) {
        self.counts[group].fetch_sub(1, Ordering::Relaxed);
    }
}

impl<U: Invite> Invitations<U> {
    /// What a worker of `group` has started itself and left to others.
    pub(super) fn take_back(&self, group: usize, own: &deque::Worker<U>) -> Option<U> {
        loop {
            let invitation = own.pop()?;
            self.count_taken(group);
            if invitation.is_open() {
                return Some(invitation);
            }
        }
    }

    /// Takes an open invitation of one of `group`'s `threads` besides `own`, and drops those that have lapsed. It
    /// begins with the thread at place `turn`, and goes round.
    pub(super) fn steal(
        &self,
        group: usize,
        own: usize,
        threads: impl Iterator<Item = usize> + Clone,
        turn: usize,
    ) -> Option<U> {
        let first = turn % threads.clone().count();
        let (behind, ahead) = (threads.clone().take(first), threads.skip(first));
        ahead
            .chain(behind)
            .filter(|&thread| thread != own)
            .find_map(|thread| self.steal_from(group, thread))
    }

    fn steal_from(&self, group: usize, thread: usize) -> Option<U> {
        loop {
            match self.deques[thread].steal() {
                deque::Steal::Success(invitation) => {
                    self.count_taken(group);
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
