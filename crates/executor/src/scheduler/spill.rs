//! Invitations that leave their domain: to scan units of tables that no cache keeps, for workers that other domains can
//! spare.
//!
//! What a worker spills is listed with its group until places or work run out, or that worker takes it back. So there is
//! at most one entry for each thread of a group, and none refers to a query that has ended.

use chiplet_policy::Rung;
use chiplet_policy::group::Faces;

use super::{Hub, Invite, Local};
use crate::sync::{Step, left_out};

/// What a worker has started, and for how many more it has work.
pub(super) struct Spilled<U> {
    by: usize,
    invitation: U,
    places: usize,
}

impl<T, U> Hub<T, U> {
    /// Whether this group has spilled something.
    pub(super) fn has_spilled(&self, group: usize) -> bool {
        self.spilling.contains(group)
    }

    /// Whether another group has spilled something, as far as can be seen without a lock.
    pub(super) fn is_spilled_for(&self, group: usize) -> bool {
        !self.spilling.is_empty()
            && self.groups[group]
                .nearest
                .iter()
                .any(|&other| self.spilling.contains(other))
    }

    /// Takes back what this worker has spilled, or what is left of it.
    pub(crate) fn withdraw(&self, local: &Local<U>) {
        if left_out(Step::SpillTakenBack) {
            return;
        }
        let mut spilled = self.groups[local.group].spilled.lock();
        let before = spilled.len();
        // Dropped below, without the lock: what they refer to may end with them.
        let gone: Vec<_> = spilled
            .extract_if(.., |entry| entry.by == local.worker)
            .collect();
        if before > 0 && spilled.is_empty() {
            self.spilling.remove(local.group);
        }
        drop(spilled);
        drop(gone);
    }

    /// A task of this worker's own group waits.
    pub(crate) fn is_wanted_at_home(&self, local: &Local<U>) -> bool {
        self.queued(local.group) > 0
    }
}

impl<T, U: Invite> Hub<T, U> {
    /// Lets `places` workers of other groups take part in `invitation`, and wakes as many of those that their groups can spare.
    /// The same worker has to [`withdraw`](Hub::withdraw) it.
    pub(crate) fn spill(&self, local: &Local<U>, invitation: U, places: usize) {
        if places == 0 || self.groups.len() == 1 {
            return;
        }
        {
            let mut spilled = self.groups[local.group].spilled.lock();
            spilled.push(Spilled {
                by: local.worker,
                invitation,
                places,
            });
            self.spilling.insert(local.group);
        }
        if !left_out(Step::SpillCalls) {
            self.call_help(local.group, places);
        }
    }

    /// A place in what another group has spilled, the nearest first. Entries without places or work are dropped.
    pub(super) fn spilled_invitation(&self, local: &Local<U>) -> Option<(U, Rung)> {
        let group = &self.groups[local.group];
        let spilling = group.nearest.iter().copied();
        let found = spilling
            .filter(|&other| self.spilling.contains(other))
            .find_map(|other| Some((self.take_place(other)?, other)));
        let (invitation, other) = found?;
        Some((invitation, self.rung(group.domain, other)))
    }

    fn take_place(&self, group: usize) -> Option<U> {
        let mut spilled = self.groups[group].spilled.lock();
        let gone: Vec<_> = spilled
            .extract_if(.., |entry| entry.places == 0 || !entry.invitation.is_open())
            .collect();
        let place = spilled.first_mut().map(|entry| {
            entry.places -= 1;
            entry.invitation.clone()
        });
        if spilled.is_empty() {
            self.spilling.remove(group);
        }
        drop(spilled);
        drop(gone);
        place
    }
}
