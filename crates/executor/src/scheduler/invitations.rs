//! Invitations: what a worker has started and has more of than it can do soon, for others to take part in.
//!
//! The scheduler does not know what is shared out. An invitation is listed with the group of the worker that gave it
//! out, for as many as there are places, and whoever takes a place joins there. It lapses when nothing is left to join,
//! and is dropped then by whoever finds it.
//!
//! There are two such lists. A group's own workers look at the first, whatever is shared out. The second has what other
//! groups' workers may take part in, if theirs can spare them: units of tables that no cache keeps. They may not look
//! there for long, so whoever lists something there takes back what is left of it, and nothing there refers to a query
//! that has ended.

use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// An invitation, as the scheduler sees it.
pub(crate) trait Invite: Clone {
    /// Whether something is left for one more worker.
    fn is_open(&self) -> bool;
}

/// What the workers of each group let others take part in.
pub(super) struct Invitations<U>(Box<[List<U>]>);

struct List<U> {
    entries: CachePadded<Mutex<Vec<Entry<U>>>>,
    /// How many there are. Written when something is shared out, not with every task.
    count: CachePadded<AtomicUsize>,
}

/// What a worker has started, and for how many more it has work.
struct Entry<U> {
    by: usize,
    invitation: U,
    places: usize,
}

impl<U> Invitations<U> {
    pub(super) fn new(groups: usize) -> Self {
        let list = |_| List {
            entries: CachePadded::new(Mutex::default()),
            count: CachePadded::new(AtomicUsize::new(0)),
        };
        Self((0..groups).map(list).collect())
    }

    /// Whether `group` has given out any, lapsed ones included. Without a lock: whoever sleeps or calls says by what it
    /// sees the others' last step.
    #[inline]
    pub(super) fn may_be_in(&self, group: usize) -> bool {
        self.0[group].count.load(Ordering::Relaxed) > 0
    }

    /// Lists `places` in what the thread `by` of `group` has started.
    pub(super) fn add(&self, group: usize, by: usize, invitation: U, places: usize) {
        let entry = Entry {
            by,
            invitation,
            places,
        };
        self.change(group, |entries| entries.push(entry));
    }

    /// Takes back what the thread `by` of `group` has listed, or what is left of it.
    pub(super) fn withdraw(&self, group: usize, by: usize) {
        // Dropped without the lock: what they refer to may end with them.
        let of_it = |entry: &mut Entry<U>| entry.by == by;
        let gone: Vec<_> = self.change(group, |entries| entries.extract_if(.., of_it).collect());
        drop(gone);
    }

    fn change<R>(&self, group: usize, with: impl FnOnce(&mut Vec<Entry<U>>) -> R) -> R {
        let list = &self.0[group];
        let mut entries = list.entries.lock();
        let result = with(&mut entries);
        list.count.store(entries.len(), Ordering::Relaxed);
        result
    }
}

impl<U: Invite> Invitations<U> {
    /// A place in what `group` has listed, of one entry after the other. What has lapsed before it is dropped.
    pub(super) fn take(&self, group: usize) -> Option<U> {
        loop {
            let first = self.change(group, |entries| {
                let entry = entries.first_mut()?;
                if !entry.invitation.is_open() {
                    return Some(Err(entries.remove(0)));
                }
                let place = entry.invitation.clone();
                entry.places -= 1;
                match entry.places {
                    0 => drop(entries.remove(0)),
                    _ => entries.rotate_left(1),
                }
                Some(Ok(place))
            });
            match first? {
                Ok(place) => return Some(place),
                // Without the lock, as in `withdraw`.
                Err(lapsed) => drop(lapsed),
            }
        }
    }
}
