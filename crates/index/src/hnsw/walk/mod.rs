//! Walks over the layers of a graph, whether it is being built or frozen.
//!
//! A walk keeps the `ef` nearest nodes that it has met, and follows the links of the nearest one not yet followed, until
//! it has followed them all (arXiv 1603.09320, algorithm 2). A node's links are gathered first, less those that were met
//! before; then all their distances are computed in one call, which has the next rows fetched while it computes.

mod filtered;
mod pool;
mod visited;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) use pool::{MAX_NODES, Pool};
use visited::Visited;

/// Fills up the place of links that a node does not have.
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes that room is made for at once.
const ROOM: usize = 64;

/// One layer of a graph.
pub(crate) trait Layer {
    /// Nodes of the layer: numbers below this.
    fn nodes(&self) -> usize;

    /// The nodes that `node` links to; they may be any numbers, if the graph is damaged.
    fn links(&self, node: u32) -> impl Iterator<Item = u32>;

    /// Hints that the links of `node` will be read.
    fn prefetch(&self, node: u32);
}

/// Distances from what is searched for.
pub(crate) trait Distances {
    /// The distances of `nodes`, which exist, into `out`, which has their length.
    fn to(&self, nodes: &[u32], out: &mut [f32]);
}

/// What a walk needs, kept from one to the next so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) pool: Pool,
    visited: Visited,
    /// Nodes met by a filtered walk whose links are yet to be followed, nearest first.
    frontier: BinaryHeap<Reverse<pool::Key>>,
    /// All nodes met by the walk.
    met: Vec<u32>,
    distances: Vec<f32>,
    /// Distances computed since this was last set to 0.
    pub(crate) computed: u64,
}

impl Scratch {
    /// Leaves the `ef` nearest nodes of `layer` that links lead to from `entries` in the pool.
    pub(crate) fn walk(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        entries: impl IntoIterator<Item = u32>,
        ef: usize,
    ) {
        let nodes = layer.nodes();
        self.visited.reserve(nodes);
        self.met.clear();
        self.pool.reset(ef);
        self.meet(distances, entries.into_iter(), nodes);
        while let Some(node) = self.pool.follow() {
            if let Some(next) = self.pool.upcoming() {
                layer.prefetch(next);
            }
            self.meet(distances, layer.links(node), nodes);
        }
        self.visited.clear(&self.met, nodes);
        self.computed += self.met.len() as u64;
    }

    /// Offers those of `found` to the pool that the walk has not met before.
    #[inline]
    fn meet(&mut self, distances: &impl Distances, found: impl Iterator<Item = u32>, nodes: usize) {
        let old = self.gather(found, nodes);
        let new = &self.met[old..];
        distances.to(new, &mut self.distances);
        for (&node, &distance) in new.iter().zip(&self.distances) {
            self.pool.offer(distance, node);
        }
    }

    /// Adds those of `found` to `met` that are not in it, makes room for their distances, and returns where they begin.
    #[inline]
    fn gather(&mut self, found: impl Iterator<Item = u32>, nodes: usize) -> usize {
        let old = self.met.len();
        let mut end = old;
        for node in found {
            // Without a branch on what no processor can guess: whether the node was met before.
            if end == self.met.len() {
                self.met.resize(end + ROOM, 0);
            }
            self.met[end] = node;
            if (node as usize) < nodes {
                end += usize::from(self.visited.insert(node));
            }
        }
        self.met.truncate(end);
        self.distances.resize(end - old, 0.0);
        old
    }

    /// The nearest node to which each step leads to a nearer one, from `from` on: a walk with `ef` 1.
    pub(crate) fn descend(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        from: (f32, u32),
    ) -> (f32, u32) {
        let mut nearest = from;
        loop {
            let before = nearest;
            nearest = self.look(layer, distances, before);
            if nearest == before {
                return nearest;
            }
        }
    }

    /// The nearest of `from` and the nodes that it links to.
    pub(crate) fn look(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        from: (f32, u32),
    ) -> (f32, u32) {
        let nodes = layer.nodes();
        self.met.clear();
        let links = layer.links(from.1);
        self.met
            .extend(links.filter(|&node| (node as usize) < nodes));
        self.distances.resize(self.met.len(), 0.0);
        distances.to(&self.met, &mut self.distances);
        self.computed += self.met.len() as u64;
        let mut nearest = from;
        for (&node, &distance) in self.met.iter().zip(&self.distances) {
            if distance < nearest.0 {
                nearest = (distance, node);
            }
        }
        nearest
    }
}
