//! Scan units cover every list once, are balanced by cost, and get fewer as the domain gets busier.

use chiplet_policy::{Hands, SplitConfig, next_unit};
use proptest::prelude::*;

fn any_costs() -> impl Strategy<Value = Vec<u64>> {
    let cost = prop_oneof![Just(0), 1_u64..1_000, 1_u64..2_000_000];
    proptest::collection::vec(cost, 0..200)
}

fn any_config() -> impl Strategy<Value = SplitConfig> {
    (0_u64..1 << 20, 0_u64..1 << 23, 0_u32..6).prop_map(
        |(min_unit_bytes, max_unit_bytes, units_per_core)| {
            SplitConfig::new()
                .min_unit_bytes(Some(min_unit_bytes))
                .max_unit_bytes(max_unit_bytes)
                .units_per_core(units_per_core)
        },
    )
}

fn total(costs: &[u64]) -> u128 {
    costs.iter().map(|&cost| u128::from(cost)).sum()
}

/// The lengths of all units, if as many cores take part when each is taken as `cores` says in turn.
fn cut(costs: &[u64], cores: &[usize], config: &SplitConfig) -> Vec<usize> {
    let mut cores = cores.iter().copied().cycle();
    let mut rest = costs;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let cores = cores.next().expect("somebody takes part");
        let unit = next_unit(rest.iter().copied(), total(rest), cores, config);
        assert!(unit > 0, "a unit is never empty");
        units.push(unit);
        rest = &rest[unit..];
    }
    units
}

proptest! {
    #[test]
    fn units_cover_every_list_exactly_once(
        costs in any_costs(),
        cores in proptest::collection::vec(0_usize..40, 1..10),
        config in any_config(),
    ) {
        let units = cut(&costs, &cores, &config);
        prop_assert_eq!(units.iter().sum::<usize>(), costs.len());
    }

    #[test]
    fn no_unit_exceeds_its_even_part_or_the_bound_by_more_than_one_list(
        costs in any_costs(),
        cores in 2_usize..40,
        config in any_config(),
    ) {
        let left = total(&costs);
        let dearest = u128::from(costs.iter().copied().max().unwrap_or(0));
        let least = u128::from(config.min_unit_bytes.expect("queries are cut").max(1));
        let most = least.max(u128::from(config.max_unit_bytes));
        let unit = next_unit(costs.iter().copied(), left, cores, &config);
        let cost = total(&costs[..unit]);
        let even = left.div_ceil(cores as u128).max(2 * least);
        prop_assert!(cost <= even.min(most) + dearest, "{cost}");
        // Too small a unit is all that is left, or its neighbour is a long list. Where a unit may not be twice the
        // least, what exceeds the bound by little makes two units of half of it.
        prop_assert!(unit == costs.len() || cost + dearest >= least.min(most.div_ceil(2)), "{cost}");
    }

    #[test]
    fn a_core_alone_takes_all_that_a_unit_may_hold(costs in any_costs(), config in any_config()) {
        let most = config.max_unit_bytes.max(config.min_unit_bytes.expect("queries are cut")).max(1);
        let unit = next_unit(costs.iter().copied(), total(&costs), 1, &config);
        if total(&costs) <= u128::from(most) {
            prop_assert_eq!(unit, costs.len());
        } else {
            prop_assert!(unit < costs.len() || costs.len() == 1 || costs[..unit - 1].iter().sum::<u64>() < most);
        }
    }

    #[test]
    fn lists_alike_are_shared_evenly(lists in 1_usize..300, cores in 2_usize..20) {
        let config = SplitConfig::new().min_unit_bytes(Some(1_000)).max_unit_bytes(u64::MAX).units_per_core(3);
        let units = cut(&vec![1_000; lists], &[cores], &config);
        prop_assert!(units[0] <= lists.div_ceil(cores));
        // Whoever is free next takes the next unit: no core has more than one unit of the last ones too much.
        let mut work = vec![0; cores];
        for unit in &units {
            *work.iter_mut().min().expect("there are cores") += unit;
        }
        let most = *work.iter().max().expect("there are cores");
        prop_assert!(most <= lists.div_ceil(cores) + 1, "{work:?}");
    }

    #[test]
    fn waiting_tasks_take_cores_away_and_never_the_last(
        inside in 1_usize..20,
        idle in 0_usize..20,
        waiting in 0_usize..50,
    ) {
        let cores = Hands { inside, idle, waiting }.cores();
        prop_assert!(cores >= 1 && cores <= inside + idle);
        prop_assert!(cores == 1 || cores + waiting == inside + idle);
    }
}

#[test]
fn what_exceeds_the_bound_by_little_is_halved() {
    let config = SplitConfig::new()
        .min_unit_bytes(Some(765_792))
        .max_unit_bytes(0);
    let costs = [234_522, 531_269, 173_731];
    assert_eq!(next_unit(costs, total(&costs), 2, &config), 1);
}

#[test]
fn a_small_query_stays_whole() {
    let config = SplitConfig::default();
    assert_eq!(next_unit([100_000; 5], 500_000, 8, &config), 5);
    assert_eq!(next_unit([100_000; 6], 600_000, 8, &config), 3);
    assert_eq!(
        next_unit([1 << 20; 4], 4 << 20, 1, &config),
        4,
        "nobody could help"
    );
}

#[test]
fn a_long_query_of_a_busy_domain_leaves_something_for_later() {
    let config = SplitConfig::default();
    let units = cut(&[1 << 20; 40], &[1], &config);
    assert_eq!(units, [4; 10]);
    // Many hands make no more units of it while tasks wait for all of them.
    let hands = Hands {
        inside: 8,
        idle: 0,
        waiting: 8,
    };
    assert_eq!(cut(&[1 << 20; 40], &[hands.cores()], &config), units);
    // A bit more than a unit may hold makes two that are alike.
    assert_eq!(cut(&[1 << 20; 5], &[1], &config).len(), 2);
}

#[test]
fn invitations_are_for_those_who_find_a_unit() {
    let config = SplitConfig::new().min_unit_bytes(Some(100));
    assert_eq!(config.invitations(1_000, 3), 3);
    assert_eq!(config.invitations(250, 3), 2);
    assert_eq!(config.invitations(99, 3), 0);
    assert!(config.is_divisible(200) && !config.is_divisible(199));
}

#[test]
fn a_stream_is_a_table_of_more_than_so_many_caches() {
    let config = |stream_caches| SplitConfig::new().stream_caches(stream_caches);
    assert!(!config(Some(2)).is_stream(64 << 20, 32 << 20));
    assert!(config(Some(2)).is_stream((64 << 20) + 1, 32 << 20));
    assert!(config(Some(0)).is_stream(1, 32 << 20), "every table");
    assert!(!config(None).is_stream(u64::MAX, 1 << 40), "none");
}

#[test]
fn costs_near_the_limit_do_not_overflow() {
    let config = SplitConfig::new()
        .min_unit_bytes(Some(1))
        .max_unit_bytes(u64::MAX)
        .units_per_core(1);
    let left = 4 * u128::from(u64::MAX);
    assert_eq!(next_unit([u64::MAX; 4], left, 4, &config), 1);
    assert_eq!(next_unit([u64::MAX; 4], left, usize::MAX, &config), 1);
}

#[test]
fn nothing_to_scan_makes_no_unit() {
    let config = SplitConfig::default();
    assert_eq!(next_unit([], 0, 8, &config), 0);
    assert_eq!(next_unit([0, 0], 0, 8, &config), 2);
}
