//! How files call a metric.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// For `#[serde(with = "MetricName")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Metric", rename_all = "kebab-case")]
pub(crate) enum MetricName {
    L2,
    Cosine,
    InnerProduct,
}
