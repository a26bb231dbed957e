//! Durations as a histogram: counts, sums, percentiles.

use std::time::Duration;

/// Nanoseconds, an hour's. Longer values count as this one, which bounds a histogram's memory.
const LONGEST: u64 = 3_600_000_000_000;

/// Buckets of each octave, as a power of two: a value is known to a sixteenth, so its bucket's middle to 3 %.
const PARTS: u32 = 4;

/// How long tasks waited or took, at most an hour each. Values are kept to 3 %.
///
/// Buckets are as wide as their values, as in `HdrHistogram`: sixteen for each octave. Only those from the smallest to
/// the largest value seen take memory, so a histogram without values takes some words, and a usual one a kilobyte.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// The bucket of `counts[0]`.
    first: usize,
    counts: Vec<u64>,
    count: u64,
    /// Nanoseconds.
    sum: u64,
}

/// The bucket of so many nanoseconds. Up to the first two octaves a bucket is one nanosecond.
fn bucket(nanos: u64) -> usize {
    let octave = (nanos | (1 << PARTS)).ilog2() - PARTS;
    ((octave as usize) << PARTS) + (nanos >> octave) as usize
}

/// The nanoseconds from which on a value lies in this bucket.
fn lowest(bucket: usize) -> u64 {
    let octave = (bucket >> PARTS).saturating_sub(1);
    ((bucket - (octave << PARTS)) as u64) << octave
}

/// What stands for all values of a bucket.
fn middle(bucket: usize) -> u64 {
    lowest(bucket).midpoint(lowest(bucket + 1) - 1)
}

/// Nanoseconds, at most [`LONGEST`].
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST))
}

impl Latencies {
    /// Records so many nanoseconds for so many tasks: those of a batch's part.
    #[inline]
    pub(crate) fn record_many(&mut self, nanos: u64, tasks: u64) {
        let nanos = nanos.min(LONGEST);
        self.count += tasks;
        self.sum = self.sum.saturating_add(nanos.saturating_mul(tasks));
        let bucket = bucket(nanos);
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(count) => *count += tasks,
            None => *self.widen(bucket) += tasks,
        }
    }

    /// Makes room for a bucket that no value was in.
    #[cold]
    fn widen(&mut self, bucket: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        let before = self.first.saturating_sub(bucket);
        self.counts.splice(0..0, std::iter::repeat_n(0, before));
        self.first -= before;
        let at = bucket - self.first;
        let len = self.counts.len().max(at + 1);
        self.counts.resize(len, 0);
        &mut self.counts[at]
    }

    /// The buckets in use, each with how many values it has, from the smallest on.
    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied();
        let buckets = (self.first..).zip(counts);
        buckets.filter(|&(_, count)| count > 0)
    }

    pub(crate) fn absorb(&mut self, other: &Latencies) {
        for (bucket, count) in other.buckets() {
            *self.widen(bucket) += count;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The values recorded since `earlier`, an older reading of the same histogram: what a live display shows. Values
    /// that only `earlier` holds, as after mixing two histograms up, are left out.
    #[must_use]
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let mut recent = self.clone();
        for (bucket, before) in earlier.buckets() {
            if let Some(count) = recent.counts.get_mut(bucket.wrapping_sub(self.first)) {
                *count = count.saturating_sub(before);
            }
        }
        recent.count = recent.counts.iter().sum();
        recent.sum = self.sum.saturating_sub(earlier.sum);
        recent
    }

    /// How many values are at most `time`, to the histogram's precision: a bucket of a cumulative histogram.
    pub fn count_at_most(&self, time: Duration) -> u64 {
        let last = bucket(nanos(time));
        let within = self.buckets().take_while(|&(bucket, _)| bucket <= last);
        within.map(|(_, count)| count).sum()
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All values added up. Never less than at an earlier reading.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The largest value, to the histogram's precision; zero without values.
    pub fn max(&self) -> Duration {
        let largest = self.buckets().last();
        Duration::from_nanos(largest.map_or(0, |(bucket, _)| lowest(bucket + 1) - 1))
    }

    /// The value that `percent` of all values do not exceed, `percent` in `0.0..=100.0`; zero without values.
    pub fn percentile(&self, percent: f64) -> Duration {
        let rank = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.buckets().find(|&(_, count)| {
            below += count;
            below >= rank
        });
        Duration::from_nanos(found.map_or(0, |(bucket, _)| middle(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_values() {
        let mut last = 0;
        for nanos in (0..2_000_000).step_by(7).chain([3_600_000_000_000]) {
            let bucket = bucket(nanos);
            assert!(lowest(bucket) <= nanos && nanos < lowest(bucket + 1));
            assert!((middle(bucket) as f64 - nanos as f64).abs() <= 1.0 + nanos as f64 / 31.0);
            assert!(bucket >= last);
            last = bucket;
        }
        let neighbours = (0..600).map(|bucket| (lowest(bucket), lowest(bucket + 1)));
        assert!(neighbours.into_iter().all(|(this, next)| this < next));
    }

    #[test]
    fn percentiles_are_right_to_what_is_promised() {
        let mut latencies = Latencies::default();
        // From the largest on, so that buckets are added at both ends.
        for micros in (1..=1_000).rev() {
            latencies.record_many(nanos(Duration::from_micros(micros)), 1);
        }
        for percent in [1.0, 50.0, 99.0] {
            let micros = latencies.percentile(percent).as_secs_f64() * 1e6;
            assert!(
                (micros / (10.0 * percent) - 1.0).abs() <= 0.04,
                "{percent} %: {micros} us"
            );
        }
        assert_eq!(latencies.count(), 1_000);
        assert_eq!(latencies.sum(), Duration::from_nanos(500_500_000));
    }

    #[test]
    fn a_bucket_counts_beyond_four_billion() {
        let short = Duration::from_micros(10);
        let mut histogram = Latencies::default();
        histogram.record_many(nanos(short), 1 << 33);
        let earlier = histogram.clone();
        histogram.record_many(nanos(short), 1_000_000_000);
        let recent = histogram.since(&earlier);
        assert_eq!(recent.count(), 1_000_000_000);
        assert!(recent.percentile(50.0) < 2 * short);
        assert!(histogram.sum() > earlier.sum());
    }

    #[test]
    fn no_duration_is_too_long() {
        let mut latencies = Latencies::default();
        latencies.record_many(u64::MAX, 1);
        assert!(nanos(latencies.max()) >= LONGEST);
        assert_eq!(latencies.count_at_most(Duration::MAX), 1);
    }

    #[test]
    fn a_later_reading_less_an_earlier_one_is_what_came_between() {
        let mut histogram = Latencies::default();
        histogram.record_many(nanos(Duration::from_micros(10)), 1);
        let earlier = histogram.clone();
        histogram.record_many(nanos(Duration::from_micros(10)), 1);
        histogram.record_many(nanos(Duration::from_secs(2)), 1);
        let recent = histogram.since(&earlier);
        assert_eq!(recent.count(), 2);
        let sum = recent.sum().as_secs_f64();
        assert!((1.98..=2.02).contains(&sum), "{sum}");
        assert_eq!(recent.count_at_most(Duration::from_micros(11)), 1);
        assert_eq!(recent.since(&histogram).count(), 0);
        // A new tail beyond all that was there before.
        let mut longer = histogram.clone();
        longer.record_many(nanos(Duration::from_secs(100)), 1);
        longer.record_many(nanos(Duration::from_secs(200)), 1);
        assert_eq!(longer.since(&histogram).count(), 2);
    }

    #[test]
    fn cumulative_counts_grow_to_the_whole() {
        let mut histogram = Latencies::default();
        assert_eq!(histogram.count_at_most(Duration::MAX), 0);
        for micros in 1..=100 {
            histogram.record_many(nanos(Duration::from_micros(micros)), 1);
        }
        assert_eq!(histogram.count_at_most(Duration::ZERO), 0);
        assert!((50..=51).contains(&histogram.count_at_most(Duration::from_micros(50))));
        assert_eq!(histogram.count_at_most(Duration::MAX), 100);
    }

    #[test]
    fn absorbing_adds_up() {
        let (mut a, mut b) = (Latencies::default(), Latencies::default());
        a.record_many(nanos(Duration::from_micros(1)), 1);
        b.record_many(nanos(Duration::from_secs(100)), 1);
        a.absorb(&b);
        assert_eq!(a.count(), 2);
        assert!(a.max() >= Duration::from_secs(99));
    }
}
