//! Scan units cover every list once, are balanced by cost, and get fewer as the domain gets busier.

use std::ops::Range;

use chiplet_policy::{SplitConfig, fork_join, split};
use proptest::prelude::*;

fn any_costs() -> impl Strategy<Value = Vec<u64>> {
    let cost = prop_oneof![Just(0), 1_u64..1_000, 1_u64..2_000_000];
    proptest::collection::vec(cost, 0..200)
}

fn any_config() -> impl Strategy<Value = SplitConfig> {
    (0_u64..1 << 20, 0_u32..6).prop_map(|(min_unit_bytes, units_per_core)| SplitConfig {
        min_unit_bytes,
        units_per_core,
    })
}

fn one_unit(unit: &Range<usize>) -> &[Range<usize>] {
    std::slice::from_ref(unit)
}

fn covers(units: &[Range<usize>], lists: usize) -> bool {
    let mut next = 0;
    for unit in units {
        if unit.start != next || unit.end <= unit.start {
            return false;
        }
        next = unit.end;
    }
    next == lists
}

proptest! {
    #[test]
    fn units_cover_every_list_exactly_once_in_order(
        costs in any_costs(),
        idle in 0_usize..40,
        config in any_config(),
    ) {
        prop_assert!(covers(&split(&costs, idle, &config), costs.len()));
        prop_assert!(covers(&fork_join(&costs, idle), costs.len()));
    }

    #[test]
    fn no_unit_exceeds_its_even_part_by_more_than_one_list(
        costs in any_costs(),
        idle in 1_usize..40,
        config in any_config(),
    ) {
        let total: u64 = costs.iter().sum();
        let dearest = costs.iter().copied().max().unwrap_or(0);
        let by_cores = (idle as u64 + 1) * u64::from(config.units_per_core.max(1));
        let by_cost = total / config.min_unit_bytes.max(1);
        let wanted = by_cores.min(by_cost).min(costs.len() as u64).max(1);
        let cores = idle as u64 + 1;
        let wanted = if wanted > cores { wanted - wanted % cores } else { wanted };
        let units = split(&costs, idle, &config);
        prop_assert!(units.len() as u64 <= wanted);
        for unit in units {
            let cost: u64 = costs[unit].iter().sum();
            prop_assert!(cost <= total.div_ceil(wanted) + dearest);
        }
    }

    #[test]
    fn a_busier_domain_gets_no_more_units_than_its_idle_cores_can_share(
        costs in any_costs(),
        config in any_config(),
    ) {
        prop_assert!(split(&costs, 0, &config).len() <= 1);
        // Where lists are long, a cut may be missed, so this holds for lists that are all alike.
        let alike = vec![500; costs.len()];
        for idle in 1..20 {
            let (cores, units) = (idle + 1, split(&alike, idle, &config).len());
            prop_assert!(units <= cores * config.units_per_core.max(1) as usize);
            prop_assert!(units <= cores || units % cores == 0, "{units} units for {cores} cores");
        }
    }

    #[test]
    fn lists_alike_are_cut_into_as_many_units_as_wanted(lists in 1_usize..300, idle in 1_usize..20) {
        let config = SplitConfig { min_unit_bytes: 1, units_per_core: 3 };
        let units = split(&vec![1_000; lists], idle, &config);
        let (cores, most) = (idle + 1, lists.min(3 * (idle + 1)));
        let shared = if most > cores { most - most % cores } else { most };
        prop_assert_eq!(units.len(), shared);
        let (shortest, longest) = units.iter().fold((usize::MAX, 0), |(low, high), unit| {
            (low.min(unit.len()), high.max(unit.len()))
        });
        prop_assert!(longest - shortest <= 1);
    }
}

#[test]
fn a_small_query_stays_whole() {
    let config = SplitConfig::default();
    assert_eq!(split(&[100_000; 5], 7, &config), one_unit(&(0..5)));
    assert_eq!(split(&[100_000; 6], 7, &config).len(), 2);
}

#[test]
fn costs_near_the_limit_do_not_overflow() {
    let config = SplitConfig {
        min_unit_bytes: 1,
        units_per_core: 1,
    };
    assert_eq!(split(&[u64::MAX; 4], 1, &config), [0..2, 2..4]);
}

#[test]
fn nothing_to_scan_makes_no_unit() {
    let config = SplitConfig::default();
    assert!(split(&[], 7, &config).is_empty());
    assert!(fork_join(&[], 8).is_empty());
    assert_eq!(split(&[0, 0], 7, &config), one_unit(&(0..2)));
}

#[test]
fn fork_join_on_one_core_is_one_unit() {
    assert_eq!(fork_join(&[1, 2, 3], 1), one_unit(&(0..3)));
}
