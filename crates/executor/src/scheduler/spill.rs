//! Invitations that leave their domain: to scan units of tables that no cache keeps, for workers that other domains can
//! spare.
//!
//! What a worker spills is listed with its group until places or work run out, or that worker takes it back. So there
//! is at most one entry for each thread of a group, and none refers to a query that has ended.

use crossbeam_utils::CachePadded;

use super::Invite;
use super::group_set::GroupSet;
use crate::sync::Mutex;

/// What the workers of each group let other groups' take part in.
pub(super) struct Spills<U> {
    pub(super) lists: Box<[CachePadded<List<U>>]>,
    /// Groups whose list is not empty.
    spilling: GroupSet,
}

type List<U> = Mutex<Vec<Spilled<U>>>;

/// What a worker has started, and for how many more it has work.
pub(super) struct Spilled<U> {
    by: usize,
    invitation: U,
    places: usize,
}

impl<U> Spills<U> {
    pub(super) fn new(groups: usize) -> Self {
        let lists = (0..groups).map(|_| CachePadded::new(Mutex::new(Vec::new())));
        Self {
            lists: lists.collect(),
            spilling: GroupSet::new(groups),
        }
    }

    /// Whether `group` has spilled something.
    pub(super) fn has(&self, group: usize) -> bool {
        self.spilling.contains(group)
    }

    /// Whether one of `groups` has spilled something, as far as can be seen without a lock.
    pub(super) fn has_any(&self, groups: &[usize]) -> bool {
        !self.spilling.is_empty() && groups.iter().any(|&group| self.has(group))
    }

    /// Lists `places` in what the thread `by` of `group` has started.
    pub(super) fn add(&self, group: usize, by: usize, invitation: U, places: usize) {
        let mut list = self.lists[group].lock();
        list.push(Spilled {
            by,
            invitation,
            places,
        });
        self.spilling.insert(group);
    }

    /// Takes back what the thread `by` of `group` has spilled, or what is left of it.
    pub(super) fn withdraw(&self, group: usize, by: usize) {
        let mut list = self.lists[group].lock();
        let before = list.len();
        // Dropped below, without the lock: what they refer to may end with them.
        let gone: Vec<_> = list.extract_if(.., |entry| entry.by == by).collect();
        if before > 0 && list.is_empty() {
            self.spilling.remove(group);
        }
        drop(list);
        drop(gone);
    }
}

impl<U: Invite> Spills<U> {
    /// A place in what one of `groups` has spilled, the first of them that has one, and which that is. Entries without
    /// places or work are dropped.
    pub(super) fn take(&self, groups: &[usize]) -> Option<(U, usize)> {
        let spilling = groups.iter().filter(|&&group| self.has(group));
        spilling
            .copied()
            .find_map(|group| Some((self.take_place(group)?, group)))
    }

    fn take_place(&self, group: usize) -> Option<U> {
        let mut list = self.lists[group].lock();
        let gone: Vec<_> = list
            .extract_if(.., |entry| entry.places == 0 || !entry.invitation.is_open())
            .collect();
        let place = list.first_mut().map(|entry| {
            entry.places -= 1;
            entry.invitation.clone()
        });
        if list.is_empty() {
            self.spilling.remove(group);
        }
        drop(list);
        drop(gone);
        place
    }
}
