//! Each row is found: a walk that keeps as many candidates as there are rows answers as a scan of all does, whatever
//! the rows, the metric, the links of a node, the threads of the build and the order of insertion.

use crate::common::{duplicated, unsplit};
use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric};
use chiplet_table::{Query, Table};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Rows that have been hard for a graph, each kind for a reason of its own.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Uniform,
    /// All at right angles.
    OneHot,
    /// Two components are not 0: most pairs are at right angles.
    Sparse,
    /// Copies of five rows.
    Equal,
    /// Clusters of 20, a hundred times as far apart as they are wide.
    Clusters,
    /// Of lengths from 1e-4 to 1e4.
    Lengths,
}

const KINDS: [Kind; 6] = [
    Kind::Uniform,
    Kind::OneHot,
    Kind::Sparse,
    Kind::Equal,
    Kind::Clusters,
    Kind::Lengths,
];

fn rows(kind: Kind, n: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    if let Kind::Equal = kind {
        return duplicated(n, dim, 5, seed);
    }
    let mut centre = Vec::new();
    let row = |number: usize| -> Vec<f32> {
        let mut row = vec![0.0; dim];
        match kind {
            Kind::OneHot => row[number % dim] = 1.0,
            Kind::Sparse => {
                (0..2)
                    .for_each(|_| row[random.random_range(0..dim)] = random.random_range(0.1..1.0));
            }
            _ => row.fill_with(|| random.random_range(-1.0..1.0)),
        }
        if let Kind::Clusters = kind {
            if number.is_multiple_of(20) {
                centre = row.iter().map(|x| x * 100.0).collect();
            }
            row.iter_mut().zip(&centre).for_each(|(x, c)| *x += c);
        }
        if let Kind::Lengths = kind {
            let length = 10_f32.powf(random.random_range(-4.0..4.0));
            row.iter_mut().for_each(|x| *x *= length);
        }
        row
    };
    (0..n).flat_map(row).collect()
}

/// Asks for `k` rows near each row, of as many candidates as there are rows.
fn assert_found(rows: &[f32], dim: usize, config: &HnswConfig, metric: Metric, k: usize) {
    let exact = FlatTable::build(rows, dim, metric).unwrap();
    let table = HnswTable::build(rows, dim, config).unwrap();
    for row in rows.chunks_exact(dim) {
        let query = Query::new(row).top(k).ef(table.len());
        assert_eq!(unsplit(&table, &query), unsplit(&exact, &query));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_row_is_found_by_as_many_candidates_as_there_are_rows(
        kind in proptest::sample::select(&KINDS[..]),
        metric in proptest::sample::select(&[Metric::L2, Metric::Cosine, Metric::InnerProduct][..]),
        m in proptest::sample::select(&[2, 4, 16, 48][..]),
        threads in proptest::sample::select(&[1, 2, 4][..]),
        sorted in any::<bool>(),
        scale in proptest::sample::select(&[1e-20_f32, 1.0, 1e12][..]),
        (n, dim) in (1_usize..500, 1_usize..300),
        ef_construction in proptest::sample::select(&[1, 8, 100][..]),
        seed in any::<u64>(),
    ) {
        let mut rows: Vec<Vec<f32>> =
            rows(kind, n, dim, seed).chunks_exact(dim).map(<[f32]>::to_vec).collect();
        if sorted {
            rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        }
        let mut rows = rows.concat();
        rows.iter_mut().for_each(|x| *x *= scale);
        let config = HnswConfig::new(metric).m(m).threads(threads).ef_construction(ef_construction);
        assert_found(&rows, dim, &config, metric, 3);
    }
}

#[test]
fn rows_at_right_angles_are_found_under_the_inner_product() {
    let metric = Metric::InnerProduct;
    let config = HnswConfig::new(metric);
    assert_found(&rows(Kind::OneHot, 64, 64, 1), 64, &config, metric, 1);
    assert_found(&rows(Kind::Sparse, 500, 300, 1), 300, &config, metric, 1);
    let few = config.m(4);
    for threads in [1, 2, 4] {
        let config = few.clone().threads(threads);
        assert_found(&rows(Kind::Uniform, 900, 24, 1), 24, &config, metric, 1);
    }
}

/// Clusters of more rows than a walk keeps candidates: a walk that begins in another cluster may not leave it.
#[test]
fn short_walks_find_rows_of_tight_clusters() {
    let (clusters, each, dim) = (400, 50, 32);
    for seed in 7..10 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut vector = |size: f32| -> Vec<f32> {
            (0..dim).map(|_| random.random_range(-size..size)).collect()
        };
        let centres: Vec<Vec<f32>> = (0..clusters).map(|_| vector(1.7)).collect();
        let mut rows = Vec::new();
        for centre in centres.iter().cycle().take(clusters * each) {
            rows.extend(centre.iter().zip(vector(0.017)).map(|(c, x)| c + x));
        }
        let table = HnswTable::build(&rows, dim, &HnswConfig::new(Metric::L2)).unwrap();
        for (ef, most) in [(32, 50), (64, 10)] {
            let missed = rows.chunks_exact(dim).zip(0..).filter(|&(row, id)| {
                let hits = unsplit(&table, &Query::new(row).top(1).ef(ef));
                hits[0].id != id
            });
            let missed = missed.count();
            assert!(missed <= most, "seed {seed}, ef {ef}: {missed} of 20,000");
        }
    }
}
