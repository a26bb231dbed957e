//! Nodes that hardly any link leads to get more: nearest to them are nodes whose lists are full of nearer ones.
//!
//! So it is with long rows among short ones, under L2. Who links to such a node is looked for where a query beside it would
//! come along: among the nodes that a walk towards it keeps, the nearest that have room.
//!
//! Not under the inner product: there such rows are the short ones, which are hardly ever an answer. 7 % more bytes were read
//! for 0.0004 more recall.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Builder, Worker, team};
use crate::error::BuildError;
use crate::hnsw::config::HnswConfig;
use crate::hnsw::walk::{Distances as _, Layer as _};
use crate::metric::Metric;
use crate::reserve;

/// Links on the ground layer that lead to each node, where there is room for them.
const LEAD_TO: u8 = 4;

/// Adds links to those nodes of the ground layer that fewer than [`LEAD_TO`] lead to.
pub(super) fn find(builder: &Builder<'_>, config: &HnswConfig) -> Result<(), BuildError> {
    let Some(ground) = builder.layers.first() else {
        return Ok(());
    };
    if builder.metric == Metric::InnerProduct {
        return Ok(());
    }
    let mut lead_to = reserve::filled(builder.total, || 0_u8)?;
    for node in 0..builder.total as u32 {
        for link in ground.links(node) {
            let links = &mut lead_to[link as usize];
            *links = links.saturating_add(1);
        }
    }
    let lost: Vec<(u32, u8)> = (0..)
        .zip(lead_to)
        .filter(|&(_, links)| links < LEAD_TO)
        .map(|(node, links)| (node, LEAD_TO - links))
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    let next = AtomicUsize::new(0);
    // A team leaves the first of its pieces out.
    team::run(
        config,
        lost.len() + 1,
        |_| (),
        || Finder {
            worker: Worker::new(builder),
            lost: &lost,
            next: &next,
        },
    )
}

/// One thread's part.
struct Finder<'a> {
    worker: Worker<'a>,
    /// Nodes, and how many links are missing to each.
    lost: &'a [(u32, u8)],
    next: &'a AtomicUsize,
}

impl team::Step for Finder<'_> {
    fn step(&mut self) -> bool {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(&(node, missing)) = self.lost.get(next) else {
            return false;
        };
        self.worker.link_to(node, missing);
        true
    }
}

impl Worker<'_> {
    /// Links to `node` from the nearest nodes with room, `missing` of them.
    fn link_to(&mut self, node: u32, mut missing: u8) {
        let ground = &self.builder.layers[0];
        self.near(node);
        for at in 0..self.candidates.len() {
            let (_, from) = self.candidates[at];
            if from == node {
                continue;
            }
            let _lock = ground.lock(from);
            if ground.links(from).all(|link| link != node) && ground.append(from, node) {
                missing -= 1;
                if missing == 0 {
                    return;
                }
            }
        }
    }

    /// The nodes that a walk over the ground towards `node` keeps, into `candidates`.
    fn near(&mut self, node: u32) {
        let builder = self.builder;
        let distances = builder.distances_to(node);
        let mut nearest = (f32::INFINITY, 0);
        distances.to(&[0], std::slice::from_mut(&mut nearest.0));
        for layer in builder.layers[1..].iter().rev() {
            nearest = self.scratch.descend(layer, &distances, nearest);
        }
        let ground = &builder.layers[0];
        self.scratch
            .walk(ground, &distances, [nearest.1], builder.ef, builder.ef);
        self.candidates.clear();
        self.candidates.extend(self.scratch.pool.iter());
    }
}
