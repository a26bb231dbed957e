//! Which NUMA nodes belong to which package.

use std::collections::{BTreeMap, BTreeSet};

use chiplet_topology::Topology;

/// The NUMA nodes of each package; none where all memory is as near, or the system does not know these nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<u32, BTreeSet<u32>>);

impl Nodes {
    /// Those of a machine with several packages, each with nodes of its own. `believed`: the nodes of a made-up
    /// topology are taken for the system's, which else knows nothing of them.
    pub(crate) fn of(topology: &Topology, believed: bool) -> Self {
        let mut all: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        if believed || topology.is_this_machine() {
            for domain in topology.domains() {
                all.entry(domain.package).or_default().insert(domain.node);
            }
        }
        // Where packages share a node, the system makes one of their memory.
        let nodes: usize = all.values().map(BTreeSet::len).sum();
        let distinct: BTreeSet<&u32> = all.values().flatten().collect();
        match all.len() > 1 && nodes == distinct.len() {
            true => Self(all),
            false => Self::default(),
        }
    }

    /// Whether memory is nearer to some workers than to others.
    pub(crate) fn matter(&self) -> bool {
        !self.0.is_empty()
    }

    /// Those of a package.
    pub(crate) fn of_package(&self, package: u32) -> Vec<u32> {
        let nodes = self.0.get(&package).into_iter().flatten();
        nodes.copied().collect()
    }

    /// The package whose nodes hold at least three quarters of what is in memory.
    pub(crate) fn package_of(&self, residence: &[(u32, u64)]) -> Option<u32> {
        let sum = |on: &dyn Fn(&u32) -> bool| -> u128 {
            let parts = residence.iter().filter(|(node, _)| on(node));
            parts.map(|&(_, bytes)| u128::from(bytes)).sum()
        };
        let all = sum(&|_| true);
        let most = |&(_, nodes): &(&u32, &BTreeSet<u32>)| {
            let held = sum(&|node| nodes.contains(node));
            held > 0 && 4 * held >= 3 * all
        };
        self.0.iter().find(most).map(|(&package, _)| package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two nodes each.
    fn nodes() -> Nodes {
        Nodes(BTreeMap::from([
            (0, BTreeSet::from([0, 1])),
            (1, BTreeSet::from([2, 3])),
        ]))
    }

    #[test]
    fn packages_that_share_a_node_have_none_of_their_own() {
        let machine = |builder: chiplet_topology::TopologyBuilder| {
            Nodes::of(&builder.build().unwrap(), true).matter()
        };
        let one = || Topology::builder().domain(1 << 20, 2);
        assert!(machine(one().package().domain(1 << 20, 2)));
        assert!(!machine(one().node().domain(1 << 20, 2)));
        assert!(!machine(one().domain(1 << 20, 2)));
    }

    #[test]
    fn three_quarters_of_what_is_in_memory_decide() {
        let package = |residence: &[(u32, u64)]| nodes().package_of(residence);
        assert_eq!(package(&[(0, 400), (1, 400), (2, 100)]), Some(0));
        assert_eq!(package(&[(2, 75), (0, 25)]), Some(1));
        assert_eq!(package(&[(2, 74), (0, 26)]), None);
        assert_eq!(package(&[]), None);
        assert_eq!(package(&[(0, 0), (2, 2)]), Some(1));
        assert_eq!(package(&[(0, 0)]), None);
        assert_eq!(package(&[(0, u64::MAX), (1, u64::MAX)]), Some(0));
        assert_eq!(package(&[(7, 100)]), None);
        assert_eq!(Nodes::default().package_of(&[(0, 100)]), None);
    }
}
