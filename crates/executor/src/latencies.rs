//! Durations as a histogram that can be read: counts, mean, percentiles.

use std::time::Duration;

use hdrhistogram::{Counter, Histogram};

/// Longer values count as this one, which bounds a histogram's memory.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// A table's histogram tells nothing apart below this, for half the memory; no search is that short.
const TABLE_RESOLUTION: Duration = Duration::from_micros(1);

/// How long tasks waited or took, at most an hour each. Values keep about two significant digits in a domain's
/// histogram and one (to 7 %) in a table's, which also tells nothing apart below a microsecond.
///
/// Without values it takes a word: most of very many tables have none.
#[derive(Clone, Debug)]
pub struct Latencies(Option<Box<Histogram<u64>>>);

/// A table's histogram, as small as it can be: it is kept once for each table in use and domain. A small counter would
/// stop at 4 billion, which a busy table reaches in hours. So before any of them could, all are added to wide ones;
/// only a table that has had that many tasks in a domain has those.
#[derive(Clone, Debug)]
pub(crate) struct CompactLatencies {
    /// Has fewer than 2^32 values in all, so no counter of it is full.
    recent: Histogram<u32>,
    /// All before.
    folded: Option<Box<Histogram<u64>>>,
}

fn growing<C: Counter>(resolution: Duration, digits: u8) -> Histogram<C> {
    let low = resolution.as_nanos() as u64;
    let mut histogram =
        Histogram::new_with_bounds(low, 2 * low, digits).expect("these bounds are valid");
    // It grows with the largest value seen, so an unused histogram is small.
    histogram.auto(true);
    histogram
}

fn record<C: Counter>(histogram: &mut Histogram<C>, time: Duration, times: C) {
    // Not `saturating_record`: it clamps to the present size instead of growing.
    let recorded = histogram.record_n(time.min(LONGEST).as_nanos() as u64, times);
    debug_assert!(recorded.is_ok(), "it grows by itself");
}

impl CompactLatencies {
    pub(crate) fn new() -> Self {
        Self {
            recent: growing(TABLE_RESOLUTION, 1),
            folded: None,
        }
    }

    /// Records `time` for so many tasks: those of a batch's part.
    pub(crate) fn record_many(&mut self, time: Duration, tasks: u64) {
        let fits = self.recent.len().checked_add(tasks);
        if fits.is_some_and(|count| count <= u64::from(u32::MAX)) {
            return record(&mut self.recent, time, tasks as u32);
        }
        let mut wide = self.expand();
        wide.record_many(time, tasks);
        self.folded = wide.0;
        self.recent.reset();
    }

    /// The same values, for reading.
    pub(crate) fn expand(&self) -> Latencies {
        let mut wide = match &self.folded {
            Some(folded) => folded.clone(),
            None => Box::new(growing(TABLE_RESOLUTION, 1)),
        };
        for bucket in self.recent.iter_recorded() {
            let recorded = wide.record_n(
                bucket.value_iterated_to(),
                u64::from(bucket.count_at_value()),
            );
            debug_assert!(recorded.is_ok(), "it grows by itself");
        }
        Latencies(Some(wide))
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    pub(crate) fn record_many(&mut self, time: Duration, tasks: u64) {
        let fine = || Box::new(growing(Duration::from_nanos(1), 2));
        record(self.0.get_or_insert_with(fine), time, tasks);
    }

    pub(crate) fn absorb(&mut self, other: &Latencies) {
        match (&mut self.0, &other.0) {
            (Some(own), Some(other)) => {
                // Both resize automatically, which is the only reason `add` can fail.
                let _ = own.add(&**other);
            }
            (None, Some(other)) => self.0 = Some(other.clone()),
            (_, None) => {}
        }
    }

    /// What a histogram says; zero without one.
    fn told<R: Default>(&self, tell: impl FnOnce(&Histogram<u64>) -> R) -> R {
        self.0.as_deref().map(tell).unwrap_or_default()
    }

    /// The values recorded since `earlier`, an older reading of the same histogram: what a live display shows. Values
    /// that only `earlier` holds, as after mixing two histograms up, are left out.
    #[must_use]
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let (Some(now), Some(earlier)) = (&self.0, &earlier.0) else {
            return self.clone();
        };
        let mut recent = Histogram::new_from(now);
        recent.auto(true);
        for bucket in now.iter_recorded() {
            let value = bucket.value_iterated_to();
            // Beyond its range a histogram answers for its last bucket.
            let before = match value > earlier.max() {
                true => 0,
                false => earlier.count_at(value),
            };
            let new = bucket.count_at_value().saturating_sub(before);
            let recorded = recent.record_n(value, new);
            debug_assert!(recorded.is_ok(), "it grows by itself");
        }
        Self(Some(Box::new(recent)))
    }

    /// How many values are at most `time`, to the histogram's precision: a bucket of a cumulative histogram.
    pub fn count_at_most(&self, time: Duration) -> u64 {
        self.told(|all| all.count_between(0, time.min(LONGEST).as_nanos() as u64))
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.told(Histogram::len)
    }

    /// All values added up, each to the histogram's precision. Never less than at an earlier reading.
    pub fn sum(&self) -> Duration {
        let nanos = self.told(|all| {
            let sums = all.iter_recorded().map(|bucket| {
                u128::from(all.median_equivalent(bucket.value_iterated_to()))
                    * u128::from(bucket.count_at_value())
            });
            sums.sum::<u128>()
        });
        Duration::new((nanos / SECOND) as u64, (nanos % SECOND) as u32)
    }

    /// The mean; zero without values.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.told(Histogram::mean) as u64)
    }

    /// The largest value; zero without values.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.told(Histogram::max))
    }

    /// The value that `percent` of all values do not exceed, `percent` in `0.0..=100.0`; zero without values.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.told(|all| all.value_at_percentile(percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(latencies: &Latencies, error: f64) {
        for percent in [1.0, 50.0, 99.0] {
            let micros = latencies.percentile(percent).as_secs_f64() * 1e6;
            assert!(
                (micros / (10.0 * percent) - 1.0).abs() <= error,
                "{percent} %: {micros} us"
            );
        }
        assert_eq!(latencies.count(), 1_000);
    }

    #[test]
    fn percentiles_are_right_to_the_digits_promised() {
        let (mut fine, mut compact) = (Latencies::new(), CompactLatencies::new());
        for micros in 1..=1_000 {
            fine.record_many(Duration::from_micros(micros), 1);
            compact.record_many(Duration::from_micros(micros), 1);
        }
        check(&fine, 0.01);
        check(&compact.expand(), 0.13);
    }

    #[test]
    fn a_bucket_counts_beyond_four_billion() {
        let short = Duration::from_micros(10);
        let mut histogram = CompactLatencies::new();
        histogram.record_many(short, 4_000_000_000);
        let earlier = histogram.expand();
        for _ in 0..10 {
            histogram.record_many(short, 100_000_000);
            histogram.record_many(10 * short, 1_000_000);
        }
        // More at once than a small counter holds.
        histogram.record_many(10 * short, 1 << 33);
        histogram.record_many(short, 1 << 33);
        let all = histogram.expand();
        assert_eq!(all.count(), 5_010_000_000 + (1 << 34));
        let recent = all.since(&earlier);
        assert_eq!(recent.count(), 1_010_000_000 + (1 << 34));
        let median = recent.percentile(50.0);
        assert!(median < 2 * short, "{median:?}");
        assert!(all.sum() > earlier.sum());
    }

    #[test]
    fn no_duration_is_too_long() {
        let mut latencies = CompactLatencies::new();
        latencies.record_many(Duration::MAX, 1);
        assert!(latencies.expand().max() >= LONGEST);
    }

    #[test]
    fn a_later_reading_less_an_earlier_one_is_what_came_between() {
        let mut histogram = Latencies::new();
        histogram.record_many(Duration::from_micros(10), 1);
        let earlier = histogram.clone();
        histogram.record_many(Duration::from_micros(10), 1);
        histogram.record_many(Duration::from_secs(2), 1);
        let recent = histogram.since(&earlier);
        assert_eq!(recent.count(), 2);
        let sum = recent.sum().as_secs_f64();
        assert!((1.98..=2.02).contains(&sum), "{sum}");
        assert_eq!(recent.count_at_most(Duration::from_micros(11)), 1);
        assert_eq!(recent.since(&histogram).count(), 0);
        // A new tail beyond all that was there before.
        let mut longer = histogram.clone();
        longer.record_many(Duration::from_secs(100), 1);
        longer.record_many(Duration::from_secs(200), 1);
        assert_eq!(longer.since(&histogram).count(), 2);
    }

    #[test]
    fn cumulative_counts_grow_to_the_whole() {
        let mut histogram = Latencies::new();
        assert_eq!(histogram.count_at_most(Duration::MAX), 0);
        for micros in 1..=100 {
            histogram.record_many(Duration::from_micros(micros), 1);
        }
        assert_eq!(histogram.count_at_most(Duration::ZERO), 0);
        assert!((50..=51).contains(&histogram.count_at_most(Duration::from_micros(50))));
        assert_eq!(histogram.count_at_most(Duration::MAX), 100);
    }

    #[test]
    fn absorbing_adds_up() {
        let (mut a, mut b) = (Latencies::new(), Latencies::new());
        a.record_many(Duration::from_micros(1), 1);
        b.record_many(Duration::from_secs(100), 1);
        a.absorb(&b);
        assert_eq!(a.count(), 2);
        assert!(a.max() >= Duration::from_secs(99));
    }
}
