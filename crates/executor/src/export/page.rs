//! One export to a recorder: each metric with its unit, its description and its values.

use std::time::Duration;

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use rustc_hash::FxHashMap;

use crate::latencies::Latencies;

/// What filters of exporters see of where a metric comes from.
const ORIGIN: Metadata<'static> = Metadata::new("chiplet", Level::INFO, Some(module_path!()));

/// What is exported of a histogram: the label, and the percentile that it is.
const QUANTILES: [(&str, f64); 4] = [
    ("0.5", 50.0),
    ("0.9", 90.0),
    ("0.99", 99.0),
    ("0.999", 99.9),
];

pub(super) type Labels = Vec<Label>;

/// The values that gauges have been set to.
pub(super) type Levels = FxHashMap<Key, f64>;

/// Writes one metric after the other. Several values under one name with the same labels are added up.
pub(super) struct Page<'a> {
    recorder: &'a dyn Recorder,
    levels: Levels,
}

impl<'a> Page<'a> {
    pub(super) fn new(recorder: &'a dyn Recorder) -> Self {
        Self {
            recorder,
            levels: Levels::default(),
        }
    }

    /// Counters, each with what it has grown by.
    pub(super) fn counters(
        &self,
        name: impl Into<KeyName>,
        unit: Option<Unit>,
        help: &'static str,
        grown: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let name = name.into();
        self.recorder
            .describe_counter(name.clone(), unit, help.into());
        for (labels, grown) in grown {
            // Also by nothing: then it is there from the beginning, and an exporter sees that it is in use.
            self.recorder
                .register_counter(&Key::from_parts(name.clone(), labels), &ORIGIN)
                .increment(grown);
        }
    }

    /// Times that only grow, each with what it has grown by. Counters are whole numbers, so these are gauges.
    pub(super) fn times(
        &self,
        name: impl Into<KeyName>,
        unit: Option<Unit>,
        help: &'static str,
        grown: impl IntoIterator<Item = (Labels, Duration)>,
    ) {
        let name = name.into();
        self.recorder
            .describe_gauge(name.clone(), unit, help.into());
        for (labels, grown) in grown {
            self.recorder
                .register_gauge(&Key::from_parts(name.clone(), labels), &ORIGIN)
                .increment(grown.as_secs_f64());
        }
    }

    /// Gauges of what is so now.
    pub(super) fn levels(
        &mut self,
        name: impl Into<KeyName>,
        unit: Option<Unit>,
        help: &'static str,
        levels: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let name = name.into();
        self.recorder
            .describe_gauge(name.clone(), unit, help.into());
        for (labels, level) in levels {
            let key = Key::from_parts(name.clone(), labels);
            *self.levels.entry(key).or_default() += level;
        }
    }

    /// The times that tasks took, each with what has come: quantiles of that, and under `_count` and `_sum` what only
    /// grows, as a summary of Prometheus has them. Not `metrics`' histograms: exporters keep each task's value until
    /// they are read.
    pub(super) fn latencies<'l>(
        &mut self,
        name: &'static str,
        unit: Option<Unit>,
        help: &'static str,
        came: impl IntoIterator<Item = (Labels, &'l Latencies)>,
    ) {
        let mut merged: FxHashMap<Labels, Latencies> = FxHashMap::default();
        for (labels, came) in came {
            merged.entry(labels).or_default().absorb(came);
        }
        let quantiles = merged.iter().flat_map(|(labels, came)| {
            QUANTILES.map(|(quantile, percent)| {
                let mut labels = labels.clone();
                labels.push(Label::new("quantile", quantile));
                (labels, came.percentile(percent).as_secs_f64())
            })
        });
        self.levels(name, unit, help, quantiles);
        let all = || merged.iter();
        let counts = all().map(|(labels, came)| (labels.clone(), came.count()));
        self.counters(format!("{name}_count"), Some(Unit::Count), help, counts);
        let sums = all().map(|(labels, came)| (labels.clone(), came.sum()));
        self.times(format!("{name}_sum"), unit, help, sums);
    }

    /// Sets the gauges, those to zero that the last export has set and this one has not. Returns what it has set.
    pub(super) fn end(self, last: &Levels) -> Levels {
        let set = |key: &Key, level| self.recorder.register_gauge(key, &ORIGIN).set(level);
        for (key, &level) in &self.levels {
            set(key, level);
        }
        for key in last.keys().filter(|key| !self.levels.contains_key(key)) {
            set(key, 0.0);
        }
        self.levels
    }
}
