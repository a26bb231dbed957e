//! What a snapshot looks like to serde: counts as they are, times in microseconds, histograms as their usual
//! percentiles.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::Placement;
use chiplet_topology::DomainId;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::TableSnapshot;
use crate::latencies::Latencies;

/// Writes the fields named, each by an expression, as a struct of that name.
macro_rules! fields {
    ($serializer:ident, $name:literal, { $($field:literal: $value:expr,)* }) => {{
        let count = [$($field),*].len();
        let mut fields = $serializer.serialize_struct($name, count)?;
        $(fields.serialize_field($field, &$value)?;)*
        fields.end()
    }};
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn in_micros<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(micros(*time))
}

pub(super) fn number<S: Serializer>(domain: &DomainId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(domain.0)
}

/// The placement is told by the tables' homes.
pub(super) fn version<S: Serializer>(of: &Arc<Placement>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(of.version())
}

/// Homes are pairs of a domain's number and its share of the table's queries, memory pairs of a node's number and
/// bytes.
impl Serialize for TableSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let homes = self.homes.iter();
        let homes: Vec<_> = homes.map(|home| (home.domain.0, home.share())).collect();
        fields!(serializer, "TableSnapshot", {
            "id": self.id.to_string(),
            "name": *self.name,
            "counts": self.counts,
            "homes": homes,
            "memory": self.memory,
            "copies": self.copies,
            "load_fast": self.load.fast,
            "load_slow": self.load.slow,
            "traffic_fast": self.traffic.fast,
            "traffic_slow": self.traffic.slow,
            "wait": self.wait,
            "service": self.service,
        })
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let percentile = |percent| micros(self.percentile(percent));
        fields!(serializer, "Latencies", {
            "count": self.count(),
            "sum_us": micros(self.sum()),
            "p50_us": percentile(50.0),
            "p90_us": percentile(90.0),
            "p99_us": percentile(99.0),
            "p999_us": percentile(99.9),
            "max_us": micros(self.max()),
        })
    }
}
