//! Exact search: what everything else is measured against.

use crate::common::{clustered, duplicated, split, unsplit};
use chiplet_index::{
    BuildError, FlatTable, HnswConfig, HnswTable, MAX_NORM, Metric, RowFormat, normalized,
};
use chiplet_table::{Context, Query, SplitTable, Table};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::LazyLock;

const DIM: usize = 24;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Several blocks (a block is 256 KiB), nearly all rows with many twins.
static TABLES: LazyLock<Vec<FlatTable>> = LazyLock::new(|| {
    let rows = duplicated(9000, DIM, 40, 5);
    METRICS
        .map(|metric| FlatTable::build(rows.clone(), DIM, metric).unwrap())
        .into()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn split_answers_equal_unsplit_ones(
        vector in prop::collection::vec(-2.0f32..2.0, DIM),
        k in 1usize..400,
        cuts: u64,
    ) {
        for table in TABLES.iter() {
            let query = Query::new(vector.clone()).top(k);
            prop_assert!(table.coarse(&query, &mut Context::default()).unwrap().len() > 2);
            prop_assert_eq!(split(table, &query, cuts), unsplit(table, &query));
        }
    }
}

#[test]
fn finds_what_sorting_all_rows_finds() {
    let rows = clustered(700, DIM, 1);
    let vector = &rows[30 * DIM..31 * DIM];
    for metric in METRICS {
        let table = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        let mut all: Vec<(f64, u64)> = rows
            .chunks_exact(DIM)
            .zip(0u64..)
            .map(|(row, id)| (plain_distance(metric, vector, row), id))
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let hits = unsplit(&table, &Query::new(vector).top(25));
        for (hit, (distance, _)) in hits.iter().zip(&all) {
            assert!(
                (f64::from(hit.distance) - distance).abs() < 1e-4,
                "{metric:?}"
            );
        }
        assert_eq!(hits.len(), 25);
        if metric != Metric::InnerProduct {
            assert_eq!(hits[0].id, 30, "{metric:?}: a row is nearest to itself");
        }
    }
}

fn plain_distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |term: fn(f64, f64) -> f64| -> f64 {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| term(a.into(), b.into()))
            .sum()
    };
    let dot = sum(|a, b| a * b);
    match metric {
        Metric::L2 => sum(|a, b| (a - b) * (a - b)),
        Metric::Cosine => 1.0 - dot / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt(),
        Metric::InnerProduct => -dot,
    }
}

#[test]
fn equal_distances_are_ordered_by_id() {
    let rows = [[1.0f32, 0.0]; 50].concat();
    let table = FlatTable::build(rows, 2, Metric::L2).unwrap();
    let hits = unsplit(&table, &Query::new([0.0, 0.0]).top(7));
    let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn reads_every_byte_once_split_or_not() {
    for table in TABLES.iter() {
        let query = Query::new(vec![0.5; DIM]);
        let mut whole = Context::default();
        table.search(&query, &mut whole).unwrap();
        assert_eq!(whole.bytes(), 9000 * DIM as u64 * 4);
        let probes = table.coarse(&query, &mut Context::default()).unwrap();
        let estimated: u64 = probes.iter().map(|probe| probe.cost_bytes).sum();
        assert_eq!(estimated, whole.bytes());
    }
}

#[test]
fn a_zero_vector_is_at_cosine_distance_one_from_everything() {
    let rows = vec![0.0, 0.0, 1.0, 0.0, 0.0, -2.0];
    let table = FlatTable::build(rows, 2, Metric::Cosine).unwrap();
    let hits = unsplit(&table, &Query::new([3.0, 0.0]).top(3));
    let found: Vec<_> = hits.iter().map(|hit| (hit.id, hit.distance)).collect();
    assert_eq!(found, [(1, 0.0), (0, 1.0), (2, 1.0)]);
    let hits = unsplit(&table, &Query::new([0.0, 0.0]).top(3));
    assert!(hits.iter().all(|hit| hit.distance == 1.0));
    assert_eq!(normalized(&[0.0, -2.0]), [0.0, -1.0]);
}

#[test]
fn refuses_rows_it_cannot_compare_and_names_them() {
    let build = |rows: &[f32], dim, metric| FlatTable::build(rows, dim, metric).err().unwrap();
    assert_eq!(build(&[1.0], 0, Metric::L2), BuildError::ZeroDimension);
    assert_eq!(
        build(&[1.0; 7], 3, Metric::L2),
        BuildError::RaggedRows { values: 7, dim: 3 }
    );
    assert_eq!(
        build(&[1.0, 2.0, 3.0, f32::INFINITY], 2, Metric::Cosine),
        BuildError::NotFinite {
            row: 1,
            component: 1,
            value: f32::INFINITY
        }
    );
    assert!(matches!(
        build(&[1.0, f32::NAN], 2, Metric::L2),
        BuildError::NotFinite {
            row: 0,
            component: 1,
            ..
        }
    ));
    assert_eq!(
        build(&[1.0, 1e19], 1, Metric::InnerProduct),
        BuildError::RowTooLong {
            row: 1,
            norm: f64::from(1e19f32),
            limit: MAX_NORM
        }
    );
    // Scaling to length 1 makes any finite row comparable.
    assert!(FlatTable::build([1.0, 1e19], 1, Metric::Cosine).is_ok());
}

#[test]
fn cosine_ranks_rows_that_are_nearly_parallel() {
    let (rows, dim) = (400, 48);
    let mut random = StdRng::seed_from_u64(9);
    let base: Vec<f32> = (0..dim).map(|_| random.random_range(-1.0..1.0)).collect();
    let length = f64::sqrt(base.iter().map(|&x| f64::from(x).powi(2)).sum());
    for angle in [1e-3, 1e-4] {
        let size = (angle * length / f64::from(dim as u32).sqrt()) as f32;
        let mut near = |count: usize| -> Vec<f32> {
            let values = base.iter().cycle().take(count * dim);
            values
                .map(|x| x + random.random_range(-size..size))
                .collect()
        };
        let (vectors, queries) = (near(rows), near(20));
        // Distances of unit vectors as they are kept: what normalizing in f32 loses is lost to any table.
        let unit: Vec<Vec<f32>> = vectors.chunks_exact(dim).map(normalized).collect();
        let flat = FlatTable::build(&vectors, dim, Metric::Cosine).unwrap();
        let config = HnswConfig::new(Metric::Cosine);
        let graph = HnswTable::build(&vectors, dim, &config).unwrap();
        let reranked = HnswTable::build(&vectors, dim, &config.rerank(RowFormat::F32)).unwrap();
        for table in [&flat as &dyn Table, &graph, &reranked] {
            let mut right = 0;
            for query in queries.chunks_exact(dim) {
                let direction = normalized(query);
                let mut truth: Vec<(f64, u64)> = unit
                    .iter()
                    .zip(0..)
                    .map(|(row, id)| (plain_distance(Metric::L2, &direction, row) / 2.0, id))
                    .collect();
                truth.sort_by(|a, b| a.partial_cmp(b).unwrap());
                let hits = unsplit(table, &Query::new(query).top(10).ef(rows));
                for hit in &hits {
                    let (exact, _) = truth.iter().find(|(_, id)| *id == hit.id).unwrap();
                    assert!(
                        (f64::from(hit.distance) / exact - 1.0).abs() < 1e-4,
                        "{hit:?}"
                    );
                }
                let ten: Vec<u64> = truth[..10].iter().map(|&(_, id)| id).collect();
                right += hits.iter().filter(|hit| ten.contains(&hit.id)).count();
            }
            // 200 in all; two may tie in f32.
            assert!(
                right >= 198,
                "angle {angle}: {right} of 200, {}",
                table.size_bytes()
            );
        }
    }
}

#[test]
fn cosine_tells_rows_of_zeros_from_rows_at_sixty_degrees() {
    let rows = [0.0, 0.0, 0.5, 0.75_f32.sqrt(), -0.0, 0.0, 0.0, 1.0];
    let table = FlatTable::build(rows, 2, Metric::Cosine).unwrap();
    let hits = unsplit(&table, &Query::new([1.0, 0.0]).top(4));
    assert_eq!(hits[0].id, 1);
    assert!((hits[0].distance - 0.5).abs() < 1e-6);
    let others: Vec<_> = hits[1..].iter().map(|hit| (hit.id, hit.distance)).collect();
    assert_eq!(others, [(0, 1.0), (2, 1.0), (3, 1.0)]);
}
