//! Tables that are too hot for one domain.

use chiplet_policy::{Demand, DomainSpec, Homes, MapperConfig, Placement, assign_homes, balance};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{by_traffic, demands, domains, placed, table};

/// One table with `share` of a total of `total`, and 40 that share the rest.
fn one_hot(share: f64, total: f64) -> Vec<Demand> {
    let rest = (1.0 - share) * total / 40.0;
    demands((0..41).map(|slot| if slot == 0 { share * total } else { rest }))
}

fn wanted(traffic: f64, total: f64, homes: &Homes, domains: &[DomainSpec]) -> usize {
    let demands = demands([traffic, total - traffic]);
    let current = Placement::default().next([(table(0), homes.clone())]);
    let assignment = assign_homes(&demands, domains, Some(&current), &by_traffic());
    assignment.homes[&table(0)].len()
}

proptest! {
    #[test]
    fn a_hot_table_gets_as_many_homes_as_it_has_fair_shares(
        count in 2_u32..32,
        share in 0.05..1.0,
    ) {
        let domains = domains(count, 8);
        let total = 1_000.0 * f64::from(count);
        let demands = one_hot(share, total);
        let assignment = assign_homes(&demands, &domains, None, &by_traffic());
        let fair_shares = share * f64::from(count);
        let homes = &assignment.homes[&table(0)];
        if fair_shares > 1.5 {
            let expected = (fair_shares.ceil() as usize).clamp(2, count as usize);
            prop_assert_eq!(homes.len(), expected);
            // The other tables are lumps: they can stick out by one of them.
            let lump = demands[1].load * f64::from(count) / total;
            prop_assert!(assignment.balance.imbalance() <= lump + 0.01, "{:?}", assignment.balance);
        } else {
            prop_assert_eq!(homes.len(), 1);
        }
    }

    #[test]
    fn weights_level_the_load_of_domains_of_any_size(
        cores in proptest::collection::vec(2_u32..9, 2..12),
        others in proptest::collection::vec(0.0..20.0, 0..40),
    ) {
        let domains: Vec<_> = cores
            .iter()
            .zip(0..)
            .map(|(&cores, id)| DomainSpec::new(DomainId(id), cores))
            .collect();
        let rest: f64 = others.iter().sum();
        // The first table has nine tenths of everything: every domain is home to it.
        let hot = 9.0 * rest + 100.0;
        let demands = demands(std::iter::once(hot).chain(others));
        let assignment = assign_homes(&demands, &domains, None, &by_traffic());
        let homes = &assignment.homes[&table(0)];
        if homes.len() == domains.len() {
            prop_assert!(assignment.balance.imbalance() < 0.01, "{homes:?}");
        }
        // Against the same homes with equal weights, the poured ones are never worse.
        let equal = Homes::from_shares(homes.iter().map(|home| (home.domain, 1.0))).unwrap();
        let alike = balance(
            demands.iter().copied(),
            |id| if id == table(0) { Some(&equal) } else { assignment.homes.get(&id) },
            &domains,
        );
        prop_assert!(assignment.balance.peak <= alike.peak * 1.001);
    }

    #[test]
    fn the_number_of_homes_does_not_flutter_with_the_traffic(
        traffic in 1_000.0..9_000.0,
        wobble in 0.75..1.25,
        count in 4_u32..16,
    ) {
        let domains = domains(count, 8);
        let total = 12_000.0;
        let single = Homes::single(DomainId(0));
        let up = wanted(traffic, total, &single, &domains);
        let shares = (0..up as u32).map(|id| (DomainId(id), 1.0));
        let homes = Homes::from_shares(shares).unwrap();
        // A quarter more or less never takes a home away.
        prop_assert!(wanted(traffic * wobble, total, &homes, &domains) >= up);
        prop_assert_eq!(wanted(traffic, total, &homes, &domains), up);
    }
}

#[test]
fn a_table_with_60_percent_of_a_saturating_load_gets_eight_of_twelve_domains() {
    let domains = domains(12, 8);
    let assignment = assign_homes(&one_hot(0.6, 100e9), &domains, None, &by_traffic());
    assert_eq!(assignment.homes[&table(0)].len(), 8);
    assert!(assignment.balance.imbalance() < 0.1);
}

#[test]
fn the_same_table_keeps_one_home_while_that_can_serve_it() {
    let domains = domains(12, 8);
    let config = MapperConfig::default();
    let assignment = assign_homes(&one_hot(0.6, 5.0), &domains, None, &config);
    assert_eq!(assignment.homes[&table(0)].len(), 1);
}

#[test]
fn by_traffic_the_share_decides() {
    let domains = domains(12, 8);
    let homes = |share| {
        let assignment = assign_homes(&one_hot(share, 1e9), &domains, None, &by_traffic());
        assignment.homes[&table(0)].len()
    };
    assert_eq!(homes(1.4 / 12.0), 1);
    assert_eq!(homes(1.6 / 12.0), 2);
    assert_eq!(homes(0.6), 8);
}

#[test]
fn a_table_that_saturates_no_more_than_its_fair_share_stays_whole() {
    // Twelve tables that fill twelve domains: the best there is, with nothing to gain by splitting.
    let domains = domains(12, 8);
    let assignment = assign_homes(&demands([9.5e9; 12]), &domains, None, &by_traffic());
    assert!(assignment.homes.values().all(|homes| homes.len() == 1));
    assert!(assignment.balance.imbalance() < 1e-9);
}

#[test]
fn growing_keeps_the_homes_and_shrinking_keeps_the_heaviest() {
    let domains = domains(4, 8);
    let config = MapperConfig::default();
    let current = Placement::default().next([
        (table(0), Homes::single(DomainId(2))),
        (table(1), Homes::single(DomainId(0))),
    ]);
    let grown = placed(&assign_homes(
        &demands([7.2, 7.2]),
        &domains,
        Some(&current),
        &config,
    ));
    for (slot, domain) in [(0, 2), (1, 0)] {
        let homes = grown.homes(table(slot)).unwrap();
        assert_eq!(homes.len(), 2);
        assert!(homes.contains(DomainId(domain)));
    }
    let lopsided = Homes::from_shares([(DomainId(1), 1.0), (DomainId(3), 2.0)]).unwrap();
    let current = Placement::default().next([(table(0), lopsided)]);
    let shrunk = assign_homes(&demands([0.8]), &domains, Some(&current), &config);
    assert_eq!(shrunk.homes[&table(0)], Homes::single(DomainId(3)));
}

/// Two packages of eight domains; the table wants so many homes.
fn packages_of_homes(homes: u32, memory: Demand) -> [usize; 2] {
    let demand = Demand {
        least_homes: homes,
        ..memory
    };
    let specs = crate::time::with_caches(16, 8);
    let placed = assign_homes(&[demand], &specs, None, &MapperConfig::default());
    let homes = &placed.homes[&table(0)];
    [0, 1].map(|package| {
        let there = |home: &&chiplet_policy::Home| home.domain.0 / 8 == package;
        homes.iter().filter(there).count()
    })
}

#[test]
fn several_homes_are_on_the_socket_of_the_memory_if_it_has_as_many_domains() {
    let memory = Demand {
        package: Some(1),
        ..Demand::new(table(0), 1.0)
    };
    assert_eq!(packages_of_homes(8, memory), [0, 8]);
    // It needs the others' cores, too: then load alone decides.
    assert_eq!(packages_of_homes(9, memory), [8, 1]);
}

#[test]
fn a_table_whose_memory_each_socket_may_have_gets_as_many_homes_on_each() {
    let memory = Demand {
        everywhere: true,
        ..Demand::new(table(0), 1.0)
    };
    assert_eq!(packages_of_homes(6, memory), [3, 3]);
}
