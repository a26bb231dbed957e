//! Latency histograms that many threads fill and one reads.
//!
//! A [`LatencyRecorder`] is the sum of its [`LatencyHandle`]s. Each handle has a histogram behind a lock of
//! its own, so recording threads never wait for one another; only a reader, who visits all of them in
//! turn, is ever in the way. Make one handle a thread, not one a query: a handle's histogram lives as long
//! as the recorder, so that nothing recorded is lost when its thread ends.
//!
//! Values are kept in nanoseconds with three significant digits: a percentile is off by at most 0.1 %.
//! Everything above [`LONGEST`] counts as that. Latencies should count from the *intended* send time
//! ([`Due::intended`](crate::load::Due::intended)), or a stalled system looks fast.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// The longest latency told apart. It bounds a histogram at about 270 kB.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// Relative error of 10^-3.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Collects latencies from any number of threads.
///
/// ```
/// use chiplet_workload::latency::LatencyRecorder;
/// use std::time::Duration;
///
/// let recorder = LatencyRecorder::new();
/// std::thread::scope(|scope| {
///     for thread in 0..2 {
///         let handle = recorder.handle();
///         scope.spawn(move || handle.record(Duration::from_micros(100 + thread)));
///     }
/// });
/// let summary = recorder.summary();
/// assert_eq!(summary.count, 2);
/// assert!((summary.max - 101.0).abs() < 0.2);
/// ```
#[derive(Debug, Default)]
pub struct LatencyRecorder {
    histograms: Mutex<Vec<Arc<Mutex<Histogram<u64>>>>>,
}

impl LatencyRecorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle for one more thread to record with.
    #[must_use]
    pub fn handle(&self) -> LatencyHandle {
        let histogram = Arc::new(Mutex::new(empty()));
        self.histograms.lock().push(Arc::clone(&histogram));
        LatencyHandle { histogram }
    }

    /// Adds all that `other` holds by now. `other` stays as it is.
    pub fn merge(&self, other: &LatencyRecorder) {
        // Taken first, so that no two recorders' locks are held at once.
        let theirs = other.merged();
        self.histograms.lock().push(Arc::new(Mutex::new(theirs)));
    }

    /// Percentiles of all that was recorded so far.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        LatencySummary::of(&self.merged())
    }

    /// Of all that was recorded so far, in microseconds: for each of `quantiles`, from 0 to 1, what that share is at
    /// most. All zero if nothing was recorded.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [f64; N] {
        let all = self.merged();
        quantiles.map(|quantile| at(&all, quantile))
    }

    fn merged(&self) -> Histogram<u64> {
        let mut sum = empty();
        for histogram in self.histograms.lock().iter() {
            sum.add(&*histogram.lock())
                .expect("both resize and have the same precision");
        }
        sum
    }
}

/// One thread's way to record into a [`LatencyRecorder`].
#[derive(Debug)]
pub struct LatencyHandle {
    histogram: Arc<Mutex<Histogram<u64>>>,
}

impl LatencyHandle {
    /// Counts one latency.
    pub fn record(&self, latency: Duration) {
        let nanoseconds = latency.min(LONGEST).as_nanos() as u64;
        self.histogram
            .lock()
            .record(nanoseconds)
            .expect("the histogram resizes up to LONGEST");
    }
}

/// What a [`LatencyRecorder`] holds, in microseconds. All zero if nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencySummary {
    /// Latencies recorded.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// 99.9 % are at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| at(histogram, quantile);
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1_000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1_000.0,
        }
    }
}

impl fmt::Display for LatencySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count,
            mean,
            p50,
            p90,
            p99,
            p999,
            max,
        } = self;
        write!(
            f,
            "{count} queries, mean {mean:.1} us, p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, p999 {p999:.1}, \
             max {max:.1}"
        )
    }
}

fn at(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1_000.0
}

fn empty() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("3 digits are within the 0 to 5 that are allowed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The smallest value that a share `quantile` of all values does not exceed.
    fn exact(sorted: &[u64], quantile: f64) -> f64 {
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted[rank.max(1) - 1] as f64 / 1_000.0
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorting(
            mut nanoseconds in prop::collection::vec(0_u64..10_000_000_000, 1..2_000),
            threads in 1_usize..4,
        ) {
            let recorder = LatencyRecorder::new();
            let handles: Vec<_> = (0..threads).map(|_| recorder.handle()).collect();
            for (index, &value) in nanoseconds.iter().enumerate() {
                handles[index % threads].record(Duration::from_nanos(value));
            }
            let summary = recorder.summary();
            let [p80, p9999] = recorder.quantiles([0.8, 0.9999]);
            nanoseconds.sort_unstable();
            prop_assert_eq!(summary.count, nanoseconds.len() as u64);
            for (found, expected) in [
                (summary.p50, exact(&nanoseconds, 0.5)),
                (p80, exact(&nanoseconds, 0.8)),
                (p9999, exact(&nanoseconds, 0.9999)),
                (summary.p90, exact(&nanoseconds, 0.9)),
                (summary.p99, exact(&nanoseconds, 0.99)),
                (summary.p999, exact(&nanoseconds, 0.999)),
                (summary.max, exact(&nanoseconds, 1.0)),
            ] {
                prop_assert!((found - expected).abs() <= expected * 1e-3, "{found} != {expected}");
            }
            let mean = nanoseconds.iter().sum::<u64>() as f64 / nanoseconds.len() as f64 / 1_000.0;
            prop_assert!((summary.mean - mean).abs() <= mean * 1e-3 + 1e-3);
        }
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(LatencyRecorder::new().summary(), LatencySummary::default());
    }

    #[test]
    fn merging_adds_and_leaves_the_other_alone() {
        let (a, b) = (LatencyRecorder::new(), LatencyRecorder::new());
        a.handle().record(Duration::from_micros(1));
        b.handle().record(Duration::from_micros(9));
        a.merge(&b);
        assert_eq!((a.summary().count, b.summary().count), (2, 1));
        assert!((a.summary().max - 9.0).abs() < 0.01);
    }

    #[test]
    fn a_recorder_merged_with_itself_counts_double() {
        let recorder = LatencyRecorder::new();
        recorder.handle().record(Duration::from_micros(5));
        recorder.merge(&recorder);
        assert_eq!(recorder.summary().count, 2);
    }

    #[test]
    fn what_ended_threads_recorded_stays() {
        let recorder = LatencyRecorder::new();
        for _ in 0..3 {
            let handle = recorder.handle();
            std::thread::spawn(move || handle.record(Duration::from_micros(2)))
                .join()
                .unwrap();
        }
        assert_eq!(recorder.summary().count, 3);
    }

    #[test]
    fn absurd_latencies_count_as_the_longest() {
        let recorder = LatencyRecorder::new();
        recorder.handle().record(Duration::MAX);
        let longest = LONGEST.as_secs_f64() * 1e6;
        assert!((recorder.summary().max / longest - 1.0).abs() < 1e-3);
    }
}
