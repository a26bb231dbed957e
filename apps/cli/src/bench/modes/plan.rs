//! Which processes a mode has, and on which cpus.

use anyhow::ensure;
use chiplet_topology::{Domain, Topology};

use chiplet_bench::modes::Mode;

/// Cpus that a process may be pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) cpus: Vec<u32>,
    /// The NUMA node whose memory these cpus have.
    pub(super) memory: u32,
}

/// The nodes of a machine, and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// `NUMA node`, or `domain` where there is one alone.
    pub(super) kind: String,
}

impl Nodes {
    /// The NUMA nodes of `machine`, or its domains where it has a single one. One alone will do for modes that are not
    /// about nodes.
    pub(super) fn of(machine: &Topology, modes: &[Mode]) -> anyhow::Result<Self> {
        let domains = machine.domains();
        let mut ids: Vec<u32> = domains.iter().map(|domain| domain.node).collect();
        ids.sort_unstable();
        ids.dedup();
        let node = |of: &[&Domain], memory| Node {
            cpus: of.iter().flat_map(|domain| domain.cpus()).collect(),
            memory,
        };
        if ids.len() > 1 {
            let of = |id| {
                let within = domains.iter().filter(|domain| domain.node == id);
                node(&within.collect::<Vec<_>>(), id)
            };
            return Ok(Self {
                nodes: ids.into_iter().map(of).collect(),
                kind: "NUMA node".to_owned(),
            });
        }
        let by_node = modes.iter().find(|mode| mode.is_by_node());
        ensure!(
            domains.len() > 1 || by_node.is_none(),
            "mode {}: of one NUMA node and one domain, without the senders' cores, there is nothing to choose from; --domains \
             0-7,8-15 says what to take for nodes, --senders 0 leaves all cores to the processes",
            by_node.map(ToString::to_string).unwrap_or_default()
        );
        let each = domains.iter().map(|domain| node(&[domain], domain.node));
        Ok(Self {
            nodes: each.collect(),
            kind: "domain".to_owned(),
        })
    }

    /// All cpus.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let all = self.nodes.iter().flat_map(|node| &node.cpus);
        all.copied().collect()
    }

    /// The node that each process of `mode` is pinned to; `None` where it is on all cpus.
    pub(super) fn processes(&self, mode: Mode) -> Vec<Option<&Node>> {
        let processes = mode.processes(self.nodes.len()).into_iter();
        processes.map(|node| Some(&self.nodes[node?])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_nodes_are_the_nodes_where_there_are_several_and_domains_where_there_is_one() {
        let genoa = Topology::uniform(3, 2, 32 << 20);
        let nodes = Nodes::of(&genoa, &[Mode::Pinned]).unwrap();
        assert_eq!(nodes.nodes.len(), 3);
        assert_eq!(nodes.nodes[1].cpus, [2, 3]);
        assert_eq!(nodes.kind, "domain");
        assert_eq!(nodes.cpus(), [0, 1, 2, 3, 4, 5]);

        let sockets = Topology::builder()
            .domain(32 << 20, 2)
            .domain(32 << 20, 2)
            .node()
            .domain(32 << 20, 2)
            .build()
            .unwrap();
        let nodes = Nodes::of(&sockets, &[]).unwrap();
        let memory: Vec<u32> = nodes.nodes.iter().map(|node| node.memory).collect();
        assert_eq!((memory, &*nodes.kind), (vec![0, 1], "NUMA node"));
        assert_eq!(nodes.nodes[0].cpus, [0, 1, 2, 3]);

        let one = Topology::uniform(1, 8, 1 << 20);
        let error = Nodes::of(&one, &[Mode::One, Mode::PerNode]).unwrap_err();
        assert!(error.to_string().contains("mode per-node"), "{error}");
        assert!(Nodes::of(&one, &[Mode::One, Mode::Four, Mode::Chiplet]).is_ok());
    }
}
