//! The sliding windows against a model that keeps every record.

use std::time::Duration;

use chiplet_policy::{Rates, Time, Usage, UsageWindows, WindowConfig};
use proptest::prelude::*;

use crate::common::{at, table};

/// Three nanoseconds for each byte, so that one model tells both.
fn usage(bytes: u64) -> Usage {
    Usage {
        busy: Duration::from_nanos(bytes.saturating_mul(3)),
        bytes,
    }
}

/// Keeps all records and sums them anew for each question.
struct Naive {
    config: WindowConfig,
    records: Vec<(u128, u64)>,
}

impl Naive {
    fn rate(&self, length: Duration, now: Time) -> f64 {
        let Some(&(first, _)) = self.records.first() else {
            return 0.0;
        };
        let last = self.records.last().expect("not empty").0;
        let buckets = u128::from(self.config.buckets);
        let width = length.as_nanos() / buckets;
        let now = u128::from(now.as_nanos()).max(last);
        let oldest = (now / width + 1).saturating_sub(buckets);
        let bytes: u64 = self
            .records
            .iter()
            .filter(|(at, _)| at / width >= oldest)
            .map(|(_, bytes)| bytes)
            .sum();
        let span = (now - first.max(oldest * width)).max(width);
        bytes as f64 / (span as f64 / 1e9)
    }

    fn rates(&self, now: Time) -> Rates {
        Rates {
            fast: self.rate(self.config.fast, now),
            slow: self.rate(self.config.slow, now),
        }
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #[test]
    fn rates_are_those_of_a_model_that_forgets_nothing(
        buckets in 1_u32..13,
        steps in proptest::collection::vec((-2_000_i64..30_000, 0_u64..1 << 40), 1..80),
        quiet in 0_u64..100_000,
    ) {
        let config = WindowConfig::new().buckets(buckets);
        let mut windows = UsageWindows::new(config);
        let mut naive = Naive { config, records: Vec::new() };
        // Time mostly goes on and sometimes steps back a little.
        let mut clock = 5_000_i64;
        for (step, bytes) in steps {
            clock = (clock + step / 4).max(0);
            let now = Time::from_millis(clock as u64);
            windows.record(table(7), now, usage(bytes));
            let latest = naive.records.last().map_or(0, |&(at, _)| at);
            naive.records.push((u128::from(now.as_nanos()).max(latest), bytes));
            for later in [0, quiet / 10, quiet] {
                let then = now + Duration::from_millis(later);
                let (got, expected) = (windows.traffic(table(7), then), naive.rates(then));
                prop_assert!(close(got.fast, expected.fast), "{got:?} {expected:?} {then:?}");
                prop_assert!(close(got.slow, expected.slow), "{got:?} {expected:?} {then:?}");
                let load = windows.load(table(7), then);
                prop_assert!(close(load.fast, got.fast * 3e-9), "{load:?} {got:?} {then:?}");
                prop_assert!(close(load.slow, got.slow * 3e-9), "{load:?} {got:?} {then:?}");
            }
        }
    }

    /// Windows of any length, several tables in one, some of them forgotten on the way.
    #[test]
    fn tables_do_not_mix_and_a_forgotten_one_starts_anew(
        buckets in 1_u32..13,
        fast_ms in 1_u64..20_000,
        slow_ms in 1_u64..90_000,
        steps in proptest::collection::vec((0_u64..5_000, 0_u32..4, 0_u64..1 << 40, 0_u32..12), 1..80),
        quiet in 0_u64..100_000,
    ) {
        let config = WindowConfig::new().fast(Duration::from_millis(fast_ms)).slow(Duration::from_millis(slow_ms)).buckets(buckets);
        let empty = || Naive { config, records: Vec::new() };
        let mut windows = UsageWindows::new(config);
        let mut naive = [empty(), empty(), empty(), empty()];
        let mut clock = 0;
        for (step, slot, bytes, fate) in steps {
            clock += step;
            let now = Time::from_millis(clock);
            if fate == 0 {
                windows.forget(table(slot));
                naive[slot as usize] = empty();
            } else {
                windows.record(table(slot), now, usage(bytes));
                naive[slot as usize].records.push((u128::from(now.as_nanos()), bytes));
            }
            for then in [now, now + Duration::from_millis(quiet)] {
                for (slot, naive) in (0..).zip(&naive) {
                    let (got, expected) = (windows.traffic(table(slot), then), naive.rates(then));
                    prop_assert!(close(got.fast, expected.fast), "{slot}: {got:?} {expected:?}");
                    prop_assert!(close(got.slow, expected.slow), "{slot}: {got:?} {expected:?}");
                }
                let known = naive.iter().filter(|naive| !naive.records.is_empty()).count();
                let listed: Vec<_> = windows.tables().collect();
                prop_assert_eq!(listed.len(), known);
                prop_assert!(listed.is_sorted_by(|a, b| a < b));
            }
        }
    }

    #[test]
    fn asking_changes_nothing(seconds in proptest::collection::vec(0_u64..200, 1..20)) {
        let record = |windows: &mut UsageWindows, second: u64| {
            windows.record(table(0), at(second), usage(second + 1));
        };
        let mut asked = UsageWindows::new(WindowConfig::default());
        let mut left_alone = asked.clone();
        for second in seconds {
            record(&mut asked, second);
            record(&mut left_alone, second);
            asked.traffic(table(0), at(second + 500));
        }
        let now = at(200);
        prop_assert_eq!(asked.traffic(table(0), now), left_alone.traffic(table(0), now));
    }
}

#[test]
fn a_steady_stream_has_its_own_rate_in_both_windows() {
    let mut windows = UsageWindows::new(WindowConfig::default());
    for tenth in 0..1_200 {
        windows.record(table(0), Time::from_millis(100 * tenth), usage(100));
        let rates = windows.traffic(table(0), Time::from_millis(100 * tenth + 100));
        if tenth >= 70 {
            assert!(
                (950.0..=1_050.0).contains(&rates.fast),
                "{rates:?} at {tenth}"
            );
            assert!(
                (950.0..=1_050.0).contains(&rates.slow),
                "{rates:?} at {tenth}"
            );
        }
    }
}

#[test]
fn the_first_query_is_no_burst() {
    let mut windows = UsageWindows::new(WindowConfig::default());
    windows.record(table(0), at(100), usage(6_000));
    let rates = windows.traffic(table(0), at(100));
    assert_eq!((rates.fast, rates.slow), (6_000.0, 1_000.0));
}

#[test]
fn a_forgotten_table_has_no_traffic_and_costs_nothing() {
    let mut windows = UsageWindows::new(WindowConfig::default());
    windows.record(table(1), at(1), usage(10));
    windows.record(table(0), at(1), usage(10));
    let order: Vec<_> = windows.tables().collect();
    assert_eq!(order, [table(0), table(1)]);
    windows.forget(table(1));
    assert_eq!(windows.traffic(table(1), at(1)), Rates::default());
    assert_eq!(windows.tables().count(), 1);
    windows.forget(table(0));
    assert_eq!(windows.tables().count(), 0);
}

#[test]
fn windows_of_no_length_and_the_end_of_time_do_not_panic() {
    let config = WindowConfig::new()
        .fast(Duration::ZERO)
        .slow(Duration::ZERO)
        .buckets(0);
    let mut windows = UsageWindows::new(config);
    for now in [Time::ZERO, at(1), Time::MAX] {
        windows.record(table(0), now, usage(u64::MAX));
        assert!(windows.traffic(table(0), now).fast.is_finite());
    }
}
