//! Which of the nearest nodes become links: those in different directions (arXiv 1603.09320, algorithm 4).

use super::Builder;
use crate::hnsw::walk::Distances as _;

/// Distances computed in one call: whether a candidate is crowded out is mostly known after the first few.
const GROUP: usize = 4;

/// Buffers for choosing links.
#[derive(Debug, Default)]
pub(super) struct Selection {
    distances: [f32; GROUP],
}

impl Selection {
    /// Chooses up to `most` of `candidates`, nearest first: each that is nearer to the new node than to all that were chosen
    /// before it.
    pub(super) fn choose(
        &mut self,
        builder: &Builder<'_>,
        candidates: &[(f32, u32)],
        most: usize,
        chosen: &mut Vec<u32>,
    ) {
        chosen.clear();
        for &(distance, node) in candidates {
            if chosen.len() == most {
                return;
            }
            let from_node = builder.distances_to(node);
            let crowded = chosen.chunks(GROUP).any(|group| {
                let room = &mut self.distances[..group.len()];
                from_node.to(group, room);
                room.iter().any(|&between| between < distance)
            });
            if !crowded {
                chosen.push(node);
            }
        }
    }
}
