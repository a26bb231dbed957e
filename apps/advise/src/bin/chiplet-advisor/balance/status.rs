//! What `chiplet-advisor balance` knows after a round, and how Prometheus reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use chiplet_advise::{Features, GroupPath, Instance, Observed, Reading};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What the last round saw, and what all rounds did.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) rounds: u64,
    pub(super) bound: u64,
    pub(super) unbound: u64,
    pub(super) failed: u64,
    /// Changes in force, by the journal.
    pub(super) open: usize,
    /// How long the last decision took, and the longest.
    pub(super) decided: Duration,
    pub(super) slowest: Duration,
    /// Processor time that watching took in all.
    pub(super) watching: Duration,
    pub(super) watched: Duration,
    pub(super) observed: Observed,
    pub(super) features: BTreeMap<GroupPath, Features>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Node {
    node: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Whom {
    group: String,
    service: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Where {
    group: String,
    service: String,
    node: u32,
}

type Ratio = Gauge<f64, std::sync::atomic::AtomicU64>;

impl Status {
    /// In Prometheus' text format. Labels are those groups that the last round saw, so a group that ended leaves none.
    pub(super) fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("chiplet_balance");
        let rounds: Counter = Counter::default();
        rounds.inc_by(self.rounds);
        registry.register("rounds", "Rounds decided", rounds);
        let actions = Family::<Kind, Counter>::default();
        for (kind, count) in [
            ("bind", self.bound),
            ("unbind", self.unbound),
            ("failed", self.failed),
        ] {
            actions.get_or_create(&Kind { kind }).inc_by(count);
        }
        registry.register(
            "actions",
            "Actions taken, or announced in a dry run; failed ones apart",
            actions,
        );
        gauge(
            &mut registry,
            "changes_in_force",
            "Changes of groups in force, by the journal",
            self.open as f64,
        );
        gauge(
            &mut registry,
            "decision_seconds",
            "How long the last decision took",
            self.decided.as_secs_f64(),
        );
        let share = self.watching.as_secs_f64() / self.watched.as_secs_f64().max(1e-9);
        gauge(
            &mut registry,
            "watching_ratio",
            "Processor time that watching takes, of one hyperthread",
            share,
        );
        let busy = Family::<Node, Ratio>::default();
        for node in &self.observed.nodes {
            let level = node.busy / node.cpus.max(1.0);
            busy.get_or_create(&Node { node: node.node }).set(level);
        }
        registry.register(
            "node_busy_ratio",
            "The share of a node's cpus that is busy",
            busy,
        );
        self.instances(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes all");
        text
    }

    fn instances(&self, registry: &mut Registry) {
        type Of = fn(&Features) -> Reading;
        let features: [(&str, &str, Of); 4] = [
            ("instance_mbw_bytes_per_second", "Memory bandwidth", |of| {
                of.mbw
            }),
            (
                "instance_msr_ratio",
                "Cycles stalled on memory, of all",
                |of| of.msr,
            ),
            (
                "instance_npmr_ratio",
                "Memory that processes have mapped, of all",
                |of| of.npmr,
            ),
            (
                "instance_rmbr_ratio",
                "Remote memory traffic, of all",
                |of| of.rmbr,
            ),
        ];
        for (name, help, of) in features {
            let family = Family::<Whom, Ratio>::default();
            for instance in &self.observed.instances {
                let value = self
                    .features
                    .get(&instance.group)
                    .and_then(|features| of(features).value());
                if let Some(value) = value {
                    family.get_or_create(&whom(instance)).set(value);
                }
            }
            registry.register(name, help, family);
        }
        let (gains, bound) = (
            Family::<Where, Ratio>::default(),
            Family::<Where, Gauge>::default(),
        );
        for instance in &self.observed.instances {
            for (&node, &gain) in &instance.gains {
                gains.get_or_create(&on(instance, node)).set(gain);
            }
            if let Some(node) = instance.bound {
                bound.get_or_create(&on(instance, node)).set(1);
            }
        }
        registry.register(
            "instance_predicted_gain_ratio",
            "Share of cycles that binding to the node would save",
            gains,
        );
        registry.register(
            "instance_bound",
            "1 for the node that an instance is bound to",
            bound,
        );
    }
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: f64) {
    let gauge = Ratio::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn whom(instance: &Instance) -> Whom {
    Whom {
        group: instance.group.to_string(),
        service: instance.service.clone(),
    }
}

fn on(instance: &Instance, node: u32) -> Where {
    Where {
        group: instance.group.to_string(),
        service: instance.service.clone(),
        node,
    }
}

#[cfg(test)]
mod tests {
    use chiplet_advise::NodeLoad;

    use super::*;

    #[test]
    fn the_last_round_is_told_and_nothing_of_groups_that_ended() {
        let instance = Instance {
            group: "/search-1".parse().unwrap(),
            service: "search".to_owned(),
            bound: Some(1),
            busy: 2.0,
            quota: 4.0,
            quota_used: None,
            memory: 0,
            bandwidth: None,
            gains: BTreeMap::from([(0, 0.25)]),
        };
        let node = NodeLoad {
            node: 0,
            cpus: 8.0,
            busy: 2.0,
            ..NodeLoad::default()
        };
        let mut status = Status {
            rounds: 3,
            bound: 1,
            observed: Observed {
                nodes: vec![node],
                instances: vec![instance],
            },
            ..Status::default()
        };
        let text = status.metrics();
        for line in [
            "chiplet_balance_rounds_total 3",
            "chiplet_balance_actions_total{kind=\"bind\"} 1",
            "chiplet_balance_node_busy_ratio{node=\"0\"} 0.25",
            "chiplet_balance_instance_predicted_gain_ratio{group=\"/search-1\",service=\"search\",node=\"0\"} 0.25",
            "chiplet_balance_instance_bound{group=\"/search-1\",service=\"search\",node=\"1\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
        assert!(
            !text.contains("msr_ratio{"),
            "no figure stands for one that is missing: {text}"
        );
        status.observed.instances.clear();
        assert!(!status.metrics().contains("/search-1"));
    }
}
