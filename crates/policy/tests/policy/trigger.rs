//! The brakes by themselves: pause and strain.

use std::time::Duration;

use chiplet_policy::{RemapReason, Time, Trigger, TriggerConfig};
use proptest::prelude::*;

use crate::common::{most_remaps, most_strain, secs};

fn any_config() -> impl Strategy<Value = TriggerConfig> {
    (0_u64..60, 0_u64..2_000, 0_u32..8).prop_map(|(cooldown, horizon, burst)| {
        TriggerConfig::new()
            .cooldown(Some(secs(cooldown)))
            .horizon(secs(horizon))
            .burst(Some(burst))
    })
}

proptest! {
    /// The worst traffic there is: every remap that the trigger allows is made.
    #[test]
    fn remaps_keep_the_stated_bound_whatever_is_asked(
        config in any_config(),
        delays in proptest::collection::vec(0_u64..40_000, 1..300),
    ) {
        let mut trigger = Trigger::new(config);
        let mut times: Vec<Time> = Vec::new();
        for (delay, count) in delays.into_iter().zip(1_u32..) {
            let delay = if count % 3 == 0 { Duration::from_millis(delay) } else { Duration::ZERO };
            let now = trigger.ready_at() + delay;
            trigger.remapped(now);
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
        for _ in 0..remaps {
            now = trigger.ready_at();
            trigger.remapped(now);
        }
        let cooldown = config.cooldown.expect("placements change");
        now += config.horizon.max(cooldown) * (most_strain(&config) + 1);
        trigger.remapped(now);
        if config.burst != Some(0) && cooldown * 1_024 >= config.horizon {
            prop_assert_eq!(trigger.ready_at().since(now), cooldown);
        }
    }
}

#[test]
fn remaps_in_a_row_pause_longer_and_longer_after_the_burst() {
    let mut trigger = Trigger::new(TriggerConfig::default());
    let pauses: Vec<u64> = (0..10)
        .map(|_| {
            let now = trigger.ready_at();
            trigger.remapped(now);
            (trigger.ready_at().since(now)).as_secs()
        })
        .collect();
    // One unit of strain drains on the way, 300 s after the first.
    assert_eq!(pauses, [10, 10, 10, 10, 20, 40, 80, 160, 160, 300]);
}

#[test]
fn reasons_read_well_in_a_log_line() {
    let reason = RemapReason::Imbalance {
        before: 1.804,
        after: 0.05,
    };
    assert_eq!(
        reason.to_string(),
        "the busiest domain was 180 % above the mean, now 5 %"
    );
}
