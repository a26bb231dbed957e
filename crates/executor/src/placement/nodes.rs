//! Which NUMA nodes belong to which package.

use std::collections::{BTreeMap, BTreeSet};

use chiplet_topology::Topology;

/// The NUMA nodes of each package; none where all memory is as near, or the system does not know these nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<u32, BTreeSet<u32>>);

impl Nodes {
    /// Those of a machine with several packages. `believed`: the nodes are the system's, though the topology is a made-up
    /// one, of whose nodes the system knows nothing.
    pub(crate) fn of(topology: &Topology, believed: bool) -> Self {
        let mut all: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        if believed || topology.is_this_machine() {
            for domain in topology.domains() {
                all.entry(domain.package).or_default().insert(domain.node);
            }
        }
        match all.len() {
            0 | 1 => Self::default(),
            _ => Self(all),
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
        let all: u64 = residence.iter().map(|&(_, bytes)| bytes).sum();
        let held = |nodes: &BTreeSet<u32>| -> u64 {
            let here = residence.iter().filter(|(node, _)| nodes.contains(node));
            here.map(|&(_, bytes)| bytes).sum()
        };
        let most = |&(_, nodes): &(&u32, &BTreeSet<u32>)| all > 0 && held(nodes) / 3 >= all / 4;
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
    fn three_quarters_of_what_is_in_memory_decide() {
        let package = |residence: &[(u32, u64)]| nodes().package_of(residence);
        assert_eq!(package(&[(0, 400), (1, 400), (2, 100)]), Some(0));
        assert_eq!(package(&[(2, 75), (0, 25)]), Some(1));
        assert_eq!(package(&[(2, 74), (0, 26)]), None);
        assert_eq!(package(&[]), None);
        assert_eq!(package(&[(7, 100)]), None);
        assert_eq!(Nodes::default().package_of(&[(0, 100)]), None);
    }
}
