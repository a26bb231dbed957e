//! The brakes by themselves: pause, strain, returns.

use std::time::Duration;

use chiplet_policy::{Homes, Move, RemapReason, Time, Trigger, TriggerConfig};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{at, most_remaps, most_strain, secs, table};

fn step(slot: u32, from: u32, to: u32) -> Move {
    Move {
        table: table(slot),
        from: Some(Homes::single(DomainId(from))),
        to: Some(Homes::single(DomainId(to))),
    }
}

fn any_config() -> impl Strategy<Value = TriggerConfig> {
    (0_u64..60, 0_u64..2_000, 0_u32..8).prop_map(|(cooldown, horizon, burst)| {
        TriggerConfig::new()
            .cooldown(Some(secs(cooldown)))
            .horizon(secs(horizon))
            .burst(Some(burst))
    })
}

proptest! {
    /// The worst traffic there is: every remap that the trigger allows is made, some of them returns.
    #[test]
    fn remaps_keep_the_stated_bound_whatever_is_asked(
        config in any_config(),
        delays in proptest::collection::vec((0_u64..40_000, any::<bool>()), 1..300),
    ) {
        let mut trigger = Trigger::new(config);
        let mut times: Vec<Time> = Vec::new();
        for ((delay, back), count) in delays.into_iter().zip(1_u32..) {
            let delay = if count % 3 == 0 { Duration::from_millis(delay) } else { Duration::ZERO };
            let now = trigger.ready_at() + delay;
            let slot = if back { 0 } else { count };
            trigger.remapped(&[step(slot, count % 2, (count + 1) % 2)], now);
            let cooldown = config.cooldown.expect("placements change");
            let ceiling = config.horizon.max(cooldown);
            prop_assert!(trigger.ready_at().since(now) >= cooldown);
            prop_assert!(trigger.ready_at().since(now) <= ceiling.max(Duration::from_nanos(1)));
            prop_assert!(times.last().is_none_or(|&last| now.since(last) >= cooldown));
            times.push(now);
            if config.horizon > Duration::ZERO {
                // From the start, and in every stretch that ends now.
                prop_assert!(u64::from(count) <= most_remaps(&config, now.elapsed()));
                for (count, &first) in (1..).zip(times.iter().rev()) {
                    prop_assert!(count <= most_remaps(&config, now.since(first)));
                }
            }
        }
    }

    #[test]
    fn calm_for_long_enough_restores_the_shortest_pause(
        config in any_config(),
        remaps in 1_u32..40,
    ) {
        let mut trigger = Trigger::new(config);
        let mut now = Time::ZERO;
        for count in 0..remaps {
            now = trigger.ready_at();
            trigger.remapped(&[step(0, count % 2, (count + 1) % 2)], now);
        }
        let cooldown = config.cooldown.expect("placements change");
        now += config.horizon.max(cooldown) * (most_strain(&config) + 1);
        trigger.remapped(&[step(1, 0, 1)], now);
        if config.burst != Some(0) && cooldown * 1_024 >= config.horizon {
            prop_assert_eq!(trigger.ready_at().since(now), cooldown);
        }
    }
}

#[test]
fn a_return_is_a_home_left_within_the_horizon() {
    let config = TriggerConfig::default();
    let mut trigger = Trigger::new(config);
    trigger.remapped(&[step(0, 1, 2)], at(100));
    assert!(trigger.is_return(&[step(0, 2, 1)], at(399)));
    assert!(!trigger.is_return(&[step(0, 2, 1)], at(400)));
    assert!(!trigger.is_return(&[step(0, 2, 3)], at(101)));
    assert!(!trigger.is_return(&[step(5, 2, 1)], at(101)));
    trigger.forget(table(0));
    assert!(!trigger.is_return(&[step(0, 2, 1)], at(101)));
}

#[test]
fn remaps_in_a_row_pause_longer_and_longer_after_the_burst() {
    let mut trigger = Trigger::new(TriggerConfig::default());
    let pauses: Vec<u64> = (0..10)
        .map(|slot| {
            let now = trigger.ready_at();
            trigger.remapped(&[step(slot, 0, 1)], now);
            (trigger.ready_at().since(now)).as_secs()
        })
        .collect();
    // One unit of strain drains on the way, 300 s after the first.
    assert_eq!(pauses, [10, 10, 10, 10, 20, 40, 80, 160, 160, 300]);
}

#[test]
fn a_return_uses_up_the_burst_at_once() {
    let mut trigger = Trigger::new(TriggerConfig::default());
    trigger.remapped(&[step(0, 0, 1)], at(10));
    trigger.remapped(&[step(0, 1, 0)], at(20));
    assert_eq!(trigger.ready_at(), at(40));
}

#[test]
fn reasons_read_well_in_a_log_line() {
    let lines = [
        RemapReason::FastImbalance {
            before: 1.804,
            after: 0.05,
        },
        RemapReason::SlowImbalance {
            before: 0.3,
            after: 0.0,
        },
        RemapReason::Saturated {
            table: table(3),
            homes_before: 1,
            homes_after: 8,
        },
        RemapReason::Relaxed {
            table: table(3),
            homes_before: 8,
            homes_after: 1,
        },
    ]
    .map(|reason| reason.to_string());
    assert_eq!(
        lines,
        [
            "quick change: the busiest domain was 180 % above the mean, now 5 %",
            "trend: the busiest domain was 30 % above the mean, now 0 %",
            "table 3 is more than its 1 home(s) can serve: now 8",
            "table 3 no longer needs 8 homes: now 1",
        ]
    );
}
