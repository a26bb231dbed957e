//! A query's way through a frozen graph.

use std::cell::RefCell;

use chiplet_executor::{Neighbor, Query};

use super::format::Prepared;
use super::frozen::Frozen;
use super::walk::{Distances as _, Scratch};
use crate::kernel::Span;
use crate::nearest::Nearest;

/// What a thread keeps from one search to the next.
#[derive(Default)]
pub(super) struct Searcher {
    query: Prepared,
    full: Prepared,
    scratch: Scratch,
    nodes: Vec<u32>,
    distances: Vec<f32>,
}

thread_local! {
    static SEARCHER: RefCell<Searcher> = RefCell::default();
}

/// Runs `search` with this thread's searcher. A search within it, as a filter may start one, gets one of its own.
pub(super) fn with_searcher<T>(search: impl FnOnce(&mut Searcher) -> T) -> T {
    SEARCHER.with(|kept| {
        // A searcher that a panic left behind is dropped with it.
        let mut searcher = kept.take();
        let found = search(&mut searcher);
        kept.replace(searcher);
        found
    })
}

/// Candidates that are compared once more with full rows, beyond the `k` asked for.
fn reranked(k: usize) -> usize {
    k + k / 2 + 16
}

impl Searcher {
    /// The `k` nearest rows found with `ef` candidates, ascending, and the rows compared. `vector` is prepared for the
    /// metric; `1 <= k <= ef <= rows`.
    pub(super) fn search(
        &mut self,
        graph: &Frozen,
        query: &Query,
        vector: &[f32],
        k: usize,
        ef: usize,
    ) -> (Vec<Neighbor>, u64) {
        let meta = &graph.meta;
        self.query.set(vector, meta.rows, meta.metric, graph.grid());
        let distances = self.query.to(meta.rows, meta.metric, graph.rows());
        let scratch = &mut self.scratch;
        scratch.computed = 1;
        let mut entry = (f32::INFINITY, 0);
        distances.to(&[0], std::slice::from_mut(&mut entry.0));
        for layer in graph.upper() {
            entry = if meta.one_look {
                scratch.look(&layer, &distances, entry)
            } else {
                scratch.descend(&layer, &distances, entry)
            };
        }
        scratch.walk(&graph.ground(), &distances, [entry.1], ef);
        let ids = graph.ids();
        let neighbor = |(distance, node)| Neighbor {
            id: ids.of(node),
            distance,
        };
        let mut hits: Vec<Neighbor> = match graph.full() {
            None => {
                // All as near as the k-th, so that ties are decided by id.
                let farthest = scratch
                    .pool
                    .iter()
                    .take(k)
                    .last()
                    .map(|(distance, _)| distance);
                let found = scratch.pool.iter();
                found
                    .take_while(|&(distance, _)| Some(distance) <= farthest)
                    .map(neighbor)
                    .collect()
            }
            Some((format, rows)) => {
                self.full.set(vector, format, meta.metric, graph.grid());
                self.nodes.clear();
                self.nodes
                    .extend(scratch.pool.iter().take(reranked(k)).map(|(_, node)| node));
                self.distances.resize(self.nodes.len(), 0.0);
                self.full
                    .to(format, meta.metric, rows)
                    .to(&self.nodes, &mut self.distances);
                let pairs = self
                    .distances
                    .iter()
                    .copied()
                    .zip(self.nodes.iter().copied());
                pairs.map(neighbor).collect()
            }
        };
        hits.sort_unstable();
        hits.truncate(k);
        hits.retain(|hit| query.reaches(hit.distance));
        (hits, scratch.computed)
    }

    /// The `k` nearest of all rows that `query` allows, ascending.
    pub(super) fn scan(
        &mut self,
        graph: &Frozen,
        query: &Query,
        vector: &[f32],
        k: usize,
    ) -> Vec<Neighbor> {
        const BLOCK: usize = 256;
        let meta = &graph.meta;
        let (format, rows) = graph.full().unwrap_or((meta.rows, graph.rows()));
        self.full.set(vector, format, meta.metric, graph.grid());
        let distances = self.full.to(format, meta.metric, rows);
        let ids = graph.ids();
        let mut nearest = Nearest::new(k);
        self.distances.resize(BLOCK, 0.0);
        for start in (0..graph.nodes()).step_by(BLOCK) {
            let span = Span {
                start,
                end: (start + BLOCK).min(graph.nodes()),
            };
            let block = &mut self.distances[..span.end - start];
            distances.compute(span, block);
            for (&distance, node) in block.iter().zip(start as u32..) {
                let id = ids.of(node);
                if query.reaches(distance) && query.allows(id) {
                    nearest.offer(Neighbor { id, distance });
                }
            }
        }
        nearest.into_sorted()
    }
}
