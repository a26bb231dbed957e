//! The k nearest of a stream of candidates.

use std::collections::BinaryHeap;

use chiplet_table::Neighbor;

/// Keeps the `k` smallest neighbours offered, by distance, then id: for a table of your own that scans rows.
///
/// ```
/// use chiplet_table::Neighbor;
/// use chiplet_index::Nearest;
///
/// let mut nearest = Nearest::new(2);
/// for (id, distance) in [(0, 3.0), (1, 1.0), (2, 2.0)] {
///     nearest.offer(Neighbor { id, distance });
/// }
/// let ids: Vec<u64> = nearest.into_sorted().iter().map(|hit| hit.id).collect();
/// assert_eq!(ids, [1, 2]);
/// ```
pub struct Nearest {
    k: usize,
    /// The kept ones, worst on top.
    heap: BinaryHeap<Neighbor>,
}

impl Nearest {
    /// Keeps none yet. Memory for a large `k` grows as it is used, because a client may have asked for it.
    pub fn new(k: usize) -> Self {
        const ROOM: usize = 4_096;
        Self {
            k,
            heap: BinaryHeap::with_capacity(k.min(ROOM)),
        }
    }

    /// As [`Nearest::new`], in the memory of what an earlier one kept.
    pub(crate) fn within(k: usize, mut kept: Vec<Neighbor>) -> Self {
        kept.clear();
        let heap = BinaryHeap::from(kept);
        Self { k, heap }
    }

    /// Keeps `candidate` if it is among the `k` smallest so far.
    pub fn offer(&mut self, candidate: Neighbor) {
        if self.heap.len() < self.k {
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }

    /// What was kept, ascending.
    pub fn into_sorted(self) -> Vec<Neighbor> {
        self.heap.into_sorted_vec()
    }
}
