//! A walk that may go through any node, but keeps only those that a filter allows.
//!
//! It ends as any walk does: when the nearest node to go on from is farther away than all of the `ef` that were kept.
//! The fewer nodes are allowed, the longer that takes: about `ef / share` nodes are followed. So a walk has a budget,
//! beyond which a scan of the allowed rows is cheaper.

use std::cmp::Reverse;

use super::pool::{key, node};
use super::{Distances, Layer, Scratch};

impl Scratch {
    /// Leaves the `ef` nearest of the nodes that `allows` in the pool. `false`, and anything in the pool, if more than
    /// `budget` distances would be computed, or it is not `wanted` any more, which is asked every `each` steps.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is one thing that a walk needs"
    )]
    pub(crate) fn walk_where(
        &mut self,
        layer: &impl Layer,
        distances: &impl Distances,
        entries: [u32; 2],
        ef: usize,
        allows: impl Fn(u32) -> bool,
        budget: usize,
        (each, wanted): (u32, impl Fn() -> bool),
    ) -> bool {
        let nodes = layer.nodes();
        self.visited.reserve(nodes);
        self.met.clear();
        self.compared = 0;
        self.frontier.clear();
        self.pool.reset(ef, ef);
        self.meet_where(distances, entries.into_iter(), nodes, &allows);
        let mut finished = true;
        let mut steps = 0;
        while let Some(Reverse(nearest)) = self.frontier.pop() {
            if !self.pool.admits(nearest) {
                break;
            }
            steps += 1;
            if self.met.len() > budget || (steps % each == 0 && !wanted()) {
                finished = false;
                break;
            }
            if let Some(Reverse(next)) = self.frontier.peek() {
                layer.prefetch(node(*next));
            }
            self.meet_where(distances, layer.links(node(nearest)), nodes, &allows);
        }
        self.visited.clear(&self.met, nodes);
        self.computed += self.met.len() as u64;
        finished
    }

    fn meet_where(
        &mut self,
        distances: &impl Distances,
        found: impl Iterator<Item = u32>,
        nodes: usize,
        allows: &impl Fn(u32) -> bool,
    ) {
        self.gather(found, nodes);
        let new = self.compute(distances);
        for (&node, &distance) in self.met[new].iter().zip(&self.distances) {
            let key = key(distance, node);
            if self.pool.admits(key) {
                self.frontier.push(Reverse(key));
                if allows(node) {
                    self.pool.offer(key);
                }
            }
        }
    }
}
