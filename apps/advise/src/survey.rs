//! A whole machine over a window: from two snapshots to the subject and the rooms that [`assess`](crate::assess) wants,
//! and to what a round of [`Policy`](crate::Policy) is given.
//!
//! What no file tells is put in by who knows it: cycles and fills of a group, the ratio of latencies, what a node's
//! memory can give ([`Known`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::balance::{Instance, NodeLoad, Observed};
use crate::features::{Cycles, Features, Fills, Window};
use crate::gain::{AdviceConfig, Cache, Needs, Neighbour, Room, Subject, gains};
use crate::group::GroupPath;
use crate::host::{Busy, Host, HostError, Look, Node};
use crate::memory::GroupMemory;
use crate::missing::Missing;

/// A machine at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    nodes: Vec<Node>,
    cache_bytes: BTreeMap<u32, u64>,
    busy: BTreeMap<u32, Busy>,
    traffic: BTreeMap<u32, u64>,
    looks: BTreeMap<GroupPath, Look>,
}

/// Two snapshots, and the time between them.
#[derive(Clone, Debug)]
pub struct Survey {
    before: Snapshot,
    after: Snapshot,
    length: Duration,
    /// By node with cpus, how many of them were busy.
    busy: BTreeMap<u32, f64>,
}

/// What is measured elsewhere. By default nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Latency of far over latency of near memory, under load.
    pub lambda: Option<f64>,
    /// Bytes a second that each node's memory can give.
    pub bandwidth: BTreeMap<u32, f64>,
    /// Cycles of groups in the window, or why they were not counted.
    pub cycles: BTreeMap<GroupPath, Result<Cycles, Missing>>,
    /// Fills of groups in the window.
    pub fills: BTreeMap<GroupPath, Fills>,
}

impl Snapshot {
    /// The machine and these groups as they are now. Groups that are gone, or whose cpuset is damaged, are left out.
    ///
    /// # Errors
    /// [`HostError::Unreadable`] if a node's cpu list is damaged.
    pub fn take(host: &Host, groups: &[GroupPath]) -> Result<Self, HostError> {
        let nodes = host.nodes_now()?;
        let (looks, traffic) = host.look_at(groups, &nodes);
        Ok(Self {
            cache_bytes: host.cache_bytes(),
            busy: host.busy(&nodes),
            nodes,
            traffic,
            looks: (looks.into_iter())
                .map(|look| (look.group.clone(), look))
                .collect(),
        })
    }
}

impl Survey {
    /// What happened from one snapshot to another, so long after it.
    ///
    /// # Errors
    /// [`HostError::BusyUnknown`] if it is not known of some node how busy its cpus were.
    pub fn new(before: Snapshot, after: Snapshot, length: Duration) -> Result<Self, HostError> {
        let with_cpus = after.nodes.iter().filter(|node| !node.cpus.is_empty());
        let busy = with_cpus.map(|node| {
            // A cpu that came online would bring all that it has done since the machine began.
            let same =
                (before.nodes.iter()).find(|of| of.node == node.node && of.cpus == node.cpus);
            let earlier = same.and_then(|_| before.busy.get(&node.node));
            let looks = after.busy.get(&node.node).zip(earlier);
            let share = looks.and_then(|(later, earlier)| later.since(earlier));
            let share = share.ok_or(HostError::BusyUnknown { node: node.node })?;
            Ok((node.node, share * node.cpus.len() as f64))
        });
        let busy = busy.collect::<Result<_, HostError>>()?;
        Ok(Self {
            before,
            after,
            length,
            busy,
        })
    }

    /// What was seen of a group; `None` if it was not there at both times.
    pub fn window(&self, group: &GroupPath, known: &Known) -> Option<Window> {
        let (before, after) = self.looks(group)?;
        let mut window = before.until(after, self.length);
        if let Some(cycles) = known.cycles.get(group) {
            window.cycles = *cycles;
        }
        window.fills = known.fills.get(group).copied();
        Some(window)
    }

    /// A group as [`assess`](crate::assess) wants it; `None` if it was not there at both times.
    pub fn subject(&self, group: &GroupPath, known: &Known) -> Option<Subject> {
        let (before, after) = self.looks(group)?;
        let window = self.window(group, known)?;
        Some(Subject {
            features: Features::of(&window),
            lambda: known.lambda,
            memory: window.memory,
            cpus: window.cpus,
            busy: before.busy(after, self.length).unwrap_or(0.0),
            cache: after
                .cache
                .as_ref()
                .ok()
                .map(|by_node| by_node.values().sum()),
        })
    }

    /// What a group takes, for a pod's requests; `None` if it was not there at both times.
    pub fn needs(&self, group: &GroupPath) -> Option<Needs> {
        let (before, after) = self.looks(group)?;
        let busy = before.busy(after, self.length);
        Some(Needs {
            cpus: after.quota.or(busy)?,
            memory: after.memory.as_ref()?.all(),
        })
    }

    /// What others leave on each node for a group. Its neighbours are those of the snapshots' groups that hold no other
    /// of them, so that nothing counts twice; a group within it or around it is none.
    pub fn rooms(&self, group: &GroupPath, known: &Known) -> Vec<Room> {
        let looks = &self.after.looks;
        let mut holders = BTreeSet::new();
        for group in looks.keys() {
            holders.extend(std::iter::successors(group.above(), GroupPath::above));
        }
        let is_neighbour = |other: &&GroupPath| {
            let is_related = other.is_within(group) || group.is_within(other);
            !is_related && !holders.contains(*other)
        };
        let others = || looks.keys().filter(is_neighbour);
        let rooms = self.after.nodes.iter().map(|node| {
            let own = self.neighbour(group, node.node).unwrap_or_default();
            let cache = self.after.cache_bytes.get(&node.node).copied();
            let filled: u64 = (others().filter_map(|other| self.neighbour(other, node.node)))
                .filter_map(|neighbour| neighbour.cache)
                .sum();
            Room {
                node: node.node,
                cpus: node.cpus.len() as f64,
                cpus_left: node.cpus.len() as f64 - self.busy_on(node) + own.cpus.unwrap_or(0.0),
                memory: node.memory.unwrap_or(0),
                memory_left: node.memory_left.unwrap_or(0),
                bandwidth_left: self
                    .bandwidth(node.node, known)
                    .map(|(_, left)| left + own.bandwidth.unwrap_or(0.0)),
                cache: own.cache.and(cache).map(|bytes| Cache {
                    bytes,
                    others: filled,
                }),
                neighbours: others()
                    .filter_map(|other| self.neighbour(other, node.node))
                    .collect(),
            }
        });
        rooms.collect()
    }

    /// What a round of the policy is given: the nodes with cpus, and these groups as instances of their services. Pages
    /// stay where they are unless `config` says that they move. Memory that is to stay free does not count as left.
    pub fn observed(
        &self,
        instances: &[(GroupPath, String)],
        known: &Known,
        config: &AdviceConfig,
    ) -> Observed {
        let with_cpus = self.after.nodes.iter().filter(|node| !node.cpus.is_empty());
        let mut nodes: Vec<NodeLoad> = (with_cpus)
            .map(|node| NodeLoad {
                node: node.node,
                cpus: node.cpus.len() as f64,
                busy: self.busy_on(node),
                quota_left: node.cpus.len() as f64,
                memory: node.memory.unwrap_or(0),
                memory_left: {
                    let kept = node.memory.unwrap_or(0) as f64 * config.spare_memory;
                    node.memory_left.unwrap_or(0).saturating_sub(kept as u64)
                },
                bandwidth: self.bandwidth(node.node, known),
            })
            .collect();
        let instances: Vec<Instance> = (instances.iter())
            .filter_map(|(group, service)| self.instance(group, service, known, config, &nodes))
            .collect();
        for instance in &instances {
            let bound = nodes
                .iter_mut()
                .find(|node| instance.bound == Some(node.node));
            if let Some(node) = bound {
                node.quota_left -= instance.quota;
            }
        }
        Observed { nodes, instances }
    }

    fn instance(
        &self,
        group: &GroupPath,
        service: &str,
        known: &Known,
        config: &AdviceConfig,
        nodes: &[NodeLoad],
    ) -> Option<Instance> {
        let (before, after) = self.looks(group)?;
        let subject = self.subject(group, known)?;
        let mut used = after.cpus_by_node.keys();
        let confined = used.next().copied().filter(|_| used.next().is_none());
        // A set that it has from above cannot be widened here, nor be left.
        let is_own = !after.own_cpus.is_empty();
        let open = |node: &u32| is_own || after.cpus_by_node.contains_key(node);
        Some(Instance {
            group: group.clone(),
            service: service.to_owned(),
            bound: confined.filter(|_| is_own && nodes.len() > 1),
            busy: subject.busy,
            quota: after.quota.unwrap_or(subject.busy),
            quota_used: before.quota_used(after, self.length),
            memory: match config.move_memory {
                true => after.memory.as_ref().map_or(0, GroupMemory::mapped),
                false => 0,
            },
            bandwidth: subject.features.mbw.value(),
            gains: gains(
                &subject,
                nodes.iter().map(|node| node.node).filter(open),
                config,
            ),
        })
    }

    fn looks(&self, group: &GroupPath) -> Option<(&Look, &Look)> {
        self.before
            .looks
            .get(group)
            .zip(self.after.looks.get(group))
    }

    /// Processors of a node that are busy: none where there are none.
    fn busy_on(&self, node: &Node) -> f64 {
        self.busy.get(&node.node).copied().unwrap_or(0.0)
    }

    /// What a node's memory can give, and what of it nobody takes.
    fn bandwidth(&self, node: u32, known: &Known) -> Option<(f64, f64)> {
        let all = *known.bandwidth.get(&node)?;
        let (before, after) = (
            self.before.traffic.get(&node)?,
            self.after.traffic.get(&node)?,
        );
        let taken = self.rate(after.checked_sub(*before)?)?;
        Some((all, all - taken))
    }

    /// What a group takes of a node. Its cpu time counts where its cpus are, evenly.
    fn neighbour(&self, group: &GroupPath, node: u32) -> Option<Neighbour> {
        let (before, after) = self.looks(group)?;
        let here = after.cpus_by_node.get(&node).copied().unwrap_or(0) as f64;
        let share = here / after.cpus.len().max(1) as f64;
        let bytes = before.bytes_by_node(after);
        let bytes = bytes.map(|bytes| bytes.get(&node).copied().unwrap_or(0));
        let filled = after.cache.as_ref().ok();
        Some(Neighbour {
            name: group.to_string(),
            cpus: before.busy(after, self.length).map(|busy| busy * share),
            memory: after.memory.as_ref().map(|memory| memory.mapped_on(node)),
            bandwidth: bytes.and_then(|bytes| self.rate(bytes)),
            cache: filled.map(|filled| filled.get(&node).copied().unwrap_or(0)),
        })
    }

    fn rate(&self, bytes: u64) -> Option<f64> {
        let rate = bytes as f64 / self.length.as_secs_f64();
        rate.is_finite().then_some(rate)
    }
}
