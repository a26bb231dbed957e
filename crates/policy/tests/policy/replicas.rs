//! Tables that have to have several homes, hot or not.

use std::collections::BTreeMap;

use chiplet_policy::{
    Demand, DomainSpec, Home, Homes, MapperConfig, Placement, TableId, assign_homes,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{any_placing, any_traffic, assert_valid, demands, domains, placed, table};

/// Tables with these loads and at least so many homes each.
fn replicated(loads: impl IntoIterator<Item = f64>, least_homes: u32) -> Vec<Demand> {
    let demands = demands(loads).into_iter();
    demands
        .map(|demand| Demand {
            least_homes,
            ..demand
        })
        .collect()
}

/// How many homes each domain is.
fn counts(homes: &BTreeMap<TableId, Homes>, domains: &[DomainSpec]) -> Vec<usize> {
    let on = |id| homes.values().filter(|homes| homes.contains(id)).count();
    domains.iter().map(|spec| on(spec.id)).collect()
}

/// Homes of a table that are not among those it had.
fn gained(before: &Placement, after: &Placement) -> usize {
    let moves = after.diff(before);
    moves.iter().map(|step| step.gained().count()).sum()
}

proptest! {
    /// As many as asked for, never more than there are domains, of each table that asks.
    #[test]
    fn every_table_gets_its_homes(
        loads in any_traffic(),
        least in proptest::collection::vec(0_u32..6, 120),
        count in 1_u32..9,
        placing in any_placing(),
    ) {
        let domains = domains(count, 8);
        let config = MapperConfig::new().placing(placing);
        let plain = demands(loads);
        let demands: Vec<Demand> = plain
            .iter()
            .zip(&least)
            .map(|(demand, &least_homes)| Demand { least_homes, ..*demand })
            .collect();
        let alone = assign_homes(&plain, &domains, None, &config);
        let assignment = assign_homes(&demands, &domains, None, &config);
        for demand in &demands {
            let homes = &assignment.homes[&demand.table];
            assert_valid(homes, &domains);
            let least = (demand.least_homes.max(1) as usize).min(domains.len());
            prop_assert_eq!(homes.len(), alone.homes[&demand.table].len().max(least));
        }
    }

    /// Twice the same answer, and the result as the current placement gives the result again.
    #[test]
    fn the_result_stays(
        loads in any_traffic(),
        least in proptest::collection::vec(1_u32..5, 120),
        cores in proptest::collection::vec(1_u32..17, 1..9),
        placing in any_placing(),
    ) {
        let domains: Vec<DomainSpec> = (0..)
            .zip(cores)
            .map(|(id, cores)| DomainSpec::new(DomainId(id), cores))
            .collect();
        let config = MapperConfig::new().placing(placing);
        let demands: Vec<Demand> = demands(loads)
            .into_iter()
            .zip(least)
            .map(|(demand, least_homes)| Demand { least_homes, ..demand })
            .collect();
        let first = assign_homes(&demands, &domains, None, &config);
        prop_assert_eq!(&assign_homes(&demands, &domains, None, &config), &first);
        // A hot table that got its homes on domains of other sizes may want another number of them at its second look.
        let second = assign_homes(&demands, &domains, Some(&placed(&first)), &config);
        let third = assign_homes(&demands, &domains, Some(&placed(&second)), &config);
        prop_assert_eq!(&third.homes, &second.homes);
    }

    /// Without load, homes lie evenly by number, with equal weights.
    #[test]
    fn idle_replicas_are_spread_by_count(
        least in proptest::collection::vec(1_u32..5, 1..60),
        count in 1_u32..9,
    ) {
        let domains = domains(count, 8);
        let demands: Vec<Demand> = demands(vec![0.0; least.len()])
            .into_iter()
            .zip(least)
            .map(|(demand, least_homes)| Demand { least_homes, ..demand })
            .collect();
        let homes = assign_homes(&demands, &domains, None, &MapperConfig::default()).homes;
        let on = counts(&homes, &domains);
        prop_assert!(on.iter().max().unwrap() - on.iter().min().unwrap() <= 1, "{on:?}");
        for homes in homes.values() {
            let weights = homes.iter().map(|home| home.weight);
            prop_assert!(weights.clone().max().unwrap() - weights.min().unwrap() <= 1, "{homes:?}");
        }
    }

    /// A domain that vanishes takes its own homes along. Where the load of the others has to be levelled, too, that
    /// moves one or two homes more, and none without load.
    #[test]
    fn homes_that_survive_stay(
        tables in 1_usize..40,
        copies in 2_u32..4,
        lost in 0_u32..6,
        idle in any::<bool>(),
    ) {
        let before = domains(6, 8);
        let load = if idle { 0.0 } else { 0.4 };
        let demands = replicated(vec![load; tables], copies);
        let config = MapperConfig::default();
        let first = placed(&assign_homes(&demands, &before, None, &config));
        let after: Vec<DomainSpec> = before.into_iter().filter(|spec| spec.id.0 != lost).collect();
        let second = placed(&assign_homes(&demands, &after, Some(&first), &config));
        prop_assert!(second.iter().all(|(_, homes)| homes.len() == copies as usize));
        let was_on = first.iter().filter(|(_, homes)| homes.contains(DomainId(lost))).count();
        let more = gained(&first, &second) - was_on;
        prop_assert!(more <= if idle { 0 } else { 2 }, "{more} more than {was_on}");
        let again = assign_homes(&demands, &after, Some(&second), &config);
        prop_assert_eq!(placed(&again).diff(&second), []);
    }
}

#[test]
fn two_replicas_of_twelve_cold_tables_lie_evenly_on_three_domains() {
    let domains = domains(3, 4);
    let homes = assign_homes(
        &replicated([0.0; 12], 2),
        &domains,
        None,
        &MapperConfig::default(),
    )
    .homes;
    assert_eq!(counts(&homes, &domains), [8, 8, 8]);
    assert!(homes.values().all(|homes| homes.len() == 2));
    let half = Home::WHOLE / 2;
    assert!(homes.values().flatten().all(|home| home.weight == half));
}

#[test]
fn more_than_the_least_only_while_it_is_hot() {
    let domains = domains(6, 8);
    let config = MapperConfig::default();
    let mut current = Placement::default();
    let mut count = |load: f64| {
        let mut demands = replicated([load, 0.5, 0.5], 2);
        demands[1].least_homes = 1;
        current = placed(&assign_homes(&demands, &domains, Some(&current), &config));
        current.homes(table(0)).unwrap().len()
    };
    // Two homes serve up to 0.7 of 16 cores; a third goes back below 0.4 of its 24, one way of several homes to
    // saturate two.
    assert_eq!([1.0, 7.0, 11.0].map(&mut count), [2, 2, 2]);
    assert_eq!([12.0, 10.0, 7.0].map(&mut count), [3, 3, 3]);
    assert_eq!([5.0, 11.0].map(&mut count), [2, 2]);
}

#[test]
fn a_replica_more_or_fewer_keeps_the_others() {
    let domains = domains(5, 8);
    let config = MapperConfig::default();
    for load in [0.0, 1.0] {
        let with = |copies| replicated([load; 10], copies);
        let two = placed(&assign_homes(&with(2), &domains, None, &config));
        let three = placed(&assign_homes(&with(3), &domains, Some(&two), &config));
        assert_eq!(gained(&two, &three), 10, "load {load}");
        let again = placed(&assign_homes(&with(2), &domains, Some(&three), &config));
        // All keep the two with the lowest ids of three equal ones; with load that has to be mended.
        assert!(gained(&three, &again) <= if load > 0.0 { 3 } else { 0 });
        assert!(again.iter().all(|(_, homes)| homes.len() == 2));
    }
}

/// Not the whole placement is made anew for it.
#[test]
fn a_domain_that_joins_gets_its_part_of_the_homes() {
    let config = MapperConfig::default();
    let demands = replicated([1.0; 12], 2);
    let three = placed(&assign_homes(&demands, &domains(3, 8), None, &config));
    let four = assign_homes(&demands, &domains(4, 8), Some(&three), &config);
    let moves = gained(&three, &placed(&four));
    let on_new = counts(&four.homes, &domains(4, 8))[3];
    assert!(
        (3..=6).contains(&on_new) && moves <= on_new + 2,
        "{moves} {on_new}"
    );
    assert!(
        four.balance.imbalance() <= config.stay + 0.01,
        "{:?}",
        four.balance
    );
}

#[test]
fn domains_without_cores_are_no_homes() {
    let mut domains = domains(4, 8);
    domains[1].cores = 0;
    let homes = assign_homes(
        &replicated([1.0, 0.0], 9),
        &domains,
        None,
        &MapperConfig::default(),
    )
    .homes;
    for homes in homes.values() {
        let on: Vec<u32> = homes.iter().map(|home| home.domain.0).collect();
        assert_eq!(on, [0, 2, 3]);
    }
}

/// Loads too small to be divided still have all their homes.
#[test]
fn the_least_load_there_is_has_its_homes() {
    let demands = replicated([5e-324, 1e-320, 1e18], 3);
    let homes = assign_homes(&demands, &domains(4, 8), None, &MapperConfig::default()).homes;
    assert!(homes.values().all(|homes| homes.len() >= 3));
}
