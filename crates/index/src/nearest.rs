//! The k nearest of a stream of candidates.

use std::collections::BinaryHeap;

use chiplet_executor::Neighbor;

/// Keeps the `k` smallest neighbours offered, by distance, then id.
pub(crate) struct Nearest {
    k: usize,
    /// The kept ones, worst on top.
    heap: BinaryHeap<Neighbor>,
}

impl Nearest {
    pub(crate) fn new(k: usize) -> Self {
        Self {
            k,
            heap: BinaryHeap::with_capacity(k + 1),
        }
    }

    pub(crate) fn offer(&mut self, candidate: Neighbor) {
        if self.heap.len() < self.k {
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }

    pub(crate) fn into_sorted(self) -> Vec<Neighbor> {
        self.heap.into_sorted_vec()
    }
}
