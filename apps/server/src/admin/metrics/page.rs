//! How one metric after the other is written, in the OpenMetrics format.

use std::fmt;
use std::time::Duration;

use chiplet::snapshot::Latencies;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Upper bounds of the histograms' buckets, in seconds: a search takes tens of microseconds to tens of milliseconds,
/// a full queue's wait up to a second.
pub(super) const BUCKETS: [f64; 16] = [
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1,
    0.25, 1.0, 10.0,
];

/// Writes one metric after the other.
pub(super) struct Page<'a>(pub(super) DescriptorEncoder<'a>);

pub(super) type Labels = Vec<(&'static str, String)>;

impl Page<'_> {
    fn metric(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        values: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        values(self.0.encode_descriptor(name, help, unit, kind)?)
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: f64,
    ) -> fmt::Result {
        self.metric(name, help, unit, MetricType::Gauge, |metric| {
            ConstGauge::new(value).encode(metric)
        })
    }

    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: f64,
    ) -> fmt::Result {
        self.metric(name, help, unit, MetricType::Counter, |metric| {
            ConstCounter::new(value).encode(metric)
        })
    }

    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, f64)>,
    ) -> fmt::Result {
        self.metric(name, help, None, MetricType::Gauge, |mut metric| {
            for (labels, value) in values {
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, u64)>,
    ) -> fmt::Result {
        self.metric(name, help, None, MetricType::Counter, |mut metric| {
            for (labels, value) in values {
                ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, Latencies)>,
    ) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        self.metric(name, help, unit, MetricType::Histogram, |mut metric| {
            for (labels, latencies) in values {
                let mut below = 0;
                let mut buckets: Vec<(f64, u64)> = BUCKETS
                    .iter()
                    .map(|&bound| {
                        let all = latencies.count_at_most(Duration::from_secs_f64(bound));
                        let here = all - below;
                        below = all;
                        (bound, here)
                    })
                    .collect();
                buckets.push((f64::INFINITY, latencies.count() - below));
                let sum = latencies.sum().as_secs_f64();
                metric.encode_family(&labels)?.encode_histogram::<Labels>(
                    sum,
                    latencies.count(),
                    &buckets,
                    None,
                )?;
            }
            Ok(())
        })
    }
}
