//! The service to bind, and the node of each of its instances.

use std::collections::BTreeMap;

use super::observed::{Instance, NodeLoad, Observed};
use super::round::{Action, Round, Strategy};
use crate::group::GroupPath;

/// The service with the largest predicted gain of those whose instances all find a place.
pub(super) fn bind(round: &Round<'_>, observed: &Observed) -> Option<Action> {
    if observed.nodes.len() < 2 {
        return None;
    }
    let mut services: BTreeMap<&str, Vec<&Instance>> = BTreeMap::new();
    for instance in observed.instances.iter().filter(|it| it.bound.is_none()) {
        services
            .entry(&instance.service)
            .or_default()
            .push(instance);
    }
    let placed = services.into_iter().filter_map(|(service, mut instances)| {
        instances.sort_by(|one, other| {
            // The largest first, while there is room for it.
            let sizes = other.quota.total_cmp(&one.quota);
            sizes.then_with(|| one.group.cmp(&other.group))
        });
        let (to, gain) = place(round, observed, &instances)?;
        (gain >= round.config.threshold).then(|| Action::Bind {
            service: service.to_owned(),
            to,
            gain,
        })
    });
    let gain = |action: &Action| match action {
        Action::Bind { gain, .. } => *gain,
        Action::Unbind { .. } => f64::NEG_INFINITY,
    };
    // Of equal ones the first by name.
    placed.reduce(|best, next| {
        if gain(&next) > gain(&best) {
            next
        } else {
            best
        }
    })
}

type Bindings = Vec<(GroupPath, u32)>;

/// Places all instances, with the mean of their gains; `None` if one of them finds no place.
fn place(
    round: &Round<'_>,
    observed: &Observed,
    instances: &[&Instance],
) -> Option<(Bindings, f64)> {
    let all: f64 = observed.nodes.iter().map(|node| node.cpus).sum();
    let mut nodes = observed.nodes.clone();
    let (mut to, mut gains) = (Vec::new(), 0.0);
    for instance in instances {
        if !round.has_rested(&instance.group) {
            return None;
        }
        // It has run on all nodes so far, and now runs on one.
        for node in &mut nodes {
            node.busy -= instance.busy * node.cpus / all;
        }
        let fitting = nodes.iter().enumerate().filter_map(|(at, node)| {
            let gain = *instance.gains.get(&node.node)?;
            let left = left(node, instance)?;
            (gain >= round.config.threshold).then_some((at, gain, left))
        });
        // Of equal ones the first.
        let most = |best: (usize, f64, f64), next: (usize, f64, f64)| {
            if next.2 > best.2 { next } else { best }
        };
        let (at, gain, _) = fitting.reduce(most)?;
        take(&mut nodes[at], instance);
        to.push((instance.group.clone(), nodes[at].node));
        gains += gain;
    }
    stays(round, &observed.nodes, &nodes, &to).then(|| (to, gains / instances.len() as f64))
}

/// The share that would be left of what the node would have least of; `None` if something does not suffice.
fn left(node: &NodeLoad, instance: &Instance) -> Option<f64> {
    let share = |left: f64, all: f64| (left >= 0.0 && all > 0.0).then(|| left / all);
    let quota = share(node.quota_left - instance.quota, node.cpus)?;
    let busy = share(node.cpus - node.busy - instance.busy, node.cpus)?;
    let mut least = quota.min(busy);
    if node.memory > 0 {
        // Bound, it would allocate there.
        if node.memory_left == 0 {
            return None;
        }
        let bytes = node.memory_left as f64 - instance.memory as f64;
        least = least.min(share(bytes, node.memory as f64)?);
    }
    if let Some(((all, left), takes)) = node.bandwidth.zip(instance.bandwidth) {
        least = least.min(share(left - takes, all)?);
    }
    Some(least)
}

fn take(node: &mut NodeLoad, instance: &Instance) {
    node.busy += instance.busy;
    node.quota_left -= instance.quota;
    node.memory_left = node.memory_left.saturating_sub(instance.memory);
    if let Some(((_, left), takes)) = node.bandwidth.as_mut().zip(instance.bandwidth) {
        *left -= takes;
    }
}

/// What sums of equal shares may differ by.
const ROUNDING: f64 = 1e-9;

/// Whether the nodes would keep what is bound so, by the strategy that unbinds and with a margin. A node that is too
/// busy already forbids nothing if none of them goes there and it becomes no busier.
fn stays(
    round: &Round<'_>,
    before: &[NodeLoad],
    after: &[NodeLoad],
    to: &[(GroupPath, u32)],
) -> bool {
    let config = round.config;
    let least = |nodes: &[NodeLoad]| nodes.iter().map(NodeLoad::level).fold(1.0, f64::min);
    let (least_before, least_after) = (least(before), least(after));
    before.iter().zip(after).all(|(before, after)| {
        let level = after.level();
        let (apart_before, apart) = (before.level() - least_before, level - least_after);
        let is_calm = level <= config.calm;
        let is_left_out = to.iter().all(|(_, node)| *node != after.node);
        let is_no_busier = is_left_out && level <= before.level() + ROUNDING;
        match config.strategy {
            Strategy::A => is_calm || is_no_busier,
            Strategy::B => match round.usual(after.node) {
                Some(usual) if level <= usual || apart <= config.balanced => true,
                Some(_) => is_no_busier && apart <= apart_before + ROUNDING,
                None => is_calm || is_no_busier,
            },
        }
    })
}
