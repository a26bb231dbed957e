//! How busy each node has been: a histogram for each, so that a percentile takes the same little memory after a month.

use std::collections::BTreeMap;
use std::time::Duration;

use chiplet_policy::Time;
use serde::{Deserialize, Serialize};

/// Steps of half a percent: finer than the thresholds, which are whole percents.
const STEPS: usize = 200;

/// A node's level enters once in this time, however often rounds are.
const EVERY: Duration = Duration::from_secs(60);

/// Samples after which all counts are halved: two weeks of minutes. So a week counts as much as all before it.
const FULL: u32 = 2 * 7 * 24 * 60;

/// How busy each node has been. It can be written and read back, so that a policy that is started again knows the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    nodes: BTreeMap<u32, Levels>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Levels {
    counts: Vec<u32>,
    #[serde(skip)]
    last: Option<Time>,
}

impl Past {
    /// Enters that a node was so busy, unless it has been told less than a minute ago.
    pub(super) fn record(&mut self, node: u32, now: Time, level: f64) {
        let levels = self.nodes.entry(node).or_default();
        if levels.last.is_some_and(|last| now.since(last) < EVERY) {
            return;
        }
        levels.last = Some(now);
        levels.counts.resize(STEPS, 0);
        // NaN becomes 0.
        let step = ((level * STEPS as f64) as usize).min(STEPS - 1);
        levels.counts[step] = levels.counts[step].saturating_add(1);
        if levels.total() >= u64::from(FULL) {
            levels.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// The level that the node has exceeded in no more than a share `1 - part` of its samples; `None` before there were
    /// `least` of them.
    pub(super) fn percentile(&self, node: u32, part: f64, least: u32) -> Option<f64> {
        let levels = self.nodes.get(&node)?;
        let total = levels.total();
        if total < u64::from(least.max(1)) {
            return None;
        }
        let wanted = (part * total as f64).ceil();
        let mut seen = 0_u64;
        let reached = |count: &u32| {
            seen += u64::from(*count);
            seen as f64 >= wanted
        };
        let step = levels.counts.iter().take(STEPS).position(reached);
        Some((step.unwrap_or(STEPS - 1) + 1) as f64 / STEPS as f64)
    }

    /// Forgets nodes that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.nodes.retain(|node, _| is_there(*node));
    }
}

impl Levels {
    fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn minute(minute: u64) -> Time {
        Time::from_secs(60 * minute)
    }

    #[test]
    fn a_percentile_needs_a_past_and_follows_the_last_weeks() {
        let mut past = Past::default();
        for at in 0..100 {
            past.record(0, minute(at), at as f64 / 100.0);
            // A second round within the minute does not count.
            past.record(0, minute(at) + Duration::from_secs(30), 1.0);
        }
        assert_eq!(past.percentile(0, 0.95, 101), None);
        assert_eq!(past.percentile(1, 0.95, 1), None);
        let p95 = past.percentile(0, 0.95, 100).unwrap();
        assert!((0.94..=0.955).contains(&p95), "{p95}");
        for at in 100..100 + 3 * u64::from(FULL) {
            past.record(0, minute(at), 0.3);
        }
        assert!(past.percentile(0, 0.95, 1).unwrap() < 0.31);
        assert!(past.nodes[&0].total() < u64::from(FULL));
    }

    #[test]
    fn it_reads_back() {
        let mut past = Past::default();
        past.record(3, minute(1), 0.7);
        let text = serde_json::to_string(&past).unwrap();
        let again: Past = serde_json::from_str(&text).unwrap();
        assert_eq!(again.percentile(3, 0.95, 1), past.percentile(3, 0.95, 1));
    }

    proptest! {
        #[test]
        fn no_level_and_no_stored_past_makes_it_panic(
            levels in prop::collection::vec(any::<f64>(), 1..50),
            counts in prop::collection::vec(any::<u32>(), 0..400),
            part in any::<f64>(),
        ) {
            let counts = Levels { counts, last: None };
            let mut past = Past { nodes: BTreeMap::from([(0, counts)]) };
            for (at, level) in levels.into_iter().enumerate() {
                past.record(0, minute(at as u64), level);
            }
            let found = past.percentile(0, part, 0).unwrap();
            prop_assert!((0.0..=1.0).contains(&found));
        }
    }
}
