//! Nodes that no way along the links leads to from node 0. A search begins there too, so each of them gets a link, and
//! every row can be found.
//!
//! Such nodes come of ties (rows at right angles under the inner product), of tight clusters, of few links, and of
//! threads that change the same lists. The link takes a free place, or that of one that the ways found so far do not
//! use.

use super::Worker;
use super::layer::GrowingLayer;
use crate::error::BuildError;
use crate::hnsw::walk::{Layer as _, NONE};
use crate::progress::Watch;
use crate::reserve;

/// For each node the one that a way from node 0 comes from, or [`NONE`] if there is no way. Node 0 comes from itself.
struct Ways {
    from: Vec<u32>,
    next: Vec<u32>,
}

impl Ways {
    /// Goes on from `node`, which `from` leads to.
    fn go_on(
        &mut self,
        ground: &GrowingLayer,
        from: u32,
        node: u32,
        watch: &Watch<'_>,
    ) -> Result<(), BuildError> {
        self.from[node as usize] = from;
        self.next.push(node);
        while let Some(node) = self.next.pop() {
            for link in ground.links(node) {
                if self.from[link as usize] == NONE {
                    self.from[link as usize] = node;
                    self.next.push(link);
                }
            }
            watch.glance()?;
        }
        Ok(())
    }

    fn lead_to(&self, node: u32) -> bool {
        self.from[node as usize] != NONE
    }
}

impl Worker<'_> {
    /// Has links lead to every node.
    ///
    /// # Errors
    /// [`BuildError::Memory`], [`BuildError::Stopped`].
    pub(super) fn lead_to_all(&mut self, watch: &Watch<'_>) -> Result<(), BuildError> {
        let Some(ground) = self.builder.layers.first() else {
            return Ok(());
        };
        let nodes = ground.nodes() as u32;
        if nodes == 0 {
            return Ok(());
        }
        let from = reserve::filled(nodes as usize, || NONE)?;
        let mut ways = Ways {
            from,
            next: Vec::new(),
        };
        ways.go_on(ground, 0, 0, watch)?;
        for node in 1..nodes {
            if !ways.lead_to(node) {
                let from = self.link_from(node, &ways);
                ways.go_on(ground, from, node, watch)?;
            }
            watch.glance()?;
        }
        Ok(())
    }

    /// Links to `node` from a node that `ways` lead to, one of the nearest that a walk finds; which one it is.
    fn link_from(&mut self, node: u32, ways: &Ways) -> u32 {
        let ground = &self.builder.layers[0];
        self.near(node, |entry| if ways.lead_to(entry) { entry } else { 0 });
        // The ways found so far are a tree: it has fewer links than its nodes have places.
        let near = self.candidates.iter().map(|&(_, from)| from);
        let all = (0..ground.nodes() as u32).filter(|&from| ways.lead_to(from));
        for from in near.clone() {
            if ground.append(from, node) {
                return from;
            }
        }
        for from in near.chain(all) {
            ground.read(from, &mut self.links);
            if let Some(unused) = self
                .links
                .iter()
                .rposition(|&link| ways.from[link as usize] != from)
            {
                self.links[unused] = node;
                ground.set(from, &self.links);
                return from;
            }
        }
        unreachable!("a tree of n nodes has n - 1 links")
    }
}
