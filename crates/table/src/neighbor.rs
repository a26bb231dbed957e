//! Answers: what a search finds, and how several answers become one.

/// A found vector. Ordered by distance, then by id, so that equal distances have one order everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The id the vector was stored under.
    pub id: u64,
    /// Distance to the query: smaller is nearer, in every metric (inner product is negated).
    pub distance: f32,
}

impl Eq for Neighbor {}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.id.cmp(&other.id))
    }
}

/// The `k` nearest of several answers, ascending, ties broken by id.
pub fn merge_nearest(k: usize, parts: Vec<Vec<Neighbor>>) -> Vec<Neighbor> {
    let mut all: Vec<Neighbor> = parts.into_iter().flatten().collect();
    if all.len() > k && k > 0 {
        all.select_nth_unstable(k - 1);
    }
    all.truncate(k);
    all.sort_unstable();
    all
}
