//! Which threads there are: the workers of each group, and who may stand in for each.

use std::ops::Range;

use chiplet_policy::{LeftHome, Neighbours, StealLevel};
use chiplet_topology::DomainId;

use crate::sync::atomic::{AtomicBool, Ordering};

/// A group as it is asked for.
pub(crate) struct GroupSpec {
    pub(crate) domain: DomainId,
    pub(crate) workers: Range<usize>,
    pub(crate) nearest: Neighbours,
}

/// The workers, numbered first, and their substitutes, in the order of the workers that they stand in for.
pub(crate) struct Crew {
    groups: Box<[Members]>,
    /// The group of each thread.
    group_of: Box<[usize]>,
    workers: usize,
    /// For each worker.
    substitutes: usize,
}

struct Members {
    domain: DomainId,
    workers: Range<usize>,
    substitutes: Range<usize>,
    /// Whether a substitute has ever been started.
    has_substitutes: AtomicBool,
}

impl Crew {
    /// Groups cover the workers `0..n` in order.
    pub(super) fn new(specs: &[GroupSpec], substitutes: usize) -> Self {
        let workers = specs.iter().map(|spec| spec.workers.len()).sum();
        let members = specs.iter().map(|spec| Members {
            domain: spec.domain,
            workers: spec.workers.clone(),
            substitutes: workers + spec.workers.start * substitutes
                ..workers + spec.workers.end * substitutes,
            has_substitutes: AtomicBool::new(false),
        });
        let sizes = specs.iter().map(|spec| spec.workers.len()).enumerate();
        let own = sizes
            .clone()
            .flat_map(|(group, size)| std::iter::repeat_n(group, size));
        let stand_ins =
            sizes.flat_map(|(group, size)| std::iter::repeat_n(group, size * substitutes));
        Self {
            groups: members.collect(),
            group_of: own.chain(stand_ins).collect(),
            workers,
            substitutes,
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Workers and substitutes, started or not.
    pub(crate) fn threads(&self) -> usize {
        self.group_of.len()
    }

    pub(crate) fn domain_of(&self, group: usize) -> DomainId {
        self.groups[group].domain
    }

    pub(crate) fn group_of(&self, thread: usize) -> usize {
        self.group_of[thread]
    }

    /// The worker for which `thread` takes tasks: for itself, or as a substitute.
    pub(crate) fn stands_in_for(&self, thread: usize) -> usize {
        match thread.checked_sub(self.workers) {
            None => thread,
            Some(substitute) => substitute / self.substitutes,
        }
    }

    pub(super) fn workers_of(&self, group: usize) -> Range<usize> {
        self.groups[group].workers.clone()
    }

    /// All substitutes of `group`'s workers, started or not.
    pub(super) fn substitutes_of(&self, group: usize) -> Range<usize> {
        self.groups[group].substitutes.clone()
    }

    /// The workers of `group`, and their substitutes once there are any.
    pub(super) fn threads_of(&self, group: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let group = &self.groups[group];
        let substitutes = match group.has_substitutes.load(Ordering::Acquire) {
            true => group.substitutes.clone(),
            false => 0..0,
        };
        group.workers.clone().chain(substitutes)
    }

    /// A substitute of `group` is about to start. Called under the group's lock.
    pub(super) fn note_substitute(&self, group: usize) {
        let has_substitutes = &self.groups[group].has_substitutes;
        has_substitutes.store(true, Ordering::Release);
    }

    /// The threads that may fill the same place as `thread`, itself among them.
    pub(super) fn post(&self, thread: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let worker = self.stands_in_for(thread);
        let first = self.workers + worker * self.substitutes;
        std::iter::once(worker).chain(first..first + self.substitutes)
    }

    /// How far work goes from a group's queue or workers to a worker of `own`, which steals it for that reason.
    pub(super) fn level(&self, own: usize, from: usize, why: LeftHome) -> StealLevel {
        if self.groups[from].domain == self.groups[own].domain {
            StealLevel::Domain
        } else {
            StealLevel::Away(why)
        }
    }
}
