//! Which cores of a machine get a worker.

use chiplet_topology::{Core, DomainId, Topology};

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

/// Of the cpus that are `usable`, leaves `reserve` cores free, then keeps to the container's CPU quota and
/// `max_workers`. What goes, goes from the largest domain, one core at a time, so that domains stay as even as they can:
/// each worker then has the largest share of a cache. Domains without workers are left out.
pub(crate) fn choose(
    topology: &Topology,
    usable: impl Fn(u32) -> bool,
    reserve: usize,
    max_workers: Option<usize>,
) -> Result<Vec<DomainCores>, BuildError> {
    let usable_part = |core: &Core| {
        let cpus: Vec<u32> = core
            .cpus
            .iter()
            .copied()
            .filter(|&cpu| usable(cpu))
            .collect();
        (!cpus.is_empty()).then_some(Core { cpus })
    };
    let mut plan: Vec<DomainCores> = topology
        .domains()
        .iter()
        .map(|domain| DomainCores {
            id: domain.id,
            cores: domain.cores.iter().filter_map(usable_part).collect(),
            cpus: Vec::new(),
        })
        .collect();
    let count = |plan: &[DomainCores]| plan.iter().map(|domain| domain.cores.len()).sum::<usize>();
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
    for domain in &mut plan {
        domain.cpus = domain
            .cores
            .iter()
            .flat_map(|core| core.cpus.iter().copied())
            .collect();
        domain.cpus.sort_unstable();
    }
    let limit = topology
        .worker_limit()
        .min(max_workers.unwrap_or(usize::MAX))
        .max(1);
    while count(&plan) > limit {
        drop_one(&mut plan);
    }
    plan.retain(|domain| !domain.cores.is_empty());
    Ok(plan)
}

fn drop_one(plan: &mut [DomainCores]) {
    if let Some(largest) = plan
        .iter_mut()
        .max_by_key(|domain| (domain.cores.len(), domain.id))
    {
        largest.cores.pop();
    }
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
        let plan = choose(&machine, |_| true, 2, None).unwrap();
        assert_eq!(sizes(&plan), [4, 3, 3]);
        assert_eq!(plan[2].cpus, [8, 9, 10]);
    }

    #[test]
    fn a_bound_on_workers_keeps_domains_even_and_lets_them_float_over_the_whole_domain() {
        let machine = Topology::uniform(4, 8, 32 << 20);
        let plan = choose(&machine, |_| true, 0, Some(6)).unwrap();
        assert_eq!(sizes(&plan), [2, 2, 1, 1]);
        assert_eq!(plan[3].cpus.len(), 8);
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
        let plan = choose(&machine, |cpu| left.contains(&cpu), 0, None).unwrap();
        assert_eq!(sizes(&plan), [2]);
        assert_eq!(plan[0].cores[1].cpus, [first.cores[1].cpus[0]]);
        let plan = choose(&machine, |cpu| second.cpus().contains(&cpu), 0, None).unwrap();
        assert_eq!(plan[0].id, second.id);
    }

    #[test]
    fn reserving_every_core_is_refused_with_the_numbers() {
        let machine = Topology::uniform(1, 2, 0);
        let error = choose(&machine, |_| true, 2, None).unwrap_err();
        assert!(error.to_string().contains("2 of 2"), "{error}");
    }
}
