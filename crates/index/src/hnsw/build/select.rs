//! Which of the nearest nodes become links: those in different directions (arXiv 1603.09320, algorithm 4).
//!
//! A candidate is crowded out by a link that is nearer to it than the new node is. [`SLACK`] asks that it be nearer by
//! a tenth of the squared distance, as DiskANN's alpha does (Subramanya et al., NeurIPS 2019): more links stay, and
//! walks reach the same recall in fewer steps. Measured at recall 0.99, rows compared and nodes followed, to a slack of
//! 1: GloVe 30,000 x 50 0.89 and 0.75, clusters of 20,000 x 128 0.85 and 0.64. At 1.2 the clusters come apart.
//!
//! Where fewer than `m` are left, the nearest of those that were crowded out make up for it (the paper's
//! `keepPrunedConnections`, as far as `m`). Among rows of very unequal lengths a few short ones crowd out nearly all
//! others: of 40,000 static embeddings of 256 under L2, half kept 4 links or fewer and 9 % were linked to by none;
//! recall@10 at `ef` 40 and 160 was 0.853 and 0.932, and is 0.911 and 0.971 with a sixth more bytes read (f32, November
//! 2026). Rows of length 1 have `m` links anyway.

use super::Builder;
use crate::hnsw::walk::Distances as _;
use crate::metric::Metric;

/// Distances computed in one call: whether a candidate is crowded out is mostly known after the first few.
const GROUP: usize = 4;

/// How much nearer a link must be to crowd out a candidate: a factor on distances that are squared, or proportional to
/// squares.
const SLACK: f32 = 1.1;

/// The slack of a graph's links.
pub(super) fn slack(metric: Metric) -> f32 {
    match metric {
        Metric::L2 | Metric::Cosine => SLACK,
        // A product may have either sign.
        Metric::InnerProduct => 1.0,
    }
}

/// Buffers for choosing links.
#[derive(Debug, Default)]
pub(super) struct Selection {
    distances: [f32; GROUP],
    crowded_out: Vec<u32>,
}

impl Selection {
    /// Chooses up to `most` of `candidates`, nearest first: each that is nearer to the new node than `slack` times its
    /// distance to any that was chosen before it; then the nearest others, up to the builder's `m`, which is not above
    /// `most`.
    pub(super) fn choose(
        &mut self,
        builder: &Builder<'_>,
        candidates: &[(f32, u32)],
        slack: f32,
        most: usize,
        chosen: &mut Vec<u32>,
    ) {
        chosen.clear();
        self.crowded_out.clear();
        for &(distance, node) in candidates {
            if chosen.len() == most {
                return;
            }
            let from_node = builder.distances_to(node);
            let crowded = chosen.chunks(GROUP).any(|group| {
                let room = &mut self.distances[..group.len()];
                from_node.to(group, room);
                room.iter().any(|&between| between * slack < distance)
            });
            if crowded {
                self.crowded_out.push(node);
            } else {
                chosen.push(node);
            }
        }
        let missing = builder.m.saturating_sub(chosen.len());
        chosen.extend(self.crowded_out.iter().take(missing));
    }
}
