//! The ladder skips no rung, and crossing domains is priced alike wherever the price is asked.

use chiplet_policy::{
    DomainLoad, Rung, StealConfig, StealRule, Step, choose_victim, climb, crossing_backlog,
    may_cross,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

fn any_load() -> impl Strategy<Value = DomainLoad> {
    (
        0_u32..17,
        prop_oneof![2 => Just(0), 3 => 0_u32..60],
        prop_oneof![Just(0), 0_u32..17],
    )
        .prop_map(|(workers, queued, home_running)| DomainLoad {
            workers,
            queued,
            home_running,
        })
}

fn any_config() -> impl Strategy<Value = StealConfig> {
    prop_oneof![
        1.0..5.0,
        Just(2.0),
        Just(f64::INFINITY),
        proptest::num::f64::ANY
    ]
    .prop_map(|cold_factor| StealConfig { cold_factor })
}

fn idle(workers: u32) -> DomainLoad {
    DomainLoad {
        workers,
        queued: 0,
        home_running: 0,
    }
}

proptest! {
    #[test]
    fn a_rung_is_climbed_only_when_all_below_are_empty(
        own in 0_usize..3,
        domain in 0_usize..3,
        victim in proptest::option::of(0_u32..4),
    ) {
        let mut asked = false;
        let step = climb(own, domain, || {
            asked = true;
            victim.map(DomainId)
        });
        prop_assert_eq!(asked, own == 0 && domain == 0, "looks elsewhere only when it has to");
        let expected = match (own, domain, victim) {
            (1.., _, _) => Some(Rung::Own),
            (0, 1.., _) => Some(Rung::Domain),
            (0, 0, Some(_)) => Some(Rung::Remote),
            (0, 0, None) => None,
        };
        prop_assert_eq!(step.map(Step::rung), expected);
    }

    /// A worker that looks at its own queue, then its domain's, then asks for a victim, as the executor does:
    /// whatever it takes, nothing is left on a rung below, and work is left alone only if no rung allows it.
    #[test]
    fn whoever_takes_from_afar_leaves_nothing_undone_at_home(
        own in 0_usize..3,
        loads in proptest::collection::vec(any_load(), 1..12),
        thief in any::<prop::sample::Index>(),
        config in any_config(),
    ) {
        let thief = thief.index(loads.len());
        let home = loads[thief];
        let others = (0..loads.len()).filter(|&domain| domain != thief);
        let by_distance = others.clone().map(|domain| DomainId(domain as u32));
        let step = climb(own, home.queued as usize, || {
            choose_victim(DomainId(thief as u32), &loads, by_distance, StealRule::Ladder, &config)
        });
        match step {
            Some(Step::Own) => prop_assert!(own > 0),
            Some(Step::Domain) => prop_assert!(own == 0 && home.queued > 0),
            Some(Step::Remote(victim)) => {
                let victim = loads[victim.0 as usize];
                prop_assert_eq!((own, home.queued, home.home_running), (0, 0, 0));
                prop_assert!(victim.queued > 0, "there is nothing to take");
                prop_assert!(victim.queued >= crossing_backlog(victim.workers, &config));
            }
            None => {
                prop_assert_eq!((own, home.queued), (0, 0));
                for victim in others.map(|domain| loads[domain]) {
                    let worth = victim.queued >= crossing_backlog(victim.workers, &config);
                    prop_assert!(!worth || home.home_running > 0, "{victim:?} waits for help");
                }
            }
        }
    }

    #[test]
    fn the_crossing_backlog_is_where_crossing_starts_to_pay(
        workers in 0_u32..300,
        thief in 1_u32..20,
        config in any_config(),
    ) {
        let least = crossing_backlog(workers, &config);
        let victim = |queued| DomainLoad { workers, queued, home_running: workers };
        prop_assert!(least >= 1);
        prop_assert!(may_cross(idle(thief), victim(least), &config));
        prop_assert!(!may_cross(idle(thief), victim(least - 1), &config));
    }

    #[test]
    fn crossing_pays_exactly_when_the_wait_exceeds_the_cold_cache(
        victim in any_load(),
        cold_factor in 1.0..6.0,
    ) {
        prop_assume!(victim.workers > 0);
        let config = StealConfig { cold_factor };
        let wait = f64::from(victim.queued) / f64::from(victim.workers);
        prop_assume!((wait - (cold_factor - 1.0)).abs() > 1e-9);
        prop_assert_eq!(may_cross(idle(8), victim, &config), wait > cold_factor - 1.0);
    }

    #[test]
    fn a_domain_with_work_of_its_own_never_crosses(
        thief in any_load(),
        victim in any_load(),
        config in any_config(),
    ) {
        if thief.queued > 0 || thief.home_running > 0 {
            prop_assert!(!may_cross(thief, victim, &config));
        }
    }

    #[test]
    fn the_victim_is_worth_it_and_near_the_longest_backlog(
        loads in proptest::collection::vec(any_load(), 1..16),
        thief in 0_u32..16,
        config in any_config(),
        seed in any::<prop::sample::Index>(),
    ) {
        let mut order: Vec<DomainId> = (0..loads.len() as u32 + 2).map(DomainId).collect();
        let turn = seed.index(order.len());
        order.rotate_left(turn);
        let thief = DomainId(thief);
        let chosen = choose_victim(thief, &loads, order.clone(), StealRule::Ladder, &config);
        let thief_load = loads.get(thief.0 as usize).copied();
        let worth: Vec<DomainId> = order
            .iter()
            .copied()
            .filter(|&domain| domain != thief && (domain.0 as usize) < loads.len())
            .filter(|&domain| {
                thief_load.is_some_and(|load| may_cross(load, loads[domain.0 as usize], &config))
            })
            .collect();
        let backlog = |domain: DomainId| loads[domain.0 as usize].backlog();
        match chosen {
            None => prop_assert!(worth.is_empty()),
            Some(victim) => {
                prop_assert!(worth.contains(&victim));
                let longest = worth.iter().map(|&domain| backlog(domain)).fold(0.0, f64::max);
                prop_assert!(backlog(victim) * 1.25 >= longest);
                // The nearest is passed over only for a backlog a quarter longer.
                if longest <= backlog(worth[0]) * 1.25 {
                    prop_assert_eq!(victim, worth[0]);
                }
            }
        }
    }

    #[test]
    fn topology_blind_stealing_takes_from_any_queue_and_only_from_queues(
        loads in proptest::collection::vec(any_load(), 1..16),
        thief in 0_u32..16,
    ) {
        let thief = DomainId(thief);
        let order = (0..loads.len() as u32).map(DomainId);
        let config = StealConfig::default();
        let victim = choose_victim(thief, &loads, order.clone(), StealRule::Anywhere, &config);
        let any_queued = order.clone().any(|id| id != thief && loads[id.0 as usize].queued > 0);
        prop_assert_eq!(victim.is_some(), any_queued);
        if let Some(victim) = victim {
            prop_assert!(victim != thief && loads[victim.0 as usize].queued > 0);
        }
        prop_assert_eq!(choose_victim(thief, &loads, order, StealRule::Never, &config), None);
    }
}

#[test]
fn distance_breaks_near_ties_and_nothing_else() {
    let busy = |queued| DomainLoad {
        workers: 4,
        queued,
        home_running: 4,
    };
    let choose = |loads: &[DomainLoad]| {
        let nearest_first = [DomainId(2), DomainId(1)];
        let config = StealConfig::default();
        choose_victim(
            DomainId(0),
            loads,
            nearest_first,
            StealRule::Ladder,
            &config,
        )
    };
    assert_eq!(choose(&[idle(4), busy(24), busy(20)]), Some(DomainId(2)));
    assert_eq!(choose(&[idle(4), busy(26), busy(20)]), Some(DomainId(1)));
    assert_eq!(choose(&[idle(4), busy(4), busy(4)]), None);
}

#[test]
fn rungs_are_ordered_as_they_are_climbed() {
    assert!(Rung::ALL.is_sorted());
}

#[test]
fn an_infinite_price_is_never_paid() {
    let config = StealConfig {
        cold_factor: f64::INFINITY,
    };
    let victim = DomainLoad {
        workers: 1,
        queued: u32::MAX - 1,
        home_running: 1,
    };
    assert!(!may_cross(idle(8), victim, &config));
}
