//! Domains that the user gives in place of detected ones.

use crate::checks;
use chiplet_topology::{
    Distance, DomainId, DomainList, DomainsError, Level, LevelChoice, Restriction, Topology,
    TopologyError,
};
use proptest::prelude::*;

/// Two packages of eight cores under one L3 each; the second cpus of the cores are 16-31.
fn told() -> Topology {
    let cores = |first: u32| (first..first + 8).map(|core| vec![core, core + 16]);
    let builder = Topology::builder().domain_of(32 << 20, cores(0));
    builder
        .package()
        .domain_of(32 << 20, cores(8))
        .build()
        .unwrap()
}

fn refused(machine: &Topology, list: &str) -> DomainsError {
    match machine.with_domains(&list.parse().unwrap()) {
        Err(TopologyError::Domains(error)) => error,
        other => panic!("{list}: {other:?}"),
    }
}

#[test]
fn given_domains_replace_what_was_detected() {
    let list: DomainList = "0-3+16-19,4-7+20-23,8-15+24-31".parse().unwrap();
    let machine = told().with_domains(&list).unwrap();
    checks::machine(&machine);
    assert_eq!(machine.level(), Level::Given);
    let sizes: Vec<_> = (machine.domains().iter())
        .map(|domain| (domain.cores.len(), domain.package, domain.cache_bytes >> 20))
        .collect();
    // The third is one that was detected, so the size of its cache is known.
    assert_eq!(sizes, [(4, 0, 0), (4, 0, 0), (8, 1, 32)]);
    assert_eq!(machine.domains()[0].cores[1].cpus, [1, 17]);
    let far = |a, b| machine.distance(DomainId(a), DomainId(b));
    assert_eq!(
        (far(0, 1), far(1, 2)),
        (Distance::SameNode, Distance::OtherPackage)
    );
    assert!(machine.reason().contains("0-3+16-19,4-7+20-23,8-15+24-31"));
    assert_eq!(machine.source(), told().source());
}

#[test]
fn cpus_in_no_domain_are_left_out_and_told() {
    let machine = told()
        .with_domains(&"2,5+21,9-10".parse().unwrap())
        .unwrap();
    checks::accounts_for(&machine, 0..32);
    assert!(matches!(&machine.restrictions()[0], Restriction::Caller(cpus) if cpus.len() == 27));
    assert_eq!(machine.worker_limit(), 4);
}

#[test]
fn domains_that_do_not_fit_are_refused_by_what_is_wrong() {
    let machine = told();
    for (list, words) in [
        ("0-7,7-9", "cpu 7 is in domain 0 and in domain 1"),
        ("0-3,40-41", "no cpu 40-41"),
        ("0-3,", "domain 1 has no cpu"),
        ("", "domain 0 has no cpu"),
        // What is easily overlooked: 16-31 are the second cpus of the same cores.
        (
            "0-15,16-31",
            "cpus 0 and 16 are one core, and in domains 0 and 1",
        ),
    ] {
        let error = refused(&machine, list).to_string();
        assert!(error.contains(words), "{list}: {error}");
    }
    let less = machine.restricted_to(&(0..12).collect::<Vec<_>>()).unwrap();
    let error = refused(&less, "0-3,11-13");
    assert!(error.to_string().contains("cpus 12-13 may not"), "{error}");
    assert!(
        error.to_string().contains("left out by the caller"),
        "{error}"
    );
    for (text, words) in [
        ("0-7;8-15", "0-7,8-15"),
        ("0-x", "\"0-x\""),
        ("7-0", "backwards"),
        ("0-99999", "99999"),
    ] {
        let error = text.parse::<DomainList>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn given_domains_of_this_machine_can_be_pinned_to() {
    let machine = Topology::detect(LevelChoice::Auto).unwrap();
    let each = machine.domains().iter().flat_map(|domain| &domain.cores);
    let list = DomainList::from(each.map(|core| core.cpus.clone()).collect::<Vec<_>>());
    let given = machine.with_domains(&list).unwrap();
    assert!(given.is_this_machine());
    assert_eq!(given.domains().len(), machine.core_count());
}

proptest! {
    /// Any way to deal the cores out keeps what a machine promises, and reads back from its text.
    #[test]
    fn cores_may_be_dealt_out_in_any_way(of_core in prop::collection::vec(0..6_usize, 16)) {
        let machine = told();
        let mut domains = vec![Vec::new(); 6];
        let cores = machine.domains().iter().flat_map(|domain| &domain.cores);
        for (core, &domain) in cores.zip(&of_core) {
            // The last stands for none.
            if domain < 5 {
                domains[domain].extend(core.cpus.iter().copied());
            }
        }
        domains.retain(|cpus| !cpus.is_empty());
        prop_assume!(!domains.is_empty());
        domains.iter_mut().for_each(|cpus| cpus.sort_unstable());
        let list = DomainList::from(domains.clone());
        prop_assert_eq!(&list.to_string().parse::<DomainList>().unwrap(), &list);
        let given = machine.with_domains(&list).unwrap();
        checks::machine(&given);
        checks::accounts_for(&given, 0..32);
        let found: Vec<_> = given.domains().iter().map(|domain| domain.cpus()).collect();
        prop_assert_eq!(found, domains);
    }
}
