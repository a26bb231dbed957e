//! Crossing is priced in time, its wait is bounded, and no domain gives away what it needs itself.

use std::time::Duration;

use chiplet_policy::{
    Backlog, LEAST_COLD, Staff, StealConfig, UNIT_FACTOR, can_help, is_worth_crossing,
};
use proptest::prelude::*;

fn micros() -> impl Strategy<Value = Duration> {
    (0_u64..20_000).prop_map(Duration::from_micros)
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn any_backlog() -> impl Strategy<Value = Backlog> {
    (
        0_u32..17,
        prop_oneof![1 => Just(0), 4 => 1_u32..300],
        micros(),
        micros(),
        proptest::option::of(prop_oneof![UNIT_FACTOR..8 * UNIT_FACTOR, any::<u32>()]),
        micros(),
    )
        .prop_map(|(workers, queued, mean, service, cold, age)| Backlog {
            workers,
            queued,
            work: nanos(mean * queued),
            service: nanos(service),
            cold,
            age: nanos(age),
        })
}

fn any_config() -> impl Strategy<Value = StealConfig> {
    let factor = prop_oneof![
        4 => (1.0..5.0).prop_map(Some),
        1 => Just(None),
        1 => proptest::num::f64::ANY.prop_map(Some)
    ];
    (factor, micros(), micros()).prop_map(|(cold_factor, cold_limit, max_wait)| {
        StealConfig::new()
            .cold_factor(cold_factor)
            .cold_limit(cold_limit)
            .max_wait(max_wait)
    })
}

proptest! {
    #[test]
    fn no_task_waits_longer_than_the_bound_beside_an_idle_worker(
        backlog in any_backlog(),
        config in any_config(),
        queued in 1_u32..300,
    ) {
        let age = backlog.age.max(nanos(config.max_wait));
        let old = Backlog { queued, age, ..backlog };
        let forbidden = config.cold_factor.is_none();
        prop_assert_eq!(is_worth_crossing(&old, &config), !forbidden);
    }

    #[test]
    fn an_empty_queue_and_an_infinite_price_attract_nobody(
        backlog in any_backlog(),
        config in any_config(),
    ) {
        let empty = Backlog { queued: 0, ..backlog };
        prop_assert!(!is_worth_crossing(&empty, &config));
        let never = config.cold_factor(None);
        prop_assert!(!is_worth_crossing(&backlog, &never));
    }

    /// More waiting, fewer workers, more age: whatever makes a queue slower never makes helping less worth it.
    #[test]
    fn a_slower_queue_is_worth_no_less(
        backlog in any_backlog(),
        config in any_config(),
        more in micros(),
        fewer in 0_u32..17,
    ) {
        let worth = is_worth_crossing(&backlog, &config);
        let slower = Backlog {
            workers: backlog.workers.saturating_sub(fewer),
            work: backlog.work + nanos(more),
            age: backlog.age + nanos(more),
            ..backlog
        };
        prop_assert!(!worth || is_worth_crossing(&slower, &config));
    }

    #[test]
    fn crossing_pays_exactly_when_the_wait_exceeds_the_cold_cache(
        workers in 1_u32..17,
        queued in 1_u32..300,
        micros in 1_u64..1_000,
        parts in UNIT_FACTOR..6 * UNIT_FACTOR,
    ) {
        let cold_factor = f64::from(parts) / f64::from(UNIT_FACTOR);
        let service = u64::from(UNIT_FACTOR) * micros;
        let backlog = Backlog { workers, queued, work: service * u64::from(queued), service, ..Backlog::default() };
        let config = StealConfig::new().cold_factor(Some(cold_factor)).cold_limit(Duration::MAX);
        let services = f64::from(queued) / f64::from(workers);
        prop_assert_eq!(is_worth_crossing(&backlog, &config), services > cold_factor - 1.0);
        // Before anything is known of the table, its tasks count as equally long: the same.
        let unknown = Backlog { work: 0, service: 0, ..backlog };
        prop_assert_eq!(is_worth_crossing(&unknown, &config), services > cold_factor - 1.0);
    }

    #[test]
    fn what_was_measured_replaces_the_built_in_factor(
        queued in 1_u32..300,
        measured in UNIT_FACTOR..6 * UNIT_FACTOR,
        built_in in UNIT_FACTOR..6 * UNIT_FACTOR,
    ) {
        let service = 100_000;
        let backlog = Backlog { workers: 4, queued, work: service * u64::from(queued), service, ..Backlog::default() };
        let config = |parts| StealConfig::new().cold_factor(Some(f64::from(parts) / f64::from(UNIT_FACTOR)));
        let known = Backlog { cold: Some(measured), ..backlog };
        prop_assert_eq!(
            is_worth_crossing(&known, &config(built_in)),
            is_worth_crossing(&backlog, &config(measured.max(LEAST_COLD)))
        );
    }

    #[test]
    /// The busier a domain is, the fewer leave; and none if more than a quarter of its workers are needed at home.
    #[test]
    fn a_domain_keeps_what_it_needs(
        idle in 0_u32..20,
        at_home in 0_u32..20,
        abroad in 0_u32..5,
    ) {
        let workers = (idle + at_home + abroad).max(1);
        let staff = Staff { workers, idle, at_home };
        let leaves = can_help(&staff);
        if at_home > 0 {
            let calmer = Staff { at_home: at_home - 1, ..staff };
            prop_assert!(can_help(&calmer) || !leaves);
        }
        prop_assert!(leaves || idle < workers);
        prop_assert!(!leaves || (idle > 0 && 4 * at_home < workers + 4));
    }
}

#[test]
fn a_cold_cache_that_costs_nothing_by_measurement_is_cheap_and_not_unknown() {
    let service = 100_000;
    let backlog = |cold| Backlog {
        workers: 4,
        queued: 2,
        work: 2 * service,
        service,
        cold,
        ..Backlog::default()
    };
    let config = StealConfig::default();
    assert!(!is_worth_crossing(&backlog(None), &config));
    for measured in [UNIT_FACTOR / 2, UNIT_FACTOR - 1, UNIT_FACTOR, LEAST_COLD] {
        assert!(
            is_worth_crossing(&backlog(Some(measured)), &config),
            "{measured}"
        );
    }
    assert!(!is_worth_crossing(
        &backlog(Some(8 * UNIT_FACTOR / 5)),
        &config
    ));
}

#[test]
fn a_cold_cache_costs_a_long_task_no_more_than_filling_it() {
    let config = StealConfig::default();
    let service = 3_000_000_000;
    // One more of three seconds waits behind four workers: 750 ms, where a crossing costs 3 ms at most.
    let backlog = Backlog {
        workers: 4,
        queued: 1,
        work: service,
        service,
        ..Backlog::default()
    };
    assert!(is_worth_crossing(&backlog, &config));
    let unlimited = config.cold_limit(Duration::MAX);
    assert!(!is_worth_crossing(&backlog, &unlimited));
}
