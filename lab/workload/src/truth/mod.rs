//! Exact neighbours by looking at every vector, and recall against them.
//!
//! Distances are computed in `f64` from the `f32` values. A search counts as right about a neighbour if
//! that neighbour is *as near as the k-th true one*, whichever of several equally near ones it chose. As
//! indexes compute in `f32`, near enough to be indistinguishable there ([`ROUNDING`]) counts as equal: an
//! exact index has a recall of exactly 1.
//!
//! So that recall needs ids only, whatever distances an index reports (squared or not, negated or not),
//! [`Truth`] keeps for each query the k nearest and all that tie with the last of them.
//!
//! Among a million vectors, the truth of ten thousand queries takes minutes, and it is the same in every
//! run: [`Truth::exact_cached`] keeps it in a file.

mod cache;

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

pub use cache::{CacheWarning, Cached, TruthCache};

use crate::dataset::VectorSet;
pub use crate::metric::{Metric, ROUNDING};

/// A vector found near a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its row in the set searched.
    pub id: u32,
    /// How far it is, in the metric's terms.
    pub distance: f64,
}

impl Neighbor {
    /// Nearest first; of equally near ones, the smaller row.
    fn order(&self, other: &Self) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.id.cmp(&other.id))
    }
}

/// Why there is no truth to compute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TruthError {
    /// Queries and vectors differ in length.
    #[error("queries of {queries} dimensions for vectors of {vectors}; they must be the same")]
    DimMismatch {
        /// Values in a query.
        queries: usize,
        /// Values in a vector.
        vectors: usize,
    },
    /// Nothing to find.
    #[error("0 neighbours asked for; ask for at least 1")]
    ZeroTop,
    /// Nowhere to look.
    #[error("no vectors to search; recall against nothing means nothing")]
    NoVectors,
    /// More rows than ids.
    #[error("{rows} vectors; ids have 32 bits")]
    TooManyVectors {
        /// Vectors given.
        rows: usize,
    },
}

/// The exact nearest neighbours of some queries.
///
/// ```
/// use chiplet_workload::dataset::VectorSet;
/// use chiplet_workload::truth::{Metric, Truth};
///
/// let line = VectorSet::new(vec![0.0, 1.0, 2.0, 4.0], 1)?;
/// let queries = VectorSet::new(vec![0.9], 1)?;
/// let truth = Truth::exact(&line, &queries, 2, Metric::L2)?;
/// assert_eq!(truth.ids(0).collect::<Vec<_>>(), [1, 0]);
/// assert_eq!(truth.recall(0, [1, 3]), 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    k: usize,
    /// For each query at least `k`, nearest first; those after the k-th tie with it.
    nearest: Vec<Vec<Neighbor>>,
}

impl Truth {
    /// Finds the `k` nearest of `vectors` to each of `queries`, on all cores. With fewer than `k` vectors,
    /// all of them.
    ///
    /// Looks at every vector for every query: `vectors.len() * queries.len() * dim` multiplications. A
    /// query that is itself among the vectors finds itself.
    ///
    /// # Errors
    /// [`TruthError`] if dimensions differ, `k` is 0, there are no vectors, or more than 2^32 of them.
    pub fn exact(
        vectors: &VectorSet,
        queries: &VectorSet,
        k: usize,
        metric: Metric,
    ) -> Result<Self, TruthError> {
        Self::exact_with_progress(vectors, queries, k, metric, |_, _| ())
    }

    /// [`Truth::exact`], telling `progress` after each query how many are done and how many there are. The
    /// calls come from the calling thread, which does nothing else meanwhile.
    ///
    /// # Errors
    /// As [`Truth::exact`]; then `progress` is not called.
    pub fn exact_with_progress(
        vectors: &VectorSet,
        queries: &VectorSet,
        k: usize,
        metric: Metric,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self, TruthError> {
        check(vectors, queries, k)?;
        let k = k.min(vectors.len());
        let total = queries.len();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let mut nearest_to = vec![Vec::new(); total];
        thread::scope(|scope| {
            let (found, results) = mpsc::channel();
            for _ in 0..threads.min(total) {
                let (found, next) = (found.clone(), &next);
                scope.spawn(move || {
                    let mut all = Vec::with_capacity(vectors.len());
                    loop {
                        // Gives each query to one thread; what is found travels through the channel.
                        let query = next.fetch_add(1, Relaxed);
                        if query >= total {
                            return;
                        }
                        let near = nearest(vectors, queries.row(query), k, metric, &mut all);
                        if found.send((query, near)).is_err() {
                            return;
                        }
                    }
                });
            }
            // The results end when the last thread drops its sender.
            drop(found);
            for (done, (query, near)) in results.into_iter().enumerate() {
                nearest_to[query] = near;
                progress(done + 1, total);
            }
        });
        Ok(Self {
            k,
            nearest: nearest_to,
        })
    }

    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nearest.len()
    }

    /// Whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nearest.is_empty()
    }

    /// True neighbours of each query: what was asked for, or the number of vectors if that is less.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// The `k` nearest to query `query`, nearest first, of equally near ones the smaller row first.
    ///
    /// # Panics
    /// If `query >= len()`.
    #[must_use]
    pub fn neighbors(&self, query: usize) -> &[Neighbor] {
        &self.nearest[query][..self.k]
    }

    /// The row numbers of [`Truth::neighbors`].
    ///
    /// # Panics
    /// If `query >= len()`.
    pub fn ids(&self, query: usize) -> impl ExactSizeIterator<Item = u32> {
        self.neighbors(query).iter().map(|neighbor| neighbor.id)
    }

    /// recall@k of an answer to query `query`: how many of the first `k` ids `found` are as near as the
    /// k-th true neighbour, over `k`. An id given twice counts once; one that is no row counts as wrong.
    ///
    /// # Panics
    /// If `query >= len()`.
    #[must_use]
    pub fn recall(&self, query: usize, found: impl IntoIterator<Item = u32>) -> f64 {
        let mut found: Vec<_> = found.into_iter().take(self.k).collect();
        found.sort_unstable();
        found.dedup();
        let near = &self.nearest[query];
        let right = near
            .iter()
            .filter(|neighbor| found.binary_search(&neighbor.id).is_ok());
        right.count() as f64 / self.k as f64
    }
}

/// Whether there is a truth to compute.
fn check(vectors: &VectorSet, queries: &VectorSet, k: usize) -> Result<(), TruthError> {
    if queries.dim() != vectors.dim() {
        let (queries, vectors) = (queries.dim(), vectors.dim());
        return Err(TruthError::DimMismatch { queries, vectors });
    }
    if k == 0 {
        return Err(TruthError::ZeroTop);
    }
    if vectors.is_empty() {
        return Err(TruthError::NoVectors);
    }
    if u32::try_from(vectors.len() - 1).is_err() {
        return Err(TruthError::TooManyVectors {
            rows: vectors.len(),
        });
    }
    Ok(())
}

/// The `k` nearest and what ties with the k-th, in order. `all` is room for every vector's distance.
fn nearest(
    vectors: &VectorSet,
    query: &[f32],
    k: usize,
    metric: Metric,
    all: &mut Vec<Neighbor>,
) -> Vec<Neighbor> {
    all.clear();
    all.extend(vectors.rows().enumerate().map(|(row, vector)| Neighbor {
        id: row as u32,
        distance: metric.distance(query, vector),
    }));
    let (_, &mut kth, _) = all.select_nth_unstable_by(k - 1, Neighbor::order);
    let scale = metric.scale(kth.distance, query, vectors.row(kth.id as usize));
    let within = kth.distance + ROUNDING * scale;
    let mut near: Vec<_> = all
        .iter()
        .copied()
        .filter(|n| n.distance <= within)
        .collect();
    near.sort_unstable_by(Neighbor::order);
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

    /// The definition, by sorting everything.
    fn naive(vectors: &VectorSet, query: &[f32], metric: Metric) -> Vec<(f64, u32)> {
        let mut all: Vec<_> = vectors
            .rows()
            .zip(0..)
            .map(|(v, id)| {
                let pairs = || {
                    query
                        .iter()
                        .zip(v)
                        .map(|(&x, &y)| (f64::from(x), f64::from(y)))
                };
                let dot: f64 = pairs().map(|(x, y)| x * y).sum();
                let distance = match metric {
                    Metric::L2 => pairs().map(|(x, y)| (x - y).powi(2)).sum(),
                    Metric::InnerProduct => -dot,
                    Metric::Cosine => {
                        let x: f64 = pairs().map(|(x, _)| x * x).sum();
                        let y: f64 = pairs().map(|(_, y)| y * y).sum();
                        if x * y > 0.0 {
                            1.0 - dot / (x * y).sqrt()
                        } else {
                            1.0
                        }
                    }
                };
                (distance, id)
            })
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        all
    }

    /// Small whole numbers, so that ties abound and `f64` sums are exact.
    fn grid(rows: std::ops::Range<usize>) -> impl Strategy<Value = VectorSet> {
        rows.prop_flat_map(|rows| prop::collection::vec(-3_i8..4, rows * 3))
            .prop_map(|values| {
                VectorSet::new(values.into_iter().map(f32::from).collect(), 3).unwrap()
            })
    }

    proptest! {
        #[test]
        fn neighbours_are_those_that_sorting_finds(
            vectors in grid(1..60), queries in grid(1..6), k in 1_usize..70,
        ) {
            for metric in [Metric::L2, Metric::InnerProduct] {
                let truth = Truth::exact(&vectors, &queries, k, metric).unwrap();
                prop_assert_eq!(truth.len(), queries.len());
                for (q, query) in queries.rows().enumerate() {
                    let all = naive(&vectors, query, metric);
                    let expected: Vec<_> = all.iter().take(k).map(|&(_, id)| id).collect();
                    prop_assert_eq!(truth.ids(q).collect::<Vec<_>>(), expected);
                }
            }
        }

        #[test]
        fn recall_is_the_share_as_near_as_the_kth(
            vectors in grid(1..40), query in grid(1..2), k in 1_usize..12,
            found in prop::collection::vec(0_u32..50, 0..14),
        ) {
            for metric in METRICS {
                let truth = Truth::exact(&vectors, &query, k, metric).unwrap();
                let all = naive(&vectors, query.row(0), metric);
                let k = k.min(all.len());
                let kth = all[k - 1].0;
                let mut distinct = std::collections::HashSet::new();
                let right = found
                    .iter()
                    .take(k)
                    .filter(|&&id| distinct.insert(id))
                    // On this grid, distances differ by far more than 1e-4 or not at all.
                    .filter(|&&id| all.iter().any(|&(d, other)| other == id && d <= kth + 1e-4))
                    .count();
                prop_assert_eq!(truth.recall(0, found.iter().copied()), right as f64 / k as f64);
            }
        }

        #[test]
        fn a_perfect_answer_has_recall_one(vectors in grid(1..40), k in 1_usize..12) {
            for metric in METRICS {
                let truth = Truth::exact(&vectors, &vectors, k, metric).unwrap();
                for query in 0..truth.len() {
                    prop_assert_eq!(truth.recall(query, truth.ids(query)), 1.0);
                }
            }
        }
    }

    #[test]
    fn distances_agree_with_their_definitions() {
        let (a, b) = ([3.0, 4.0, 0.0], [0.0, 4.0, 2.0]);
        assert_eq!(Metric::L2.distance(&a, &b), 13.0);
        assert_eq!(Metric::InnerProduct.distance(&a, &b), -16.0);
        let cosine = Metric::Cosine.distance(&a, &b);
        assert!((cosine - (1.0 - 16.0 / (5.0 * 20_f64.sqrt()))).abs() < 1e-15);
        assert_eq!(Metric::Cosine.distance(&a, &[0.0; 3]), 1.0);
    }

    #[test]
    fn long_vectors_are_summed_whole() {
        let ones = [1.0_f32; 101];
        assert_eq!(Metric::InnerProduct.distance(&ones, &ones), -101.0);
    }

    #[test]
    fn an_index_that_rounds_to_f32_is_not_blamed() {
        // Distances 1 and 1 + 2e-8: the same in f32.
        let vectors = VectorSet::new(vec![1.0, 0.0, 1.0, 1.4e-4, 9.0, 9.0], 2).unwrap();
        let origin = VectorSet::new(vec![0.0, 0.0], 2).unwrap();
        let truth = Truth::exact(&vectors, &origin, 1, Metric::L2).unwrap();
        assert_eq!(truth.ids(0).collect::<Vec<_>>(), [0]);
        assert_eq!(truth.recall(0, [1]), 1.0);
        assert_eq!(truth.recall(0, [2]), 0.0);
    }

    #[test]
    fn nearly_parallel_vectors_do_not_all_tie() {
        for angle in [1e-3_f32, 1e-4] {
            // At these times `angle`.
            let rows = [1.0, 2.0, 3.0, 1.00001].map(|times| [10.0, times * 10.0 * angle]);
            let vectors = VectorSet::new(rows.concat(), 2).unwrap();
            let query = VectorSet::new(vec![3.0, 0.0], 2).unwrap();
            let truth = Truth::exact(&vectors, &query, 2, Metric::Cosine).unwrap();
            assert_eq!(truth.ids(0).collect::<Vec<_>>(), [0, 3]);
            assert_eq!(truth.recall(0, [1, 2]), 0.0);
            let one = Truth::exact(&vectors, &query, 1, Metric::Cosine).unwrap();
            // Too near each other for f32.
            assert_eq!(one.recall(0, [3]), 1.0);
            assert_eq!(one.recall(0, [1]), 0.0);
        }
    }

    #[test]
    fn progress_counts_every_query_once_in_order() {
        let vectors = VectorSet::new((0..20).map(|v| v as f32).collect(), 1).unwrap();
        let queries = vectors.select(&[3, 1, 4, 1, 5]);
        let mut seen = Vec::new();
        let progress = |done, total| seen.push((done, total));
        let truth = Truth::exact_with_progress(&vectors, &queries, 2, Metric::L2, progress);
        assert_eq!(seen, [1, 2, 3, 4, 5].map(|done| (done, 5)));
        assert_eq!(truth, Truth::exact(&vectors, &queries, 2, Metric::L2));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let two = VectorSet::new(vec![0.0; 2], 2).unwrap();
        let three = VectorSet::new(vec![0.0; 3], 3).unwrap();
        let none = VectorSet::new(Vec::new(), 2).unwrap();
        let error =
            |vectors, queries, k| Truth::exact(vectors, queries, k, Metric::L2).unwrap_err();
        assert_eq!(
            error(&two, &three, 1),
            TruthError::DimMismatch {
                queries: 3,
                vectors: 2
            }
        );
        assert_eq!(error(&two, &two, 0), TruthError::ZeroTop);
        assert_eq!(error(&none, &two, 1), TruthError::NoVectors);
        assert!(Truth::exact(&two, &none, 1, Metric::L2).unwrap().is_empty());
    }
}
