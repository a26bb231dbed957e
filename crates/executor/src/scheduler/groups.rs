//! The groups, each under a lock, and what they see of each other without one.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::group::{Group, Next, PublishedLoads};
use chiplet_policy::queue::{Intake, Pace};
use chiplet_policy::{Neighbours, TableId};
use chiplet_table::Class;
use crossbeam_utils::CachePadded;

use super::FreeCores;
use super::parkers::Parkers;
use super::published::{GroupSet, Published};
use super::worker_layout::GroupSpec;
use crate::counts::TABLES_AT_ONCE;
use crate::sync::{Mutex, MutexGuard};

/// All groups. `T` is a task.
pub(crate) struct Groups<T> {
    list: Box<[Cell<T>]>,
    cores: Arc<FreeCores>,
    /// Groups with a worker to spare.
    spare: GroupSet,
    /// Groups whose queue is worth crossing for.
    pub(super) overloaded: GroupSet,
}

struct Cell<T> {
    nearest: Neighbours,
    state: CachePadded<Mutex<Group<T>>>,
    published: CachePadded<Published>,
}

impl<T> Groups<T> {
    pub(super) fn new(
        groups: impl Iterator<Item = (GroupSpec, Group<T>)>,
        cores: &Arc<FreeCores>,
    ) -> Self {
        let list: Box<[Cell<T>]> = groups
            .map(|(spec, group)| Cell {
                nearest: spec.nearest,
                state: CachePadded::new(Mutex::new(group)),
                published: CachePadded::new(Published::new(spec.workers.len() as u32)),
            })
            .collect();
        Self {
            spare: GroupSet::new(list.len()),
            overloaded: GroupSet::new(list.len()),
            list,
            cores: Arc::clone(cores),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// A group under its lock. For what others don't see; [`Groups::hold`] shows them what has changed.
    #[inline]
    pub(crate) fn lock(&self, group: usize) -> MutexGuard<'_, Group<T>> {
        self.list[group].state.lock()
    }

    /// A group under its lock. What changes of it is shown to others; if its queue becomes empty, `parkers` are told.
    #[inline]
    pub(super) fn hold<'a>(&'a self, group: usize, parkers: &'a Parkers) -> Held<'a, T> {
        let state = self.lock(group);
        Held {
            groups: self,
            parkers,
            group,
            before: shown(&state),
            state,
        }
    }

    /// Shows what has changed of a group under its lock, of which `before` was [shown] so far. [`Held`] does it by
    /// itself; what is done for every task is quicker without that.
    #[inline(always)]
    pub(super) fn show(
        &self,
        group: usize,
        parkers: &Parkers,
        before: (usize, usize),
        state: &mut Group<T>,
    ) {
        let (asleep, queued) = shown(state);
        if asleep != before.0 {
            self.cores.note_asleep(before.0, asleep);
        }
        if queued != before.1 {
            self.list[group].published.show_queued(queued as u32);
        }
        if self.count() > 1 {
            self.show_load(group, parkers, state);
        }
    }

    /// Shows what other groups are to see.
    #[inline(never)]
    fn show_load(&self, group: usize, parkers: &Parkers, state: &mut Group<T>) {
        let unpublished = state.unpublished();
        if unpublished.tasks {
            self.list[group]
                .published
                .show_tasks(state.published_load());
            if state.is_drained() {
                // Those who have stayed for what waited here go home.
                parkers.unpark_all();
            }
        }
        // Not written unless they change: their cache lines are read with every task, by clients and workers.
        if !(unpublished.overloaded || unpublished.spare) {
            return;
        }
        let load = state.published_load();
        for (changed, set, is_in) in [
            (unpublished.overloaded, &self.overloaded, load.overloaded),
            (unpublished.spare, &self.spare, load.spare),
        ] {
            match is_in {
                _ if !changed => {}
                true => set.insert(group),
                false => set.remove(group),
            }
        }
    }

    /// What the queue of `group` has counted of each table, with how many of its queries wait. It is read in steps, and
    /// whoever wants the queue waits for one of these at most.
    pub(crate) fn intake(&self, group: usize) -> Vec<(TableId, Intake, u64)> {
        let mut all = Vec::new();
        let mut some = Vec::with_capacity(TABLES_AT_ONCE);
        let mut at = Some(0);
        while let Some(from) = at {
            at = self
                .lock(group)
                .queue
                .intake_part(from, TABLES_AT_ONCE, &mut some);
            all.append(&mut some);
        }
        all
    }

    /// Whether any group has a worker to spare.
    pub(super) fn is_any_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Workers at work in all groups together.
    pub(crate) fn at_work(&self) -> usize {
        (0..self.count()).map(|group| self.at_work_in(group)).sum()
    }

    /// Shows how many workers of `group` are at work. Called under its lock.
    pub(super) fn show_at_work(&self, group: usize, workers: usize) {
        self.list[group].published.set_at_work(workers);
    }
}

/// How many workers of a group sleep, and how many tasks wait.
#[inline(always)]
pub(super) fn shown<T>(state: &Group<T>) -> (usize, usize) {
    (state.asleep(), state.queue.len())
}

/// A group under its lock. What has changed of it for others is shown before the lock is released.
pub(super) struct Held<'a, T> {
    groups: &'a Groups<T>,
    parkers: &'a Parkers,
    group: usize,
    before: (usize, usize),
    state: MutexGuard<'a, Group<T>>,
}

impl<T> Held<'_, T> {
    /// Shows what has changed, without releasing the lock.
    pub(super) fn show(&mut self) {
        self.groups
            .show(self.group, self.parkers, self.before, &mut self.state);
        self.before = shown(&self.state);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = Group<T>;

    fn deref(&self) -> &Group<T> {
        &self.state
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut Group<T> {
        &mut self.state
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.show();
    }
}

impl<T> PublishedLoads for Groups<T> {
    fn queued(&self, group: usize) -> u32 {
        self.list[group].published.queued()
    }

    fn work(&self, group: usize, class: Class, pace: Pace) -> u64 {
        self.list[group].published.work(class, pace)
    }

    fn at_work_in(&self, group: usize) -> usize {
        self.list[group].published.at_work()
    }

    fn price(&self, group: usize) -> Duration {
        self.list[group].published.price()
    }

    fn next(&self, group: usize) -> Option<Next> {
        self.list[group].published.next()
    }

    fn is_overloaded(&self, group: usize) -> bool {
        self.overloaded.contains(group)
    }

    fn is_any_overloaded(&self) -> bool {
        !self.overloaded.is_empty()
    }

    fn is_spare(&self, group: usize) -> bool {
        self.spare.contains(group)
    }

    fn groups(&self) -> usize {
        self.count()
    }

    fn nearest(&self, group: usize) -> &Neighbours {
        &self.list[group].nearest
    }
}
