//! Which workers are at work and what each is pinned to, as far as the process may use the machine's cpus now.
//!
//! A worker is started for each core at the beginning and never ends before the executor. When cpus go offline, the
//! cgroup's cpuset narrows, or the caller restricts the executor, the workers of cores that are gone stand by and the
//! others are pinned anew; when cpus come back, so do their workers. What the balancer does with that is in
//! `balancer.rs`.

use std::sync::Arc;

use chiplet_policy::DomainSpec;
use chiplet_table::host::contain;
use chiplet_topology::pin::{self, Pin, Thread};
use chiplet_topology::{Core, DomainId, Topology, cpu_ranges};

use super::cores::{self, DomainCores};
use crate::engine::substitutes::Substitutes;
use crate::error::BuildError;

/// A worker, and how it is pinned to the machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its index in the executor.
    pub index: usize,
    /// Its domain.
    pub domain: DomainId,
    /// Whether it takes tasks. A worker whose core may not be used any more stands by until it may.
    pub at_work: bool,
    /// Logical processors that were asked for; empty if it may float.
    pub asked: Vec<u32>,
    /// Logical processors the operating system lets it run on, read back after asking.
    pub granted: Vec<u32>,
    /// Why pinning failed, if it did. The worker serves all the same.
    pub refused: Option<String>,
}

/// One worker's thread, as others see it.
pub(crate) struct PinnedWorker {
    pub(crate) info: WorkerInfo,
    core: Core,
    thread: Option<Thread>,
}

/// What is to change.
pub(crate) struct Orders {
    /// For each worker whether it is at work.
    pub(crate) at_work: Vec<bool>,
    /// Workers at work in each domain that has any workers, in order.
    pub(crate) strength: Vec<u32>,
    /// What each worker is to be pinned to; empty for nothing.
    cpus: Vec<Vec<u32>>,
}

pub(crate) struct Workers {
    topology: Arc<Topology>,
    pin: Pin,
    reserve: usize,
    max_workers: Option<usize>,
    /// By index.
    workers: Vec<PinnedWorker>,
    /// Cpus that the caller lets it use, if not all.
    allowed: Option<Vec<u32>>,
    /// Cpus of the topology that the process may use, when last looked, ascending.
    usable: Vec<u32>,
    notes: Notes,
}

/// What is to be logged once no lock is held: a subscriber is the caller's code, and may ask for a snapshot.
#[derive(Default)]
pub(crate) struct Notes(Vec<Box<dyn FnOnce() + Send>>);

impl Notes {
    fn add(&mut self, note: impl FnOnce() + Send + 'static) {
        self.0.push(Box::new(note));
    }

    pub(crate) fn log(self) {
        for note in self.0 {
            contain(note);
        }
    }
}

fn cpus_for(pin: Pin, domain: &DomainCores, core: &Core) -> Vec<u32> {
    match pin {
        Pin::Domain => domain.cpus.clone(),
        Pin::Core => core.cpus.clone(),
        Pin::None => Vec::new(),
    }
}

impl PinnedWorker {
    /// One for each core of the plan, in order. Its thread is to be pinned to the cpus that are asked for.
    pub(crate) fn all(plan: &[DomainCores], pin: Pin) -> Vec<Self> {
        let cores = plan
            .iter()
            .flat_map(|domain| domain.cores.iter().map(move |core| (domain, core)));
        let worker = |(index, (domain, core)): (usize, (&DomainCores, &Core))| Self {
            info: WorkerInfo {
                index,
                domain: domain.id,
                at_work: true,
                asked: cpus_for(pin, domain, core),
                granted: Vec::new(),
                refused: None,
            },
            core: core.clone(),
            thread: None,
        };
        cores.enumerate().map(worker).collect()
    }

    /// Pins the calling thread, which is the worker's, and keeps what the system granted.
    pub(crate) fn pin_this(mut self) -> Self {
        self.info.granted = pin::current_affinity();
        self.thread = Thread::current();
        let mut notes = Notes::default();
        let cpus = std::mem::take(&mut self.info.asked);
        self.record(cpus, pin::pin_current_thread, &mut notes);
        notes.log();
        self
    }

    /// Asks for `cpus` and keeps what was granted.
    fn record(
        &mut self,
        cpus: Vec<u32>,
        ask: impl FnOnce(&[u32]) -> Result<Vec<u32>, pin::PinError>,
        notes: &mut Notes,
    ) {
        self.info.asked = cpus;
        self.info.refused = None;
        if self.info.asked.is_empty() {
            return;
        }
        match ask(&self.info.asked) {
            Ok(granted) => self.info.granted = granted,
            Err(error) => {
                let worker = self.info.index;
                self.info.refused = Some(error.to_string());
                notes.add(move || {
                    tracing::warn!(worker, %error, "the worker could not be pinned and floats");
                });
            }
        }
    }

    /// Ties the worker's thread, which is another than the calling one.
    fn pin(&mut self, cpus: Vec<u32>, notes: &mut Notes) {
        let Some(thread) = self.thread else { return };
        self.record(cpus, |cpus| thread.pin(cpus), notes);
        if let Some(granted) = thread.affinity() {
            self.info.granted = granted;
        }
    }

    /// Whether somebody has widened what it was pinned to: a kernel that moves threads off a cpu resets their masks.
    fn is_unpinned(&self) -> bool {
        let tied = !self.info.asked.is_empty() && self.info.refused.is_none();
        let now = |thread: Thread| thread.affinity();
        tied && self
            .thread
            .and_then(now)
            .is_some_and(|now| now.iter().any(|cpu| !self.info.granted.contains(cpu)))
    }
}

impl Workers {
    /// None yet. They are to be chosen and pinned so: by `Pin::None` on a machine that is not the running one.
    pub(crate) fn new(
        topology: Arc<Topology>,
        pin: Pin,
        (reserve, max_workers): (usize, Option<usize>),
    ) -> Self {
        let usable = all_cpus(&topology);
        Self {
            topology,
            pin,
            reserve,
            max_workers,
            workers: Vec::new(),
            allowed: None,
            usable,
            notes: Notes::default(),
        }
    }

    /// Has something logged when the lock is free.
    pub(crate) fn note(&mut self, note: impl FnOnce() + Send + 'static) {
        self.notes.add(note);
    }

    pub(crate) fn take_notes(&mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// Takes the workers on, in order of their indices.
    pub(crate) fn add(&mut self, workers: Vec<PinnedWorker>) {
        self.workers = workers;
    }

    pub(crate) fn infos(&self) -> Vec<WorkerInfo> {
        let infos = self.workers.iter().map(|worker| worker.info.clone());
        infos.collect()
    }

    /// The cpus that the executor may use and that no worker at work may run on, ascending; none if such a worker
    /// floats.
    pub(crate) fn free_cpus(&self) -> Vec<u32> {
        let at_work = || self.workers.iter().filter(|worker| worker.info.at_work);
        let floats =
            |worker: &PinnedWorker| worker.info.asked.is_empty() || worker.info.refused.is_some();
        // Under a restriction also those that float are asked to stay on what is left.
        if self.pin == Pin::None || at_work().any(floats) {
            return Vec::new();
        }
        let is_free = |&cpu: &u32| {
            self.may_use(cpu) && !at_work().any(|worker| worker.info.granted.contains(&cpu))
        };
        self.usable.iter().copied().filter(is_free).collect()
    }

    /// Whether the process may use it and the caller lets it.
    fn may_use(&self, cpu: u32) -> bool {
        let allowed = self.allowed.as_ref();
        self.usable.binary_search(&cpu).is_ok()
            && allowed.is_none_or(|allowed| allowed.contains(&cpu))
    }

    /// For each worker whether it is at work.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = bool> + '_ {
        self.workers.iter().map(|worker| worker.info.at_work)
    }

    /// Looks at what the process may use. True if workers are to be ordered anew.
    pub(crate) fn look(&mut self) -> bool {
        if !self.topology.is_this_machine() {
            return false;
        }
        let Some(usable) = chiplet_topology::usable_now() else {
            return false;
        };
        let mut ours = all_cpus(&self.topology);
        ours.retain(|cpu| usable.binary_search(cpu).is_ok());
        let changed = ours != self.usable;
        if changed {
            let (before, now) = (cpu_ranges(&self.usable), cpu_ranges(&ours));
            self.notes.add(move || {
                tracing::warn!(before, now, "the cpus that may be used have changed");
            });
            self.usable = ours;
        }
        changed || self.workers.iter().any(PinnedWorker::is_unpinned)
    }

    /// Lets the executor use no other cpus than these. True if workers are to be ordered anew.
    pub(crate) fn restrict(&mut self, cpus: &[u32]) -> bool {
        let allowed = Some(cpus.to_vec());
        let changed = self.allowed != allowed;
        self.allowed = allowed;
        changed
    }

    /// Who works where with the cpus that are left. If no worker's core is among them, all work, wherever there is a
    /// cpu left: the machine that they were started on is gone.
    pub(crate) fn orders(&mut self) -> Orders {
        let mut orders = Orders {
            at_work: vec![false; self.workers.len()],
            strength: Vec::new(),
            cpus: vec![Vec::new(); self.workers.len()],
        };
        for planned in self.plan().iter().flatten() {
            for (index, core) in self.assign(planned) {
                orders.at_work[index] = true;
                orders.cpus[index] = cpus_for(self.pin, planned, core);
            }
        }
        if !orders.at_work.contains(&true) {
            self.notes.add(|| {
                tracing::warn!(
                    "none of the cpus that the workers were started for is left; they share what there is"
                );
            });
            orders.at_work.fill(true);
        }
        let at_work = |worker: &&PinnedWorker| orders.at_work[worker.info.index];
        let strength = |workers: &[PinnedWorker]| workers.iter().filter(at_work).count() as u32;
        orders.strength = self.domains().map(strength).collect();
        // Whoever has no cpus of its own has to leave those that are gone all the same; one that stands by may still be
        // inside a task.
        let mut refuge = all_cpus(&self.topology);
        refuge.retain(|&cpu| self.may_use(cpu));
        let floats = self.pin == Pin::None;
        if self.topology.is_this_machine() && (!floats || self.allowed.is_some()) {
            for cpus in orders.cpus.iter_mut().filter(|cpus| cpus.is_empty()) {
                cpus.clone_from(&refuge);
            }
        }
        orders
    }

    /// Ties every worker as ordered, and its substitutes with it.
    pub(crate) fn carry_out(&mut self, orders: Orders, substitutes: &Substitutes) {
        let cpus = orders.at_work.into_iter().zip(orders.cpus);
        for (worker, (at_work, cpus)) in self.workers.iter_mut().zip(cpus) {
            worker.info.at_work = at_work;
            for thread in substitutes.of(worker.info.index) {
                if !cpus.is_empty()
                    && let Err(error) = thread.pin(&cpus)
                {
                    let worker = worker.info.index;
                    self.notes.add(move || {
                        tracing::warn!(worker, %error, "a worker's substitute could not be pinned");
                    });
                }
            }
            worker.pin(cpus, &mut self.notes);
        }
    }

    fn plan(&self) -> Result<Vec<DomainCores>, BuildError> {
        let is_left = |core: &&Core| core.cpus.iter().any(|&cpu| self.may_use(cpu));
        let domains = self.topology.domains().iter();
        let cores = domains.flat_map(|domain| &domain.cores);
        let left = cores.filter(is_left).count();
        // Something has to work: the reserve shrinks with what is left.
        let reserve = self.reserve.min(left.saturating_sub(1));
        let has_workers = |domain| self.domains().any(|ours| ours[0].info.domain == domain);
        cores::choose(
            &self.topology,
            |cpu| self.may_use(cpu),
            has_workers,
            reserve,
            self.max_workers,
        )
    }

    /// The workers of each domain that has any, in order.
    fn domains(&self) -> impl Iterator<Item = &[PinnedWorker]> {
        self.workers.chunk_by(|a, b| a.info.domain == b.info.domain)
    }

    /// Who of a domain's workers takes which of its cores: its own if it is left, else one that is free.
    fn assign<'a>(&self, planned: &'a DomainCores) -> Vec<(usize, &'a Core)> {
        let mut free: Vec<&Core> = planned.cores.iter().collect();
        let mut without = Vec::new();
        let mut assigned = Vec::new();
        let its = |worker: &&PinnedWorker| worker.info.domain == planned.id;
        for worker in self.workers.iter().filter(its) {
            let is_its_own =
                |core: &&Core| core.cpus.iter().any(|cpu| worker.core.cpus.contains(cpu));
            match free.iter().position(is_its_own) {
                Some(at) => assigned.push((worker.info.index, free.remove(at))),
                None => without.push(worker.info.index),
            }
        }
        assigned.extend(without.into_iter().zip(free));
        assigned
    }
}

/// All cpus of a machine, ascending.
fn all_cpus(topology: &Topology) -> Vec<u32> {
    let domains = topology.domains().iter();
    let mut cpus: Vec<u32> = domains.flat_map(|domain| domain.cpus()).collect();
    cpus.sort_unstable();
    cpus
}

/// The planner's view of the domains that get workers.
pub(crate) fn specs(plan: &[DomainCores], topology: &Topology) -> Vec<DomainSpec> {
    let spec = |planned: &DomainCores| {
        let domain = &topology.domains()[planned.id.0 as usize];
        DomainSpec::of(domain, planned.cores.len() as u32)
    };
    plan.iter().map(spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_is_told_how_fast_cores_are() {
        let machine = Topology::builder().domain(24 << 20, 4).capacity(0.5);
        let machine = machine.domain(4 << 20, 8).build().unwrap();
        let plan = cores::choose(&machine, |_| true, |_| true, 0, None).unwrap();
        let specs = specs(&plan, &machine);
        let told: Vec<_> = specs.iter().map(|spec| (spec.cores, spec.speed)).collect();
        assert_eq!(told, [(4, 1.0), (8, 0.5)]);
    }

    /// The workers of a machine, as if the system had granted what they ask for.
    fn granted(machine: Topology, pin: Pin, reserve: usize, max_workers: Option<usize>) -> Workers {
        let plan = cores::choose(&machine, |_| true, |_| true, reserve, max_workers).unwrap();
        let mut placed = PinnedWorker::all(&plan, pin);
        for worker in &mut placed {
            worker.info.granted.clone_from(&worker.info.asked);
        }
        let mut workers = Workers::new(Arc::new(machine), pin, (reserve, max_workers));
        workers.add(placed);
        workers
    }

    #[test]
    fn free_are_all_logical_cpus_that_no_worker_is_tied_to() {
        let machine = || {
            let machine = Topology::builder().smt(2);
            machine.domain(1, 4).domain(1, 4).build().unwrap()
        };
        let cpus =
            |domain: usize, core: usize| machine().domains()[domain].cores[core].cpus.clone();
        let free = |pin, reserve, max| granted(machine(), pin, reserve, max).free_cpus();
        assert!(free(Pin::Domain, 0, None).is_empty());
        assert_eq!(free(Pin::Domain, 1, None), cpus(1, 3));
        // Tied to its domain a worker may run on any core of it, tied to its core on no other.
        assert!(free(Pin::Domain, 0, Some(2)).is_empty());
        assert_eq!(free(Pin::Core, 0, Some(2)).len(), 12);
        assert!(free(Pin::None, 1, None).is_empty());
    }

    #[test]
    fn nothing_is_free_while_a_worker_floats_and_what_the_process_may_not_use_never_is() {
        let mut workers = granted(Topology::uniform(1, 4, 1), Pin::Core, 2, None);
        assert_eq!(workers.free_cpus(), [2, 3]);
        workers.usable = vec![0, 1, 3];
        assert_eq!(workers.free_cpus(), [3]);
        workers.workers[1].info.refused = Some("not permitted".to_owned());
        assert!(workers.free_cpus().is_empty());
    }

    #[test]
    fn a_worker_that_stands_by_takes_no_cpu() {
        let mut workers = granted(Topology::uniform(1, 4, 1), Pin::Core, 1, None);
        let idle = &mut workers.workers[1].info;
        // Whatever it was left with.
        (idle.at_work, idle.asked) = (false, Vec::new());
        assert_eq!(workers.free_cpus(), [1, 3]);
    }

    #[test]
    fn nothing_is_free_where_workers_float_within_a_restriction() {
        let mut workers = granted(Topology::uniform(1, 4, 1), Pin::None, 1, None);
        workers.restrict(&[0, 1, 2]);
        for worker in &mut workers.workers {
            worker.info.asked = vec![0, 1];
            worker.info.granted = vec![0, 1];
        }
        assert!(workers.free_cpus().is_empty());
    }

    #[test]
    fn what_the_executor_may_not_use_is_not_called_free() {
        let mut workers = granted(Topology::uniform(1, 4, 1), Pin::Core, 2, None);
        workers.restrict(&[0, 1, 3]);
        assert_eq!(workers.free_cpus(), [3]);
    }
}
