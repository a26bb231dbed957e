//! Promises that hold for every machine and every restriction.

use crate::checks;
use chiplet_topology::{DomainId, Topology, TopologyBuilder, TopologyError};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Machines of unequal domains on several packages, nodes and dies, with gaps in the cpu numbers.
fn machines() -> impl Strategy<Value = Topology> {
    let domain = (0..4u8, 1..6u32, 1..3u32, 0..5u32);
    prop::collection::vec(domain, 1..10).prop_map(|domains| {
        let begin: [fn(TopologyBuilder) -> TopologyBuilder; 4] = [
            |b| b,
            TopologyBuilder::die,
            TopologyBuilder::node,
            TopologyBuilder::package,
        ];
        let (mut builder, mut cpu) = (Topology::builder(), 0);
        for (kind, cores, smt, gap) in domains {
            cpu += gap;
            let first = cpu;
            cpu += cores * smt;
            let cpus = |core| {
                (0..smt)
                    .map(|thread| first + core + thread * cores)
                    .collect::<Vec<_>>()
            };
            builder = begin[kind as usize](builder).domain_of(32 << 20, (0..cores).map(cpus));
        }
        builder.build().expect("numbers only grow")
    })
}

fn all_cpus(machine: &Topology) -> Vec<u32> {
    machine
        .domains()
        .iter()
        .flat_map(|domain| domain.cpus())
        .collect()
}

proptest! {
    /// Also where the restricted machine is restricted again, as one shared between executors is.
    #[test]
    fn no_chain_of_restrictions_yields_a_cpu_outside_any_of_them(
        machine in machines(),
        chain in prop::collection::vec(prop::collection::btree_set(0..150_u32, 40..150), 1..4),
    ) {
        checks::machine(&machine);
        let all = checks::cpus_of(&machine);
        let mut machine = machine;
        for allowed in chain {
            let allowed: Vec<u32> = allowed.into_iter().collect();
            checks::restriction(&machine, &allowed);
            let Ok(restricted) = machine.restricted_to(&allowed) else { break };
            prop_assert!(checks::cpus_of(&restricted).iter().all(|cpu| allowed.contains(cpu)));
            machine = restricted;
            checks::accounts_for(&machine, all.iter().copied());
        }
    }

    #[test]
    fn restriction_keeps_exactly_the_allowed_cpus_each_in_one_core(
        machine in machines(),
        allowed in prop::collection::btree_set(0..150u32, 0..60),
    ) {
        let present: BTreeSet<u32> = all_cpus(&machine).into_iter().collect();
        let expected: Vec<u32> = present.intersection(&allowed).copied().collect();
        let cpus: Vec<u32> = allowed.iter().copied().collect();
        match machine.restricted_to(&cpus) {
            Err(error) => {
                let nothing_left = matches!(error, TopologyError::NothingLeft { .. });
                prop_assert!(nothing_left);
                prop_assert!(expected.is_empty());
            }
            Ok(restricted) => {
                let mut left = all_cpus(&restricted);
                left.sort_unstable();
                // Equal as lists: no cpu is lost, none is there twice.
                prop_assert_eq!(left, expected);
                prop_assert!(restricted.domains().iter().all(|domain| !domain.cores.is_empty()));
                prop_assert!(restricted.domains().iter().flat_map(|d| &d.cores).all(|core| !core.cpus.is_empty()));
                let ids: Vec<u32> = restricted.domains().iter().map(|domain| domain.id.0).collect();
                prop_assert_eq!(ids, (0..restricted.domains().len() as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn distance_is_symmetric_and_neighbours_are_all_others_in_its_order(machine in machines()) {
        for a in machine.domains() {
            let order: Vec<_> = machine.nearest(a.id).collect();
            prop_assert_eq!(order.len(), machine.domains().len() - 1);
            prop_assert!(!order.contains(&a.id));
            let keys: Vec<_> = order.iter().map(|&b| (machine.distance(a.id, b), b)).collect();
            prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(order.iter().all(|&b| machine.distance(a.id, b) == machine.distance(b, a.id)));
        }
    }

    #[test]
    fn restriction_does_not_move_domains(machine in machines()) {
        let last = machine.domains().last().expect("never empty");
        let first = &machine.domains()[0];
        let mut cpus = first.cpus();
        cpus.extend(last.cpus());
        let restricted = machine.restricted_to(&cpus).expect("cpus are left");
        prop_assert_eq!(
            restricted.distance(restricted.domains()[0].id, restricted.domains().last().expect("never empty").id),
            machine.distance(first.id, last.id)
        );
    }
}

#[test]
fn a_made_up_machine_with_a_mistake_is_refused() {
    let mistakes = [
        Topology::builder(),
        Topology::builder().domain(1, 0),
        Topology::builder().smt(0).domain(1, 1),
        Topology::builder().domain(1, 2).domain_of(1, [vec![1]]),
        Topology::builder().domain_of(1, [vec![u32::MAX]]),
    ];
    for builder in mistakes {
        assert!(matches!(builder.build(), Err(TopologyError::MadeUp(_))));
    }
}

/// All neighbours of all domains would be 17 GB of numbers.
#[test]
fn a_machine_of_as_many_domains_as_cpus_is_described_at_once() {
    let machine = Topology::uniform(65_536, 1, 1 << 20);
    assert_eq!(machine.nearest(DomainId(65_535)).count(), 65_535);
    assert!(machine.to_string().contains("cpus 65535"));
}

#[test]
fn a_quota_caps_the_workers_of_a_made_up_machine() {
    let machine = Topology::builder()
        .domain(1 << 20, 8)
        .quota(2500)
        .build()
        .unwrap();
    assert_eq!((machine.worker_limit(), machine.core_count()), (2, 8));
}

#[test]
fn the_description_tells_domains_neighbours_and_what_was_taken() {
    let machine = Topology::builder()
        .smt(2)
        .die()
        .domain(16 << 20, 4)
        .domain(16 << 20, 4)
        .package()
        .domain(32 << 20, 8);
    let text = machine
        .quota(3000)
        .build()
        .unwrap()
        .restricted_to(&(1..32).collect::<Vec<_>>())
        .unwrap()
        .to_string();
    for part in [
        "3 domains, 16 cores, 31 cpus",
        "package 1, NUMA node 1",
        "16 MiB",
        "cpus 1-7",
        "same die 1; other package 2",
        "left out by the caller: cpus 0",
        "3.00 CPUs",
        "at most 3",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
