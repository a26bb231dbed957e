//! What a round is given.

use std::collections::BTreeMap;

use crate::group::GroupPath;

/// The machine, as it was in the last minute or so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Its nodes with cpus.
    pub nodes: Vec<NodeLoad>,
    /// The instances that may be bound and unbound; others only show as load of their nodes.
    pub instances: Vec<Instance>,
}

/// How a node is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// As the operating system numbers it.
    pub node: u32,
    /// Its logical processors.
    pub cpus: f64,
    /// How many of them are busy.
    pub busy: f64,
    /// Processors that no bound instance's quota has claimed; may be negative.
    pub quota_left: f64,
    /// Its memory, in bytes; 0 if it does not tell.
    pub memory: u64,
    /// What can be taken of it now. Nothing is bound to a node that has none left.
    pub memory_left: u64,
    /// Bytes a second that its memory can give, and those that nobody takes; `None` if that is not known.
    pub bandwidth: Option<(f64, f64)>,
}

/// An instance of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its control group.
    pub group: GroupPath,
    /// The service that it is an instance of.
    pub service: String,
    /// The node that it is bound to.
    pub bound: Option<u32>,
    /// Processors that it keeps busy.
    pub busy: f64,
    /// Processors that it was promised; without a quota what it keeps busy.
    pub quota: f64,
    /// What it wants over its quota: above 1 it wants more. `None` without a quota.
    pub quota_used: Option<f64>,
    /// Bytes of its memory that may come to a node that it is bound to; 0 where pages stay.
    pub memory: u64,
    /// Bytes a second between it and memory, if they are counted.
    pub bandwidth: Option<f64>,
    /// The predicted gain of binding it, by node; without those for which nothing can be predicted.
    pub gains: BTreeMap<u32, f64>,
}

impl NodeLoad {
    /// The share of its cpus that is busy.
    pub(super) fn level(&self) -> f64 {
        self.level_with(0.0)
    }

    /// The same with so many more cpus busy.
    pub(super) fn level_with(&self, more: f64) -> f64 {
        let level = (self.busy + more) / self.cpus;
        if level.is_finite() { level } else { 0.0 }
    }
}

impl Observed {
    /// By how much a node is busier than the least busy one.
    pub(super) fn apart(&self, level: f64) -> f64 {
        let levels = self.nodes.iter().map(NodeLoad::level);
        level - levels.fold(level, f64::min)
    }
}
