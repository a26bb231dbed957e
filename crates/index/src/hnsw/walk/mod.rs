//! Walks over the layers of a graph, whether it is being built or frozen.
//!
//! A walk keeps the `ef` nearest nodes that it has met, and follows the links of the nearest one not yet followed,
//! until it has followed them all (arXiv 1603.09320, algorithm 2). The links of the nearest few are gathered first,
//! less those that were met before; then all their distances are computed in one call, which has the next rows fetched
//! while it computes.

mod filtered;
mod pool;
mod visited;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use pool::{Key, key};
pub(crate) use pool::{MAX_NODES, Pool};
use visited::Visited;

/// Fills up the place of links that a node does not have.
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes that room is made for at once.
const ROOM: usize = 64;

/// Nodes that are followed in one step. Rows beyond the caches arrive after some 200 ns, whether ten are asked for or
/// thirty; so a step of three nodes takes hardly longer than one of a single node. Nearly all of them would be followed
/// later: at `ef` 30 a walk reads 4 % more and finds as much more. Measured with 1, 2, 3, 4, 6 and 8
/// (`results/lab/2026-11/performance.md`).
pub(crate) const FOLLOWED_A_STEP: usize = 3;

/// One layer of a graph.
pub(crate) trait Layer {
    /// Nodes of the layer: numbers below this.
    fn nodes(&self) -> usize;

    /// Nodes that a walk follows in one step, usually [`FOLLOWED_A_STEP`].
    fn step(&self) -> usize;

    /// The nodes that `node` links to; they may be any numbers, if the graph is damaged.
    fn links(&self, node: u32) -> impl Iterator<Item = u32>;

    /// Hints that the links of `node` will be read.
    fn prefetch(&self, node: u32);
}

impl<L: Layer> Layer for &L {
    fn nodes(&self) -> usize {
        L::nodes(self)
    }

    #[inline]
    fn step(&self) -> usize {
        L::step(self)
    }

    #[inline]
    fn links(&self, node: u32) -> impl Iterator<Item = u32> {
        L::links(self, node)
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        L::prefetch(self, node);
    }
}

/// Distances from what is searched for.
pub(crate) trait Distances {
    /// The distances of `nodes`, which exist, into `out`, which has their length.
    fn to(&self, nodes: &[u32], out: &mut [f32]);

    /// Hints that the distances of `nodes`, which exist, will be asked for.
    fn prefetch(&self, nodes: &[u32]);
}

/// What a walk needs, kept from one to the next so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) pool: Pool,
    visited: Visited,
    /// Nodes met by a filtered walk whose links are yet to be followed, nearest first.
    frontier: BinaryHeap<Reverse<Key>>,
    /// All nodes met by the walk.
    met: Vec<u32>,
    /// Those of `met` from here on have not been compared.
    compared: usize,
    distances: Vec<f32>,
    /// Of the nodes compared last those that were near enough.
    admitted: Vec<Key>,
    /// Distances computed since this was last set to 0.
    pub(crate) computed: u64,
}

impl Scratch {
    /// Follows the `ef` nearest nodes of `layer` that links lead to from `entries`, and leaves the `kept` nearest in
    /// the pool.
    pub(crate) fn walk(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        entries: impl IntoIterator<Item = u32>,
        ef: usize,
        kept: usize,
    ) {
        self.begin(layer, distances, entries, ef, kept);
        while self.advance(layer) {
            self.compare(layer, distances);
        }
        self.end(layer);
    }

    /// Begins a walk from `entries`, which are compared. After it, [`Scratch::advance`] and [`Scratch::compare`] take
    /// turns until there is nothing to advance to; then [`Scratch::end`].
    pub(crate) fn begin(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        entries: impl IntoIterator<Item = u32>,
        ef: usize,
        kept: usize,
    ) {
        let nodes = layer.nodes();
        self.visited.reserve(nodes);
        self.met.clear();
        self.compared = 0;
        self.pool.reset(ef, kept);
        self.gather(entries.into_iter(), nodes);
        self.compare(layer, distances);
    }

    /// Follows the nearest nodes that have not been followed, [`Layer::step`] of them, and gathers the nodes that they
    /// lead to. `false` if all have been followed.
    #[inline]
    pub(crate) fn advance(&mut self, layer: &impl Layer) -> bool {
        let mut any = false;
        for _ in 0..layer.step() {
            let Some(node) = self.pool.follow() else {
                break;
            };
            any = true;
            self.gather(layer.links(node), layer.nodes());
        }
        self.prefetch_links(layer);
        any
    }

    /// Hints that the links of the nodes will be read that are followed next, as far as is known now.
    #[inline]
    fn prefetch_links(&self, layer: &impl Layer) {
        let next = self.pool.upcoming().take(layer.step());
        next.for_each(|node| layer.prefetch(node));
    }

    /// Hints that the nodes gathered last will be compared.
    #[inline]
    pub(crate) fn prefetch(&self, distances: &impl Distances) {
        distances.prefetch(&self.met[self.compared..]);
    }

    /// Offers the nodes gathered last to the pool.
    #[inline]
    pub(crate) fn compare(&mut self, layer: &impl Layer, distances: &impl Distances) {
        let new = self.compute(distances);
        self.admitted.clear();
        self.admitted.resize(new.len(), 0);
        let mut count = 0;
        // Without a branch on what no processor can guess: which nodes are near enough.
        for (&new, &distance) in self.met[new].iter().zip(&self.distances) {
            let key = key(distance, new);
            self.admitted[count] = key;
            count += usize::from(self.pool.admits(key));
        }
        for &key in &self.admitted[..count] {
            self.pool.offer(key);
        }
        if count > 0 {
            self.prefetch_links(layer);
        }
    }

    /// Computes the distances of the nodes gathered last, and returns where in `met` they are.
    #[inline]
    fn compute(&mut self, distances: &impl Distances) -> Range<usize> {
        let new = self.compared..self.met.len();
        self.distances.resize(new.len(), 0.0);
        distances.to(&self.met[new.clone()], &mut self.distances);
        self.compared = new.end;
        new
    }

    /// Ends a walk: the pool has what it found.
    pub(crate) fn end(&mut self, layer: &impl Layer) {
        self.visited.clear(&self.met, layer.nodes());
        self.computed += self.met.len() as u64;
    }

    /// Adds those of `found` to `met` that are not in it.
    #[inline]
    fn gather(&mut self, found: impl Iterator<Item = u32>, nodes: usize) {
        let mut end = self.met.len();
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
    }

    /// The node at which a walk over the ground begins: down `layers`, the highest first, from node 0.
    pub(crate) fn enter<L: Layer>(
        &mut self,
        layers: impl Iterator<Item = L>,
        distances: &impl Distances,
        one_look: bool,
    ) -> u32 {
        let mut entry = (f32::INFINITY, 0);
        distances.to(&[0], std::slice::from_mut(&mut entry.0));
        self.computed += 1;
        for layer in layers {
            entry = if one_look {
                self.look(&layer, distances, entry)
            } else {
                self.descend(&layer, distances, entry)
            };
        }
        entry.1
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
            let before = nearest.1;
            nearest = self.look(layer, distances, nearest);
            // By node: a damaged row's distance may be no number, which differs from itself.
            if nearest.1 == before {
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
