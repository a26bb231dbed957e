//! Vectors drawn at random around random centres: data of any size, with the structure that graphs and
//! inverted lists rely on and uniform noise lacks.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

use super::VectorSet;

/// What [`VectorSet::clusters`] draws. The defaults make a set that builds in moments.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// Number of vectors.
    pub rows: usize,
    /// Values in a vector, at least 1.
    pub dim: usize,
    /// Number of centres, at least 1. Each vector belongs to one drawn uniformly.
    pub centres: usize,
    /// Standard deviation of a value around its centre's; the centres' own is 1. From 0.5 on, clusters
    /// overlap and search gets as hard as on real embeddings.
    pub spread: f32,
    /// Same seed, same vectors.
    pub seed: u64,
}

impl Default for Clusters {
    fn default() -> Self {
        Self {
            rows: 10_000,
            dim: 64,
            centres: 100,
            spread: 0.5,
            seed: 1,
        }
    }
}

/// A query about a topic: `sqrt(1 - s^2) c + s x`, where `c` is the topic's centre, `x` another vector for each query
/// and `s` the spread, 0 to 1. Two of a topic are `s` times as far from each other as two vectors are, and each is as
/// long as a vector.
///
/// ```
/// let query: Vec<f32> = chiplet_workload::dataset::about(&[1.0, 0.0], &[0.0, 1.0], 0.6).collect();
/// assert_eq!(query, [0.8, 0.6]);
/// ```
pub fn about(centre: &[f32], other: &[f32], spread: f32) -> impl Iterator<Item = f32> {
    let near = (1.0 - spread * spread).sqrt();
    let pairs = centre.iter().zip(other);
    pairs.map(move |(centre, other)| near * centre + spread * other)
}

impl VectorSet {
    /// Draws vectors around normally distributed centres.
    ///
    /// ```
    /// use chiplet_workload::dataset::{Clusters, VectorSet};
    /// let set = VectorSet::clusters(&Clusters { rows: 100, dim: 16, ..Clusters::default() });
    /// assert_eq!((set.len(), set.dim()), (100, 16));
    /// ```
    ///
    /// # Panics
    /// If `dim` or `centres` is 0, or `spread` is not finite.
    #[must_use]
    pub fn clusters(clusters: &Clusters) -> Self {
        let &Clusters {
            rows,
            dim,
            centres,
            spread,
            seed,
        } = clusters;
        assert!(
            dim > 0 && centres > 0,
            "{dim} dimensions, {centres} centres: at least 1 of each"
        );
        assert!(spread.is_finite(), "a spread of {spread}: must be finite");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let means: Vec<f32> = (0..centres * dim)
            .map(|_| rng.sample(StandardNormal))
            .collect();
        let mut values = Vec::with_capacity(rows * dim);
        for _ in 0..rows {
            let centre = rng.random_range(0..centres) * dim;
            for mean in &means[centre..centre + dim] {
                let noise: f32 = rng.sample(StandardNormal);
                values.push(mean + spread * noise);
            }
        }
        Self {
            rows: values,
            dim,
            labels: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_alone_decides_the_vectors() {
        let small = Clusters {
            rows: 50,
            dim: 4,
            centres: 3,
            ..Clusters::default()
        };
        let set = VectorSet::clusters(&small);
        assert_eq!(set, VectorSet::clusters(&small));
        assert_ne!(set, VectorSet::clusters(&Clusters { seed: 2, ..small }));
    }

    #[test]
    fn without_spread_only_the_centres_remain() {
        let set = VectorSet::clusters(&Clusters {
            rows: 200,
            dim: 3,
            centres: 5,
            spread: 0.0,
            ..Clusters::default()
        });
        let mut rows: Vec<_> = set
            .rows()
            .map(|r| r.iter().map(|v| v.to_bits()).collect())
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let rows: Vec<Vec<u32>> = rows;
        assert_eq!(rows.len(), 5);
    }
}
