//! 8-bit codes of rows and queries that lie far from most rows.

use crate::common::{recall, unsplit};
use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Pages, RowFormat, normalized};
use chiplet_table::{Context, Query, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Rows of whole cache lines: where all are inside the range they have no constant, where one is outside they have.
const DIM: usize = 64;
const ROWS: usize = 3000;
const WILD: usize = 77;

/// About normal with deviation 1.
fn normal(rows: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut value = || (0..12).map(|_| random.random_range(-0.5..0.5_f32)).sum();
    (0..rows * DIM).map(|_| value()).collect()
}

fn queries(vectors: &[f32]) -> Vec<Query> {
    let vectors = vectors.chunks_exact(DIM);
    vectors.map(|v| Query::new(v).top(10).ef(200)).collect()
}

fn sq8(rows: &[f32], metric: Metric) -> HnswTable {
    sq8_of(rows, DIM, metric)
}

fn sq8_of(rows: &[f32], dim: usize, metric: Metric) -> HnswTable {
    let config = HnswConfig::new(metric).ef_construction(80);
    HnswTable::build(rows, dim, &config.rows(RowFormat::Sq8)).unwrap()
}

fn squared(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2))
        .sum()
}

#[test]
fn one_wild_component_does_not_coarsen_all_rows() {
    let queries = queries(&normal(100, 2));
    for metric in [Metric::L2, Metric::Cosine] {
        let mut rows = normal(ROWS, 1);
        let found = |rows: &[f32]| {
            let exact = FlatTable::build(rows, DIM, metric).unwrap();
            recall(&exact, &sq8(rows, metric), &queries)
        };
        let without = found(&rows);
        assert!(without > 0.9, "{metric:?}: {without}");
        for wild in [1e3, -1e4] {
            rows[WILD * DIM + 5] = wild;
            let with = found(&rows);
            assert!(
                with >= without - 0.02,
                "{metric:?}, {wild}: {with} of {without}"
            );
        }
    }
}

#[test]
fn a_cosine_query_outside_the_rows_range_gets_true_distances() {
    let mut rows = normal(ROWS, 1);
    // All rows in one half of space.
    rows.chunks_exact_mut(DIM).for_each(|row| row[0] += 10.0);
    let coded = sq8(&rows, Metric::Cosine);
    let units: Vec<Vec<f32>> = rows.chunks_exact(DIM).map(normalized).collect();
    for vector in normal(20, 2).chunks_exact(DIM) {
        for query in queries(vector) {
            let direction = normalized(vector);
            for hit in unsplit(&coded, &query) {
                let exact = squared(&direction, &units[hit.id as usize]) / 2.0;
                let off = f64::from(hit.distance) - exact;
                assert!(off.abs() < 0.01 * exact, "{hit:?}, truly {exact}");
            }
        }
    }
}

#[test]
fn a_row_outside_the_codes_range_is_still_far() {
    let mut rows = normal(ROWS, 1);
    for wild in [30.0, 1e3, 1e6] {
        rows[WILD * DIM + 5] = wild;
        let table = sq8(&rows, Metric::L2);
        let query = Query::new([0.0; DIM]).top(ROWS).ef(ROWS);
        let hits = unsplit(&table, &query);
        let last = hits.last().unwrap();
        assert_eq!(last.id, WILD as u64, "{wild}");
        let exact = squared(&[0.0; DIM], &rows[WILD * DIM..][..DIM]);
        if wild < 1e4 {
            let off = f64::from(last.distance) / exact - 1.0;
            assert!(off.abs() < 0.05, "{wild}: {} for {exact}", last.distance);
        }
    }
}

#[test]
fn rows_have_constants_only_where_one_needs_it() {
    let path = std::env::temp_dir().join(format!("chiplet-ranges-{}", std::process::id()));
    let inside = normal(ROWS, 1);
    let mut outside = inside.clone();
    outside[WILD * DIM + 5] = 1e3;
    let mut zeros = inside.clone();
    zeros[WILD * DIM..][..DIM].fill(0.0);
    for (rows, metric, constant) in [
        (&inside, Metric::L2, 0),
        (&inside, Metric::Cosine, 0),
        (&outside, Metric::L2, 4),
        (&outside, Metric::Cosine, 4),
        (&zeros, Metric::L2, 0),
        (&zeros, Metric::Cosine, 4),
        (&outside, Metric::InnerProduct, 0),
    ] {
        let table = sq8(rows, metric);
        let other = table.size_bytes() - (ROWS * (DIM + constant)) as u64;
        let links =
            HnswConfig::new(metric).table_bytes(ROWS, DIM) - (ROWS * size_of::<f32>() * DIM) as u64;
        assert!(
            other.abs_diff(links) < ROWS as u64 * 2,
            "{metric:?}, {constant}: {other} beside rows, {links} expected"
        );
        table.save(&path).unwrap();
        let loaded = HnswTable::load(&path, Pages::default()).unwrap();
        for query in queries(&normal(20, 2)) {
            assert_eq!(unsplit(&loaded, &query), unsplit(&table, &query));
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn rows_of_few_kinds_keep_their_range() {
    // Each component is 0 in nearly all rows; no row is like most. (With twice as many kinds walks miss some, whatever
    // rows are kept as.)
    const KINDS: usize = 32;
    let mut rows = vec![0.0; ROWS * KINDS];
    for row in 0..ROWS {
        rows[row * KINDS + row % KINDS] = 1.0 + row as f32 / ROWS as f32;
    }
    let table = sq8_of(&rows, KINDS, Metric::L2);
    for row in (0..ROWS).step_by(100) {
        let vector = &rows[row * KINDS..][..KINDS];
        let hits = unsplit(&table, &Query::new(vector).top(1).ef(400));
        assert!(hits[0].distance < 1e-3, "{row}: {hits:?}");
    }
}

#[test]
fn a_query_outside_the_rows_range_gets_true_distances() {
    let rows = normal(ROWS, 1);
    let exact = FlatTable::build(&rows, DIM, Metric::L2).unwrap();
    let config = HnswConfig::new(Metric::L2).ef_construction(80);
    let floats = HnswTable::build(&rows, DIM, &config).unwrap();
    let coded = sq8(&rows, Metric::L2);
    for shift in [5.0, 20.0, 1e3, -1e6] {
        let mut vectors = normal(50, 2);
        let shifted = vectors.iter_mut().step_by(2);
        shifted.for_each(|x| *x += shift);
        for (vector, query) in vectors.chunks_exact(DIM).zip(queries(&vectors)) {
            let hits = unsplit(&coded, &query);
            assert_eq!(hits.len(), 10);
            for hit in &hits {
                let true_one = squared(vector, &rows[hit.id as usize * DIM..][..DIM]);
                let off = (f64::from(hit.distance) / true_one - 1.0).abs();
                assert!(off < 0.01, "{shift}: {hit:?}, truly {true_one}");
            }
            // Half of the ten lie within this radius, and the codes are not off by so much as to change that by far.
            let truth = unsplit(&exact, &query.clone().top(10));
            if shift.abs() < 1e3 {
                let radius = (truth[4].distance + truth[5].distance) / 2.0;
                let within = query.radius(radius);
                let within = coded.search(&within, &mut Context::default()).unwrap();
                assert!((3..=7).contains(&within.len()), "{shift}: {within:?}");
            }
        }
        if shift.abs() < 1e3 {
            let queries = queries(&vectors);
            let (wanted, got) = (
                recall(&exact, &floats, &queries),
                recall(&exact, &coded, &queries),
            );
            assert!(got >= wanted - ALLOWED, "{shift}: {got}, f32 {wanted}");
        }
    }
}

/// Recall that codes may lose to f32.
const ALLOWED: f64 = 0.02;
