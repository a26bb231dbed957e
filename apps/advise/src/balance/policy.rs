//! The policy: what one round leaves to the next.

use std::collections::{BTreeMap, BTreeSet};

use chiplet_policy::Time;

use super::bind::bind;
use super::observed::Observed;
use super::past::Past;
use super::round::{Action, BalanceConfig, Round};
use super::unbind::unbind;
use crate::group::GroupPath;

/// What one round leaves to the next.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    config: BalanceConfig,
    past: Past,
    /// When the last action was taken.
    acted: Option<Time>,
    /// When each instance was last bound or unbound.
    touched: BTreeMap<GroupPath, Time>,
    /// Nodes that B is unbinding from.
    easing: BTreeSet<u32>,
}

impl Policy {
    /// A policy that knows nothing of the past.
    pub fn new(config: BalanceConfig) -> Self {
        Self::with_past(config, Past::default())
    }

    /// A policy that knows how busy nodes have been.
    pub fn with_past(config: BalanceConfig, past: Past) -> Self {
        Self {
            config,
            past,
            ..Self::default()
        }
    }

    /// Tells of an action before this policy was made, so that it and its instance rest as if it had taken it itself.
    pub fn remember(&mut self, group: GroupPath, at: Time) {
        self.acted = self.acted.max(Some(at));
        let last = self.touched.entry(group).or_insert(at);
        *last = (*last).max(at);
    }

    /// How busy nodes have been, to be kept for the next start.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// One round, about once a minute; more often does no harm. An action that is returned counts as taken: where it
    /// fails, its instances rest all the same.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use chiplet_advise::{Action, BalanceConfig, Instance, NodeLoad, Observed, Policy, Strategy};
    /// use chiplet_policy::Time;
    /// let node = |node, busy| NodeLoad { node, cpus: 32.0, busy, ..Default::default() };
    /// let search = Instance {
    ///     group: "/search-1".parse()?,
    ///     service: "search".to_owned(),
    ///     bound: Some(0),
    ///     busy: 5.0,
    ///     quota: 4.0,
    ///     quota_used: Some(1.25),
    ///     memory: 0,
    ///     bandwidth: None,
    ///     gains: BTreeMap::new(),
    /// };
    /// let observed = Observed { nodes: vec![node(0, 28.0), node(1, 8.0)], instances: vec![search] };
    /// let mut policy = Policy::new(BalanceConfig::new().strategy(Strategy::A));
    /// let action = policy.round(Time::from_secs(60), &observed);
    /// assert!(matches!(action, Some(Action::Unbind { node: 0, .. })));
    /// // One action a minute.
    /// assert_eq!(policy.round(Time::from_secs(90), &observed), None);
    /// # Ok::<(), chiplet_advise::BadGroup>(())
    /// ```
    pub fn round(&mut self, now: Time, observed: &Observed) -> Option<Action> {
        self.forget(observed);
        let action = self.choose(now, observed);
        // The past is what was before, so the present enters it last.
        for node in &observed.nodes {
            self.past.record(node.node, now, node.level());
        }
        let action = action?;
        self.acted = Some(now);
        let groups = match &action {
            Action::Unbind { group, node, .. } => {
                self.easing.insert(*node);
                vec![group]
            }
            Action::Bind { to, .. } => to.iter().map(|(group, _)| group).collect(),
        };
        self.touched
            .extend(groups.into_iter().map(|group| (group.clone(), now)));
        Some(action)
    }

    fn choose(&self, now: Time, observed: &Observed) -> Option<Action> {
        if (self.acted).is_some_and(|acted| now.since(acted) < self.config.pause) {
            return None;
        }
        let round = Round {
            config: &self.config,
            past: &self.past,
            easing: &self.easing,
            touched: &self.touched,
            now,
        };
        unbind(&round, observed).or_else(|| bind(&round, observed))
    }

    /// What is balanced again, and what is gone.
    fn forget(&mut self, observed: &Observed) {
        let find = |number: u32| observed.nodes.iter().find(|node| node.node == number);
        let balanced = self.config.balanced;
        self.easing.retain(|&node| {
            let level = find(node).map(|node| node.level());
            level.is_some_and(|level| observed.apart(level) > balanced)
        });
        self.past.keep(|node| find(node).is_some());
        let there: BTreeSet<&GroupPath> = observed.instances.iter().map(|it| &it.group).collect();
        self.touched.retain(|group, _| there.contains(group));
    }
}
