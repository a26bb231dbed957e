//! What holds of every machine that was read, whatever it was read from.

use chiplet_topology::{Restriction, Topology, TopologyError};
use std::collections::BTreeSet;

/// Panics unless the machine is what the crate promises, and stays so with fewer and fewer cpus.
pub fn machine(machine: &Topology) {
    promises(machine);
    let cpus: Vec<u32> = cpus_of(machine).into_iter().collect();
    let every_other: Vec<u32> = cpus.iter().copied().step_by(2).collect();
    let last = cpus.len() - 1;
    for kept in [&every_other[..], &cpus[1..], &cpus[last..], &[u32::MAX]] {
        restriction(machine, kept);
    }
}

/// Panics unless `machine` restricted to `allowed` is exactly the cpus of both.
pub fn restriction(machine: &Topology, allowed: &[u32]) {
    let expected: BTreeSet<u32> = cpus_of(machine)
        .intersection(&allowed.iter().copied().collect())
        .copied()
        .collect();
    match machine.restricted_to(allowed) {
        Ok(restricted) => {
            assert_eq!(cpus_of(&restricted), expected);
            promises(&restricted);
        }
        Err(error) => {
            assert!(matches!(error, TopologyError::NothingLeft { .. }));
            assert_eq!(expected, BTreeSet::new(), "{error}");
        }
    }
}

/// Panics unless each of `cpus` is either in the machine or told to be taken away, and no other is.
pub fn accounts_for(machine: &Topology, cpus: impl IntoIterator<Item = u32>) {
    let mut told = cpus_of(machine);
    told.extend(taken(machine));
    assert_eq!(told, cpus.into_iter().collect());
}

/// The cpus that may be used.
pub fn cpus_of(machine: &Topology) -> BTreeSet<u32> {
    let domains = machine.domains().iter();
    domains.flat_map(|domain| domain.cpus()).collect()
}

fn taken(machine: &Topology) -> BTreeSet<u32> {
    let lists = machine.restrictions().iter().map(|restriction| {
        match restriction {
            Restriction::Offline(cpus)
            | Restriction::Cpuset(cpus)
            | Restriction::Affinity(cpus)
            | Restriction::Caller(cpus) => cpus.clone(),
            // A quota takes time away, not cpus.
            _ => Vec::new(),
        }
    });
    lists.flatten().collect()
}

/// The invariants in the documentation of `Topology`, and that it can be described.
fn promises(machine: &Topology) {
    let mut seen = BTreeSet::new();
    assert!(!machine.domains().is_empty());
    for (id, domain) in machine.domains().iter().enumerate() {
        assert_eq!(domain.id.0 as usize, id);
        assert!(!domain.cores.is_empty(), "domain {id} is empty");
        for core in &domain.cores {
            assert!(
                !core.cpus.is_empty(),
                "a core of domain {id} is without cpus"
            );
            assert!(core.cpus.is_sorted_by(|a, b| a < b), "{core:?}");
            for &cpu in &core.cpus {
                assert!(seen.insert(cpu), "cpu {cpu} is there twice");
            }
        }
        let ascending = domain.cores.is_sorted_by(|a, b| a.cpus[0] < b.cpus[0]);
        assert!(ascending, "the cores of domain {id} do not ascend");
        assert!(domain.cpus().is_sorted_by(|a, b| a < b));
    }
    assert!(seen.last() <= Some(&65_535));
    assert!(taken(machine).is_disjoint(&seen), "a cpu was taken away");
    assert_eq!(machine.cpu_count(), seen.len());
    assert!((1..=machine.core_count()).contains(&machine.worker_limit()));

    // A few are enough: with thousands of domains all pairs would be the whole time of a run.
    for domain in machine.domains().iter().take(8) {
        let order: Vec<_> = machine.nearest(domain.id).collect();
        let others: BTreeSet<_> = order.iter().copied().collect();
        assert_eq!(others.len(), machine.domains().len() - 1);
        assert_eq!(order.len(), others.len());
        assert!(!others.contains(&domain.id));
        let far = |other| machine.distance(domain.id, other);
        assert!(order.is_sorted_by_key(|&other| far(other)));
    }

    let text = machine.to_string();
    assert!(text.ends_with('\n') && text.contains("workers: at most"));
}
