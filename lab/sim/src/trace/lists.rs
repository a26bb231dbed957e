//! Which inverted lists queries visit: those of a k-means over real vectors, scaled as walks are.
//!
//! An IVF search reads all centroids, then its lists one after the other, so what it reads follows from which lists it
//! visits and how long they are. Both are taken from a k-means of [`BASE`] lists over drawn vectors: lists differ in
//! length, and near queries visit the same ones. A table of `m` times the lists has `m` parts of each recorded list; a
//! query visits some of them, which follow from its tile. That keeps how uneven lists are and how queries share the
//! popular ones; it cannot keep which of the finer lists lie on both sides of a recorded border.

use chiplet_workload::dataset::{Clusters, VectorSet};

use super::queries;
use crate::workload::Topics;

/// Recorded lists.
pub const BASE: usize = 128;

/// How many of them each recorded query knows, nearest first.
const KNOWN: usize = 64;

/// Components of the recorded vectors.
const DIM: usize = 32;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Lists {
    /// The part of all rows that each list holds; the sum is 1.
    parts: Vec<f64>,
    /// Of the queries so many are drawn anywhere; after them come those of topics.
    pub(crate) anywhere: usize,
    /// For each query the nearest lists.
    nearest: Vec<Vec<u32>>,
}

/// An IVF table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListShape {
    /// Its rows.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Its lists.
    pub lists: usize,
    /// Lists that a query visits.
    pub probes: usize,
}

impl ListShape {
    /// Parts of each recorded list.
    fn parts(&self) -> usize {
        (self.lists / BASE).max(1)
    }
}

/// A list that a query visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its number in the table.
    pub list: u64,
    /// Its length.
    pub bytes: u64,
}

impl Lists {
    /// Draws vectors, finds centroids, and records the lists that `queries` queries visit, and those of topics.
    pub fn record(queries: usize, topics: Option<Topics>, seed: u64) -> Self {
        const ROWS: usize = 16_384;
        let set = VectorSet::clusters(&Clusters {
            rows: ROWS + queries::to_draw(queries, topics),
            dim: DIM,
            centres: 400,
            spread: 0.8,
            seed,
        });
        let (rows, drawn) = set.as_slice().split_at(ROWS * DIM);
        let asked = &queries::recorded(drawn, DIM, queries, topics);
        let (centroids, sizes) = k_means(rows);
        let nearest: Vec<Vec<u32>> = asked
            .chunks(DIM)
            .map(|query| nearest(&centroids, query, KNOWN))
            .collect();
        Self {
            parts: sizes
                .iter()
                .map(|&size| size as f64 / ROWS as f64)
                .collect(),
            anywhere: queries,
            nearest,
        }
    }

    /// Different queries.
    pub fn queries(&self) -> usize {
        self.nearest.len()
    }

    /// The lists that `query` of `tile` visits in a table of that shape, nearest first.
    pub fn visits(&self, shape: &ListShape, query: usize, tile: u64) -> Vec<Visit> {
        let parts = shape.parts();
        // Of a near list several parts.
        let taken = (parts / 8).clamp(1, parts);
        let known = &self.nearest[query % self.nearest.len()];
        let probes = shape.probes.clamp(1, shape.lists);
        let mut visits = Vec::with_capacity(probes);
        'visits: for &list in known {
            let rows = self.parts[list as usize] * shape.rows as f64 / parts as f64;
            let bytes = (rows * shape.row_bytes as f64) as u64;
            for step in 0..taken {
                if visits.len() == probes {
                    break 'visits;
                }
                let part = (tile as usize + step) % parts;
                visits.push(Visit {
                    list: (list as usize * parts + part) as u64,
                    bytes,
                });
            }
        }
        visits
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The numbers of the `count` nearest centroids, nearest first.
fn nearest(centroids: &[f32], query: &[f32], count: usize) -> Vec<u32> {
    let all = centroids.chunks(DIM).zip(0_u32..);
    let mut all: Vec<(f32, u32)> = all
        .map(|(centroid, list)| (distance(centroid, query), list))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(count).map(|(_, list)| list).collect()
}

fn closest(centroids: &[f32], row: &[f32]) -> usize {
    let mut best = (f32::INFINITY, 0);
    for (list, centroid) in centroids.chunks(DIM).enumerate() {
        let distance = distance(centroid, row);
        if distance < best.0 {
            best = (distance, list);
        }
    }
    best.1
}

/// Lloyd's iterations from evenly spaced rows: centroids, and how many rows are nearest to each.
fn k_means(rows: &[f32]) -> (Vec<f32>, Vec<usize>) {
    let count = rows.len() / DIM;
    let mut centroids: Vec<f32> = (0..BASE)
        .flat_map(|list| rows[list * (count / BASE) * DIM..][..DIM].iter().copied())
        .collect();
    let mut sizes = vec![0; BASE];
    for _ in 0..6 {
        let mut sums = vec![0.0_f32; BASE * DIM];
        sizes = vec![0; BASE];
        for row in rows.chunks(DIM) {
            let list = closest(&centroids, row);
            sizes[list] += 1;
            for (sum, value) in sums[list * DIM..][..DIM].iter_mut().zip(row) {
                *sum += value;
            }
        }
        for (list, &size) in sizes.iter().enumerate() {
            if size > 0 {
                let centroid = &mut centroids[list * DIM..][..DIM];
                for (out, sum) in centroid.iter_mut().zip(&sums[list * DIM..][..DIM]) {
                    *out = sum / size as f32;
                }
            }
        }
    }
    (centroids, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_visits_as_many_different_lists_as_it_asks_for() {
        let lists = Lists::record(20, None, 1);
        assert!((lists.parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (count, probes) in [(128, 8), (1_024, 16), (8_192, 128)] {
            let shape = ListShape {
                rows: 1_000_000,
                row_bytes: 512,
                lists: count,
                probes,
            };
            let visits = lists.visits(&shape, 3, 77);
            assert_eq!(visits.len(), probes);
            let mut seen: Vec<u64> = visits.iter().map(|visit| visit.list).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), probes);
            assert!(seen.last() < Some(&(count as u64)));
        }
    }
}
