//! Strategies A and B: from which node, and which instance.

use super::observed::{NodeLoad, Observed};
use super::round::{Action, Round, Strategy};

/// The next instance to unbind, if any: of the busiest node that asks for it, the one that uses least.
pub(super) fn unbind(round: &Round<'_>, observed: &Observed) -> Option<Action> {
    let hot = observed
        .nodes
        .iter()
        .filter(|node| is_hot(round, observed, node));
    let mut hot: Vec<&NodeLoad> = hot.collect();
    hot.sort_by(|one, other| {
        let levels = other.level().total_cmp(&one.level());
        levels.then(one.node.cmp(&other.node))
    });
    hot.into_iter().find_map(|node| {
        let candidates = observed.instances.iter().filter(|instance| {
            instance.bound == Some(node.node)
                // Without a quota it may want anything.
                && instance.quota_used.is_none_or(|used| used > 1.0)
                && round.has_rested(&instance.group)
        });
        let least = candidates.min_by(|one, other| {
            let uses = one.busy.total_cmp(&other.busy);
            uses.then_with(|| one.group.cmp(&other.group))
        })?;
        Some(Action::Unbind {
            group: least.group.clone(),
            service: least.service.clone(),
            node: node.node,
        })
    })
}

fn is_hot(round: &Round<'_>, observed: &Observed, node: &NodeLoad) -> bool {
    let (config, level) = (round.config, node.level());
    match config.strategy {
        Strategy::A => level > config.hot,
        Strategy::B => {
            let limit = match round.easing.contains(&node.node) {
                true => config.balanced,
                false => config.apart,
            };
            observed.apart(level) > limit
                && round.usual(node.node).is_some_and(|usual| level > usual)
        }
    }
}
