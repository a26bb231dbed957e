//! What a round is decided by, and what it decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chiplet_policy::Time;
use serde::{Deserialize, Serialize};

use super::past::Past;
use crate::group::GroupPath;

/// When instances are unbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// From a node that is busy.
    A,
    /// From a node that is busier than another and than it used to be. MAO went from A to B, because far fewer
    /// instances are unbound.
    B,
}

chiplet_policy::settings! {
    /// When instances are bound and unbound.
    pub struct BalanceConfig {
        /// When instances are unbound; B by default.
        pub(crate) strategy: Strategy = Strategy::B,
        /// A: how busy a node has to be, 0.80 by default (MAO).
        pub(crate) hot: f64 = 0.80,
        /// A: how busy a node may become by binding, 0.70 by default, so that a binding is not the next to be undone. B
        /// keeps to it as long as it does not know the node's past.
        pub(crate) calm: f64 = 0.70,
        /// B: how much busier than the least busy node a node has to be, 0.15 by default (MAO: 0.10 to 0.15).
        pub(crate) apart: f64 = 0.15,
        /// B: down to which difference it goes on; also how far binding may set nodes apart. 0.10 by default.
        pub(crate) balanced: f64 = 0.10,
        /// B: the share of its past that a node has to exceed, 0.95 by default (MAO).
        pub(crate) percentile: f64 = 0.95,
        /// B: how many minutes of a node's past have to be known, a day by default: before, B unbinds nothing.
        pub(crate) least_past: u32 = 24 * 60,
        /// The gain below which a service is not bound; 0.03 by default.
        pub(crate) threshold: f64 = 0.03,
        /// The time between two actions, one minute by default.
        pub(crate) pause: Duration = Duration::from_secs(60),
        /// The time between two actions on one instance, 15 minutes by default.
        pub(crate) rest: Duration = Duration::from_secs(15 * 60),
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Let an instance run on all nodes again.
    Unbind {
        /// The instance.
        group: GroupPath,
        /// The service that it is an instance of.
        service: String,
        /// The node that it was bound to.
        node: u32,
    },
    /// Bind all instances of a service that are not bound yet.
    Bind {
        /// The service.
        service: String,
        /// Each instance, and its node.
        to: Vec<(GroupPath, u32)>,
        /// The predicted gain, on the mean over these instances.
        gain: f64,
    },
}

/// What the choice of an action may look at.
pub(super) struct Round<'a> {
    pub(super) config: &'a BalanceConfig,
    pub(super) past: &'a Past,
    pub(super) easing: &'a BTreeSet<u32>,
    pub(super) touched: &'a BTreeMap<GroupPath, Time>,
    pub(super) now: Time,
}

impl Round<'_> {
    /// Whether the last action on the instance was long enough ago.
    pub(super) fn has_rested(&self, group: &GroupPath) -> bool {
        let last = self.touched.get(group);
        last.is_none_or(|last| self.now.since(*last) >= self.config.rest)
    }

    /// What a node's level is measured against by B; `None` as long as too little is known.
    pub(super) fn usual(&self, node: u32) -> Option<f64> {
        let config = self.config;
        self.past
            .percentile(node, config.percentile, config.least_past)
    }
}
