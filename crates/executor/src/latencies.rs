//! Durations as a histogram that can be read: counts, mean, percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;

/// How long tasks waited or took. Values keep about two significant digits in a domain's histogram and one
/// (to 7 %) in a table's, which keeps an idle table small.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn fine() -> Self {
        Self::with_digits(2)
    }

    pub(crate) fn coarse() -> Self {
        Self::with_digits(1)
    }

    fn with_digits(digits: u8) -> Self {
        // It grows with the largest value seen, so an unused histogram is small.
        Self(Histogram::new(digits).expect("one to five significant digits are valid"))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.0
            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2));
    }

    pub(crate) fn absorb(&mut self, other: &Latencies) {
        // Both resize automatically, which is the only reason `add` can fail.
        let _ = self.0.add(&other.0);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean; zero without values.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// The largest value; zero without values.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The value that `percent` of all values do not exceed, `percent` in `0.0..=100.0`; zero without values.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }
}
