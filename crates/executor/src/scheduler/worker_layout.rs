//! Which threads there are: the workers of each group, and who may stand in for each.

use std::ops::Range;

use chiplet_policy::{Neighbours, neighbours};
use chiplet_topology::{DomainId, Topology};

/// A group as it is asked for.
pub(crate) struct GroupSpec {
    pub(crate) domain: DomainId,
    pub(crate) workers: Range<usize>,
    pub(crate) nearest: Neighbours,
}

impl GroupSpec {
    /// Of each of these domains of `machine`, which have so many workers.
    pub(crate) fn all(machine: &Topology, domains: &[(DomainId, usize)]) -> Vec<Self> {
        let ids: Vec<DomainId> = domains.iter().map(|&(domain, _)| domain).collect();
        let mut next = 0;
        let specs = domains.iter().zip(neighbours(machine, &ids));
        let specs = specs.map(|(&(domain, workers), nearest)| {
            let first = next;
            next += workers;
            Self {
                domain,
                workers: first..next,
                nearest,
            }
        });
        specs.collect()
    }
}

/// The workers, numbered first, and then as often as each may have a substitute one for every worker, in their order.
pub(crate) struct WorkerLayout {
    /// The domain and the workers of each group.
    groups: Box<[(DomainId, Range<usize>)]>,
    workers: usize,
    /// For each worker.
    substitutes: usize,
}

impl WorkerLayout {
    /// Groups cover the workers `0..n` in order.
    pub(super) fn new(specs: &[GroupSpec], substitutes: usize) -> Self {
        let groups = specs.iter().map(|spec| (spec.domain, spec.workers.clone()));
        Self {
            groups: groups.collect(),
            workers: specs.iter().map(|spec| spec.workers.len()).sum(),
            substitutes,
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Workers and substitutes, started or not.
    pub(crate) fn threads(&self) -> usize {
        self.workers * (1 + self.substitutes)
    }

    pub(crate) fn domain_of(&self, group: usize) -> DomainId {
        self.groups[group].0
    }

    pub(crate) fn group_of(&self, thread: usize) -> usize {
        let worker = self.stands_in_for(thread);
        self.groups
            .partition_point(|(_, workers)| workers.end <= worker)
    }

    /// The worker for which `thread` takes tasks: for itself, or as a substitute.
    pub(crate) fn stands_in_for(&self, thread: usize) -> usize {
        thread % self.workers
    }

    pub(super) fn workers_of(&self, group: usize) -> Range<usize> {
        self.groups[group].1.clone()
    }

    /// The threads that may fill the same place as `thread`, itself among them.
    pub(super) fn slot(&self, thread: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        (self.stands_in_for(thread)..self.threads()).step_by(self.workers)
    }
}
