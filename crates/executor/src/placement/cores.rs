//! Which cores of a machine get a worker.

use std::cmp::Reverse;

use chiplet_topology::pin::{self, Pin};
use chiplet_topology::{Core, Domain, DomainId, Topology};

use crate::error::BuildError;

/// A domain's share of the workers.
#[derive(Clone, Debug)]
pub(crate) struct DomainCores {
    pub(crate) id: DomainId,
    /// One worker each.
    pub(crate) cores: Vec<Core>,
    /// Processors its workers may float over: all of the domain's but those of reserved cores.
    pub(crate) cpus: Vec<u32>,
}

/// Of the cpus that are `usable`, leaves `reserve` cores free, then takes as many workers as the container's CPU quota
/// and `max_workers` allow, on domains that are `open` to workers. Domains without workers are left out.
///
/// *A quota* packs them into the fewest domains that hold them. It takes time away and no cores, so the kernel would
/// let four workers run on four CCDs. But each would be a domain of one: its queue has nobody else to serve it, its
/// queries cannot be split, and to help another costs a cold cache. Of domains of equal size those near the calling
/// thread are taken: where many containers share a machine, the kernel has put them on different ones.
///
/// *`max_workers`* takes away what goes from the largest domain, one core at a time, so that domains stay as even as
/// they can: whoever sets it has the machine, and each worker then has the largest share of a cache. So does the
/// reserve.
pub(crate) fn choose(
    topology: &Topology,
    usable: impl Fn(u32) -> bool,
    open: impl Fn(DomainId) -> bool,
    reserve: usize,
    max_workers: Option<usize>,
) -> Result<Vec<DomainCores>, BuildError> {
    let usable_part = |core: &Core| {
        let mut core = core.clone();
        core.cpus.retain(|&cpu| usable(cpu));
        (!core.cpus.is_empty()).then_some(core)
    };
    let domains = topology.domains().iter().map(|domain| DomainCores {
        id: domain.id,
        cores: domain.cores.iter().filter_map(usable_part).collect(),
        cpus: Vec::new(),
    });
    let mut plan: Vec<DomainCores> = domains.collect();
    let cores = count(&plan);
    if reserve >= cores {
        return Err(BuildError::NoCores {
            cores,
            reserved: reserve,
        });
    }
    for _ in 0..reserve {
        drop_one(&mut plan);
    }
    plan.retain(|domain| !domain.cores.is_empty() && open(domain.id));
    for domain in &mut plan {
        let cpus = domain.cores.iter().flat_map(|core| &core.cpus);
        domain.cpus = cpus.copied().collect();
        domain.cpus.sort_unstable();
    }
    let limit = topology.worker_limit();
    if count(&plan) > limit {
        pack(&mut plan, limit, topology);
    }
    let limit = limit.min(max_workers.unwrap_or(usize::MAX)).max(1);
    while count(&plan) > limit {
        drop_one(&mut plan);
    }
    plan.retain(|domain| !domain.cores.is_empty());
    Ok(plan)
}

/// How tightly workers are tied unless the user says. Under a quota that packs them, others that share the machine may
/// be packed into the same domain while the next is idle. Who runs where is known to the kernel alone.
pub(crate) fn usual_pin(topology: &Topology, reserve: usize) -> Pin {
    let has_quota = topology.worker_limit() < topology.core_count();
    // Without the user's own bound on workers, which is no reason.
    let packed = || choose(topology, |_| true, |_| true, reserve, None);
    match has_quota && packed().is_ok_and(|plan| plan.len() < topology.domains().len()) {
        true => Pin::None,
        false => Pin::Domain,
    }
}

fn count(plan: &[DomainCores]) -> usize {
    plan.iter().map(|domain| domain.cores.len()).sum()
}

/// Leaves the fewest domains that have `workers` cores together, in order of their ids.
fn pack(plan: &mut Vec<DomainCores>, workers: usize, topology: &Topology) {
    let here = here(topology);
    plan.sort_by_key(|domain| {
        let distance = here.map(|here| topology.distance(here, domain.id));
        (Reverse(domain.cores.len()), distance, domain.id)
    });
    let mut held = 0;
    plan.retain(|domain| {
        let needed = held < workers;
        held += domain.cores.len();
        needed
    });
    plan.sort_by_key(|domain| domain.id);
}

/// The domain that the calling thread is on, if this is its machine.
fn here(topology: &Topology) -> Option<DomainId> {
    let cpu = pin::current_cpu().filter(|_| topology.is_this_machine())?;
    let holds = |domain: &&Domain| domain.cores.iter().any(|core| core.cpus.contains(&cpu));
    Some(topology.domains().iter().find(holds)?.id)
}

fn drop_one(plan: &mut [DomainCores]) {
    let largest = plan.iter_mut();
    let largest = largest.max_by_key(|domain| (domain.cores.len(), domain.id));
    largest.and_then(|domain| domain.cores.pop());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(plan: &[DomainCores]) -> Vec<usize> {
        plan.iter().map(|domain| domain.cores.len()).collect()
    }

    #[test]
    fn reserved_cores_come_from_the_largest_domains_and_nobody_is_pinned_to_them() {
        let machine = Topology::uniform(3, 4, 32 << 20);
        let plan = choose(&machine, |_| true, |_| true, 2, None).unwrap();
        assert_eq!(sizes(&plan), [4, 3, 3]);
        assert_eq!(plan[2].cpus, [8, 9, 10]);
    }

    #[test]
    fn a_bound_on_workers_keeps_domains_even_and_lets_them_float_over_the_whole_domain() {
        let machine = Topology::uniform(4, 8, 32 << 20);
        let plan = choose(&machine, |_| true, |_| true, 0, Some(6)).unwrap();
        assert_eq!(sizes(&plan), [2, 2, 1, 1]);
        assert_eq!(plan[3].cpus.len(), 8);
    }

    /// Twelve CCDs of eight cores under a quota.
    fn under(milli_cpus: u32) -> Topology {
        let mut machine = Topology::builder().quota(milli_cpus);
        for _ in 0..12 {
            machine = machine.domain(32 << 20, 8);
        }
        machine.build().unwrap()
    }

    #[test]
    fn a_quota_packs_workers_into_the_fewest_domains() {
        let chosen = |milli_cpus, max_workers| {
            let plan = choose(&under(milli_cpus), |_| true, |_| true, 0, max_workers).unwrap();
            sizes(&plan)
        };
        assert_eq!(chosen(4_000, None), [4]);
        assert_eq!(chosen(8_000, None), [8]);
        assert_eq!(chosen(12_500, None), [6, 6], "as even as two can be");
        assert_eq!(chosen(94_000, None).len(), 12);
        assert_eq!(
            chosen(200_000, None),
            [8; 12],
            "a quota that takes nothing away"
        );
        assert_eq!(
            chosen(12_000, Some(4)),
            [2, 2],
            "a bound spreads over what the quota left"
        );
        assert_eq!(chosen(4_000, Some(64)), [4]);
    }

    #[test]
    fn workers_that_a_quota_packs_into_some_domains_are_left_to_the_kernel() {
        assert_eq!(usual_pin(&under(4_000), 0), Pin::None);
        assert_eq!(usual_pin(&under(40_000), 3), Pin::None);
        // The quota leaves all domains their workers.
        assert_eq!(usual_pin(&under(95_000), 0), Pin::Domain);
        assert_eq!(usual_pin(&Topology::uniform(12, 8, 1), 0), Pin::Domain);
        let one = Topology::builder().quota(2_000).domain(32 << 20, 8);
        assert_eq!(usual_pin(&one.build().unwrap(), 0), Pin::Domain);
    }

    #[test]
    fn packed_workers_float_over_their_whole_domain_and_off_the_reserve() {
        let plan = choose(&under(4_000), |_| true, |_| true, 0, None).unwrap();
        assert_eq!((plan[0].id, plan[0].cpus.len()), (DomainId(0), 8));
        // The reserve is taken from domains that get no worker.
        let plan = choose(&under(8_000), |_| true, |_| true, 3, None).unwrap();
        assert_eq!((sizes(&plan), plan[0].cpus.len()), (vec![8], 8));
    }

    #[test]
    fn large_domains_are_packed_first_and_closed_ones_not_at_all() {
        let machine = Topology::builder().quota(10_000);
        let sizes_of = [4, 8, 4, 8];
        let machine = sizes_of
            .into_iter()
            .fold(machine, |m, cores| m.domain(1, cores));
        let machine = machine.build().unwrap();
        let ids = |open: fn(DomainId) -> bool| {
            let plan = choose(&machine, |_| true, open, 0, None).unwrap();
            plan.iter().map(|domain| domain.id.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(|_| true), [1, 3]);
        assert_eq!(ids(|id| id.0 != 3), [0, 1]);
    }

    #[test]
    fn cpus_that_may_not_be_used_take_their_cores_and_domains_away() {
        let machine = Topology::builder()
            .smt(2)
            .domain(32 << 20, 2)
            .domain(32 << 20, 2)
            .build()
            .unwrap();
        let [first, second] = machine.domains() else {
            panic!("two domains");
        };
        let left = [
            first.cores[1].cpus[0],
            first.cores[0].cpus[0],
            first.cores[0].cpus[1],
        ];
        let plan = choose(&machine, |cpu| left.contains(&cpu), |_| true, 0, None).unwrap();
        assert_eq!(sizes(&plan), [2]);
        assert_eq!(plan[0].cores[1].cpus, [first.cores[1].cpus[0]]);
        let plan = choose(
            &machine,
            |cpu| second.cpus().contains(&cpu),
            |_| true,
            0,
            None,
        )
        .unwrap();
        assert_eq!(plan[0].id, second.id);
    }

    #[test]
    fn reserving_every_core_is_refused_with_the_numbers() {
        let machine = Topology::uniform(1, 2, 0);
        let error = choose(&machine, |_| true, |_| true, 2, None).unwrap_err();
        assert!(error.to_string().contains("2 of 2"), "{error}");
    }
}
