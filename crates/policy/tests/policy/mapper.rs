//! What holds of every assignment, and how good the greedy's balance is.

use chiplet_policy::{
    Assignment, Demand, DomainSpec, DomainTally, Homes, MapperConfig, assign_home, assign_homes,
    balance,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{
    ROUNDING, any_domains, any_placing, any_traffic, assert_valid, by_traffic, demands, domains,
    placed, table, whole,
};

fn assert_complete(assignment: &Assignment, demands: &[Demand], domains: &[DomainSpec]) {
    assert_eq!(assignment.homes.len(), demands.len());
    for demand in demands {
        assert_valid(&assignment.homes[&demand.table], domains);
    }
}

proptest! {
    #[test]
    fn every_table_gets_homes_that_exist(
        before in any_traffic(),
        after in any_traffic(),
        old_domains in any_domains(),
        domains in any_domains(),
    ) {
        let config = by_traffic();
        let current = placed(&assign_homes(&demands(before), &old_domains, None, &config));
        let demands = demands(after);
        assert_complete(&assign_homes(&demands, &domains, None, &config), &demands, &domains);
        assert_complete(&assign_homes(&demands, &domains, Some(&current), &config), &demands, &domains);
    }

    #[test]
    fn equal_arguments_in_any_order_give_equal_homes(
        before in any_traffic(),
        after in any_traffic(),
        domains in any_domains(),
    ) {
        let config = by_traffic();
        let current = placed(&assign_homes(&demands(before), &domains, None, &config));
        let mut demands = demands(after);
        let mut reversed = domains.clone();
        let first = assign_homes(&demands, &domains, Some(&current), &config);
        demands.reverse();
        reversed.reverse();
        prop_assert_eq!(&assign_homes(&demands, &reversed, Some(&current), &config).homes, &first.homes);
    }

    /// The bound for domains of any sizes: `t`, the last table on the busiest, went where `(L + t) / cores` is least
    /// (Graham, Bounds for Certain Multiprocessing Anomalies, 1966).
    #[test]
    fn the_busiest_domain_keeps_the_bound_of_the_greedy(
        traffic in any_traffic(),
        domains in any_domains(),
    ) {
        let hottest = traffic.iter().copied().fold(0.0, f64::max);
        let total: f64 = traffic.iter().sum();
        let cores: f64 = domains.iter().map(|spec| f64::from(spec.cores)).sum();
        let others = domains.len() as f64 - 1.0;
        let balance = assign_homes(&demands(traffic), &domains, None, &whole()).balance;
        prop_assert!((balance.mean - total / cores).abs() <= 1e-9 * balance.mean);
        prop_assert!(balance.peak <= (total + others * hottest) / cores * ROUNDING);
    }

    #[test]
    fn splitting_the_hottest_never_ends_above_twice_the_mean(
        traffic in any_traffic(),
        count in 1_u32..16,
    ) {
        let config = by_traffic().hot_share(1.0);
        let balance = assign_homes(&demands(traffic), &domains(count, 4), None, &config).balance;
        // Whole tables are at most one fair share each, and the others are poured.
        prop_assert!(balance.peak <= 2.0 * balance.mean * 1.001, "{balance:?}");
    }

    #[test]
    fn the_reported_balance_is_that_of_the_homes(
        traffic in any_traffic(),
        domains in any_domains(),
    ) {
        let demands = demands(traffic);
        let assignment = assign_homes(&demands, &domains, None, &by_traffic());
        let counted = balance(
            demands.iter().copied(),
            |table| assignment.homes.get(&table),
            &domains,
        );
        prop_assert_eq!(assignment.balance, counted);
    }

    #[test]
    fn senseless_numbers_do_not_panic(
        traffic in proptest::collection::vec(proptest::num::f64::ANY, 0..40),
        thresholds in proptest::array::uniform4(proptest::num::f64::ANY),
        placing in any_placing(),
    ) {
        let [saturation, relax, hot_share, stay] = thresholds;
        let config = MapperConfig::new().placing(placing).saturation(saturation).relax(relax).hot_share(hot_share).stay(stay);
        let demands = demands(traffic);
        let domains = domains(5, 3);
        let first = assign_homes(&demands, &domains, None, &config);
        assert_complete(&first, &demands, &domains);
        let again = assign_homes(&demands, &domains, Some(&placed(&first)), &config);
        assert_complete(&again, &demands, &domains);
        prop_assert!(again.balance.peak.is_finite());
    }
}

#[test]
fn traffic_that_is_no_number_counts_as_none() {
    let odd = demands([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0]);
    assert_eq!(
        assign_homes(&odd, &domains(2, 1), None, &whole())
            .balance
            .peak,
        0.0
    );
}

#[test]
fn the_two_hottest_never_share_a_domain_while_another_is_free() {
    let demands = demands([10.0, 9.0, 8.0, 1.0, 1.0, 1.0]);
    let homes = assign_homes(&demands, &domains(3, 8), None, &whole()).homes;
    let hot: Vec<&Homes> = (0..3).map(|slot| &homes[&table(slot)]).collect();
    assert!(hot[0] != hot[1] && hot[1] != hot[2] && hot[0] != hot[2]);
}

#[test]
fn a_larger_domain_takes_more() {
    let specs = [
        DomainSpec::new(DomainId(0), 2),
        DomainSpec::new(DomainId(1), 6),
    ];
    let assignment = assign_homes(&demands([1.0; 80]), &specs, None, &whole());
    let on_small = assignment
        .homes
        .values()
        .filter(|homes| homes.contains(DomainId(0)));
    assert_eq!(on_small.count(), 20);
}

#[test]
fn domains_without_cores_get_nothing_and_no_domains_give_no_homes() {
    let specs = [
        DomainSpec::new(DomainId(0), 0),
        DomainSpec::new(DomainId(1), 4),
    ];
    let demands = demands([1.0, 2.0, 0.0]);
    for homes in assign_homes(&demands, &specs, None, &whole())
        .homes
        .values()
    {
        assert_eq!(homes, &Homes::single(DomainId(1)));
    }
    assert!(
        assign_homes(&demands, &[], None, &by_traffic())
            .homes
            .is_empty()
    );
    // A machine that names no cores at all is taken as one of equal domains.
    let coreless = domains(2, 0);
    assert_complete(
        &assign_homes(&demands, &coreless, None, &whole()),
        &demands,
        &coreless,
    );
}

/// Eight fast cores and eight that do half as much: many tables, or one that needs both, lie two to one.
#[test]
fn slow_cores_get_load_in_proportion() {
    let mut machine = domains(2, 8);
    machine[1].speed = 0.5;
    let many: Vec<Demand> = (0..60).map(|slot| Demand::new(table(slot), 0.15)).collect();
    let one = [Demand::new(table(0), 9.0)];
    for demands in [&many[..], &one] {
        let assignment = assign_homes(demands, &machine, None, &MapperConfig::default());
        let on_slow = |homes: &Homes| {
            let slow = homes.iter().find(|home| home.domain.0 == 1);
            slow.map_or(0.0, |home| home.share())
        };
        let load: f64 = (demands.iter())
            .map(|demand| demand.load * on_slow(&assignment.homes[&demand.table]))
            .sum();
        assert!((2.7..3.3).contains(&load), "{load} of 9 on the slow cores");
        let peak = assignment.balance.peak;
        assert!(peak < 0.8, "{peak} of a core's time");
    }
    // What is no speed counts as the usual one.
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut odd = domains(2, 8);
        odd[1].speed = speed;
        let usual = assign_homes(&many, &domains(2, 8), None, &whole());
        assert_eq!(
            assign_homes(&many, &odd, None, &whole()).balance,
            usual.balance
        );
    }
}

/// Also of two domains, and whatever part of a home it may have.
#[test]
fn a_table_that_has_most_of_the_load_gets_another_home() {
    for saturation in [0.3, 0.5, 0.7] {
        let config = MapperConfig::new().saturation(saturation);
        for (others, homes) in [(0.0, 2), (2.0, 2), (5.0, 1)] {
            let demands = demands([9.0, others]);
            let assigned = assign_homes(&demands, &domains(2, 8), None, &config).homes;
            assert_eq!(
                assigned[&table(0)].len(),
                homes,
                "{saturation}, beside {others}"
            );
        }
    }
}

#[test]
fn a_new_table_goes_to_the_least_load_then_bytes_then_tables_then_id() {
    let tally = |id, load, bytes, tables| DomainTally {
        spec: DomainSpec::new(DomainId(id), 8),
        load,
        bytes,
        tables,
    };
    let with = |mut tally: DomainTally, change: fn(&mut DomainSpec)| {
        change(&mut tally.spec);
        tally
    };
    let cases = [
        (vec![tally(0, 2.0, 0.0, 0), tally(1, 1.0, 9.0, 9)], 1),
        (vec![tally(0, 1.0, 2.0, 0), tally(1, 1.0, 1.0, 9)], 1),
        (vec![tally(0, 1.0, 1.0, 2), tally(1, 1.0, 1.0, 1)], 1),
        (vec![tally(1, 1.0, 1.0, 1), tally(0, 1.0, 1.0, 1)], 0),
        // Half the cores with as much traffic is twice as busy.
        (
            vec![
                with(tally(0, 1.0, 0.0, 0), |spec| spec.cores = 4),
                tally(1, 1.0, 0.0, 0),
            ],
            1,
        ),
        // And as many cores of half the speed too.
        (
            vec![
                with(tally(0, 1.0, 0.0, 0), |spec| spec.speed = 0.5),
                tally(1, 1.0, 0.0, 0),
            ],
            1,
        ),
        (
            vec![
                with(tally(0, 0.0, 0.0, 0), |spec| spec.cores = 0),
                tally(1, 1.0, 0.0, 0),
            ],
            1,
        ),
        (vec![tally(0, f64::NAN, 0.0, 0), tally(1, 1.0, 0.0, 0)], 0),
        // An empty sum is -0.0, and that is not less than nothing.
        (vec![tally(0, 0.0, 1.0, 1), tally(1, -0.0, 2.0, 2)], 0),
    ];
    for (tallies, expected) in cases {
        let home = assign_home(&tallies).map(|tally| tally.spec.id.0);
        assert_eq!(home, Some(expected), "{tallies:?}");
    }
}
