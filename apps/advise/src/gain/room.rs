//! What is left on a node, and who takes what is short there.

use serde::Serialize;

/// A node and what others leave of it. What a group has there itself counts as left for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Room {
    /// As the operating system numbers it.
    pub node: u32,
    /// Its logical processors; 0 for a node of memory alone, which nothing is bound to.
    pub cpus: f64,
    /// Of these, how many others leave idle.
    pub cpus_left: f64,
    /// Its memory, in bytes.
    pub memory: u64,
    /// What can be taken of it now, in bytes.
    pub memory_left: u64,
    /// Bytes a second that its memory can give and others leave, if it is known what it can give.
    pub bandwidth_left: Option<f64>,
    /// Its last-level caches, if it is known who fills them.
    pub cache: Option<Cache>,
    /// Groups that run or have memory there, with what they take.
    pub neighbours: Vec<Neighbour>,
}

/// The last-level caches of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Their size in bytes.
    pub bytes: u64,
    /// What others fill of it.
    pub others: u64,
}

/// Another group on the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// Processors that it keeps busy.
    pub cpus: Option<f64>,
    /// Bytes of memory that it has there.
    pub memory: Option<u64>,
    /// Bytes a second between it and memory.
    pub bandwidth: Option<f64>,
    /// Bytes of the node's last-level caches that it fills.
    pub cache: Option<u64>,
}

/// What can be short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Processors.
    Cpus,
    /// Memory, in bytes.
    Memory,
    /// Memory bandwidth, in bytes a second.
    Bandwidth,
    /// Last-level cache, in bytes.
    Cache,
}

/// Something that a node has too little of for a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shortage {
    /// The node.
    pub node: u32,
    /// What is short.
    pub of: Resource,
    /// How much the group takes; of memory with what has to stay free.
    pub needed: f64,
    /// How much is left for it.
    pub left: f64,
    /// The other group that takes most of it, if it is known.
    pub neighbour: Option<String>,
}

/// What a group takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) cpus: f64,
    /// Bytes that would come to the node.
    pub(super) memory: u64,
    pub(super) bandwidth: Option<f64>,
    pub(super) cache: Option<u64>,
}

impl Room {
    /// What there is too little of. `spare` is the share of memory that stays free.
    pub(super) fn shortages(&self, demand: &Demand, spare: f64) -> Vec<Shortage> {
        let kept = self.memory as f64 * spare;
        let memory = (demand.memory as f64 + kept, self.memory_left as f64);
        let wants = [
            (Resource::Cpus, Some((demand.cpus, self.cpus_left))),
            (Resource::Memory, Some(memory)),
            (
                Resource::Bandwidth,
                demand.bandwidth.zip(self.bandwidth_left),
            ),
            (Resource::Cache, self.cache(demand)),
        ];
        let short = wants.into_iter().filter_map(|(of, figures)| {
            let (needed, left) = figures?;
            (needed > left).then(|| Shortage {
                node: self.node,
                of,
                needed,
                left,
                neighbour: self.most(of),
            })
        });
        short.collect()
    }

    /// What the group fills, and what others leave.
    fn cache(&self, demand: &Demand) -> Option<(f64, f64)> {
        let (needed, cache) = demand.cache.zip(self.cache)?;
        Some((
            needed as f64,
            cache.bytes.saturating_sub(cache.others) as f64,
        ))
    }

    /// The neighbour that takes most.
    fn most(&self, of: Resource) -> Option<String> {
        let takes = |neighbour: &Neighbour| match of {
            Resource::Cpus => neighbour.cpus,
            Resource::Memory => neighbour.memory.map(|bytes| bytes as f64),
            Resource::Bandwidth => neighbour.bandwidth,
            Resource::Cache => neighbour.cache.map(|bytes| bytes as f64),
        };
        let known = self.neighbours.iter();
        let known = known.filter_map(|neighbour| Some((takes(neighbour)?, &neighbour.name)));
        let taking = known.filter(|(takes, _)| *takes > 0.0);
        // Of equal ones the first by name, so that equal rooms are told alike.
        let most = taking.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)));
        most.map(|(_, name)| name.clone())
    }
}
