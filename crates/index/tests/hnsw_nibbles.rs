//! 4-bit rows, re-ranked: a search finds what one over whole rows finds at the same `ef`, for many kinds of rows.

mod common;

use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::Query;
use common::{recall, unsplit};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Rows of 48 components have room for a scale of their own, rows of 64 do not.
const DIMS: [usize; 2] = [48, 64];
const ROWS: usize = 4000;

/// `k` and `ef`, and the recall that 4-bit rows may lose to whole ones. These rows are harder than real ones: around 40 centres
/// all directions are alike, so the hundredth nearest is hardly nearer than the two hundredth.
const ASKED: [(usize, usize, f64); 2] = [(10, 40, 0.01), (100, 150, 0.02)];

/// Vectors near random centres, about normal in each component.
fn vectors(dim: usize, count: usize, seed: u64) -> Vec<f32> {
    let mut normal = {
        let mut random = StdRng::seed_from_u64(seed);
        move || -> f32 { (0..12).map(|_| random.random_range(-0.5..0.5_f32)).sum() }
    };
    let centre = {
        let mut random = StdRng::seed_from_u64(1);
        let centres: Vec<f32> = (0..40 * dim)
            .map(|_| random.random_range(-1.0..1.0))
            .collect();
        move |row: usize, i: usize| centres[row % 40 * dim + i]
    };
    let values = (0..count * dim).map(|at| centre(at / dim, at % dim) + normal());
    values.collect()
}

fn queries(vectors: &[f32], dim: usize, k: usize, ef: usize) -> Vec<Query> {
    let vectors = vectors.chunks_exact(dim);
    vectors
        .map(|vector| Query::new(vector).top(k).ef(ef))
        .collect()
}

/// Compares recall with that of whole rows, for `k` of 10 and 100.
fn assert_finds_as_much(what: &str, dim: usize, rows: &[f32], asked: &[f32], metric: Metric) {
    let exact = FlatTable::build(rows, dim, metric).unwrap();
    let config = HnswConfig::new(metric).ef_construction(80);
    let whole = HnswTable::build(rows, dim, &config).unwrap();
    let config = config.rows(RowFormat::Sq4).rerank(RowFormat::F32);
    let coded = HnswTable::build(rows, dim, &config).unwrap();
    for (k, ef, allowed) in ASKED {
        let queries = queries(asked, dim, k, ef);
        let wanted = recall(&exact, &whole, &queries);
        let found = recall(&exact, &coded, &queries);
        assert!(
            found >= wanted - allowed,
            "{what}, {dim}, {metric:?}, k {k}: {found}, whole rows {wanted}"
        );
    }
}

/// Both dimensions, in each metric.
fn each() -> impl Iterator<Item = (usize, Metric)> {
    let metrics = [Metric::L2, Metric::Cosine, Metric::InnerProduct];
    let with = move |dim| metrics.map(|metric| (dim, metric));
    DIMS.into_iter().flat_map(with)
}

#[test]
fn ordinary_rows() {
    for (dim, metric) in each() {
        let (rows, asked) = (vectors(dim, ROWS, 2), vectors(dim, 100, 3));
        assert_finds_as_much("ordinary", dim, &rows, &asked, metric);
    }
}

#[test]
fn components_of_very_different_size() {
    let scaled = |mut vectors: Vec<f32>, dim| {
        for row in vectors.chunks_exact_mut(dim) {
            let sizes = (0..dim).map(|i| 0.8_f32.powi(i as i32));
            row.iter_mut().zip(sizes).for_each(|(x, size)| *x *= size);
        }
        vectors
    };
    for (dim, metric) in each() {
        let rows = scaled(vectors(dim, ROWS, 2), dim);
        let asked = scaled(vectors(dim, 100, 3), dim);
        assert_finds_as_much("unequal components", dim, &rows, &asked, metric);
    }
}

#[test]
fn rows_of_very_different_length() {
    for (dim, metric) in each() {
        if (dim, metric) == (64, Metric::L2) {
            // Near queries are short rows, which are hardly more than a step of the long ones: use 8 bits.
            continue;
        }
        let mut rows = vectors(dim, ROWS, 2);
        for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
            let length = 10_f32.powf((number * 7919 % ROWS) as f32 / ROWS as f32 - 0.5);
            row.iter_mut().for_each(|x| *x *= length);
        }
        let asked = vectors(dim, 100, 3);
        assert_finds_as_much("unequal lengths", dim, &rows, &asked, metric);
    }
}

#[test]
fn a_few_rows_far_from_all_others() {
    for (dim, metric) in each().filter(|(_, metric)| *metric != Metric::InnerProduct) {
        let mut rows = vectors(dim, ROWS, 2);
        for (number, row) in rows.chunks_exact_mut(dim).enumerate().step_by(500) {
            row[number % dim] = 1e4;
        }
        let asked = vectors(dim, 100, 3);
        assert_finds_as_much("outliers", dim, &rows, &asked, metric);
    }
}

#[test]
fn queries_far_from_all_rows() {
    for dim in DIMS {
        let rows = vectors(dim, ROWS, 2);
        for shift in [3.0, 30.0, 300.0] {
            let mut asked = vectors(dim, 100, 3);
            asked.iter_mut().step_by(2).for_each(|x| *x += shift);
            assert_finds_as_much("shifted queries", dim, &rows, &asked, Metric::L2);
        }
    }
}

#[test]
fn sparse_rows_of_few_values() {
    let sparse = |mut vectors: Vec<f32>, dim| {
        for (number, row) in vectors.chunks_exact_mut(dim).enumerate() {
            for (i, x) in row.iter_mut().enumerate() {
                let kept = (number * 31 + i * 17) % 12 == 0;
                *x = if kept {
                    1.0 + (*x * 4.0).round() / 4.0
                } else {
                    0.0
                };
            }
        }
        vectors
    };
    for dim in DIMS {
        let rows = sparse(vectors(dim, ROWS, 2), dim);
        let asked = sparse(vectors(dim, 100, 3), dim);
        assert_finds_as_much("sparse", dim, &rows, &asked, Metric::L2);
    }
}

/// The limit that `RowFormat::Sq4` names: what tells rows of tight clusters apart is less than a step.
#[test]
fn the_tighter_the_clusters_the_less_is_found() {
    for dim in DIMS {
        let found = [0.3, 0.1].map(|spread| {
            let near = |count, seed| -> Vec<f32> {
                let (centres, apart) = (vectors(dim, 30, 1), vectors(dim, count, seed));
                let values = apart.iter().enumerate();
                let value =
                    |(at, x): (usize, &f32)| centres[at / dim % 30 * dim + at % dim] + spread * x;
                values.map(value).collect()
            };
            let (rows, asked) = (near(3_000, 2), near(60, 3));
            let exact = FlatTable::build(&rows, dim, Metric::L2).unwrap();
            let config = HnswConfig::new(Metric::L2).ef_construction(80);
            let config = config.rows(RowFormat::Sq4).rerank(RowFormat::F32);
            let table = HnswTable::build(&rows, dim, &config).unwrap();
            recall(&exact, &table, &queries(&asked, dim, 10, 40))
        });
        assert!(found[0] > 0.95, "{dim}: {found:?}");
        assert!(found[1] > 0.7, "{dim}: {found:?}");
    }
}

#[test]
fn rows_of_two_kinds_in_turns() {
    for dim in DIMS {
        let mixed = |count, seed| {
            let mut vectors = vectors(dim, count, seed);
            let other = vectors.chunks_exact_mut(dim).step_by(2);
            other.for_each(|row| row.iter_mut().for_each(|x| *x += 3.0));
            vectors
        };
        // Every second of these is looked at to choose the step.
        let (rows, asked) = (mixed(1_500, 2), mixed(100, 3));
        assert_finds_as_much("in turns", dim, &rows, &asked, Metric::L2);
    }
}

#[test]
fn rows_of_which_nearly_all_are_equal() {
    for (dim, size) in DIMS
        .into_iter()
        .flat_map(|dim| [(dim, 1e-3), (dim, 1.0), (dim, 1e4)])
    {
        let mut rows = vec![0.5; ROWS * dim];
        let others: Vec<f32> = vectors(dim, 20, 2).iter().map(|x| 0.5 + x * size).collect();
        let few = rows.chunks_exact_mut(dim).skip(7).step_by(199);
        for (row, other) in few.zip(others.chunks_exact(dim)) {
            row.copy_from_slice(other);
        }
        let config = HnswConfig::new(Metric::L2).ef_construction(80);
        let config = config.rows(RowFormat::Sq4).rerank(RowFormat::F32);
        let table = HnswTable::build(&rows, dim, &config).unwrap();
        for (number, other) in others.chunks_exact(dim).enumerate() {
            let hits = unsplit(&table, &Query::new(other).top(1));
            assert_eq!(hits[0].id as usize, 7 + 199 * number, "{dim}, {size}");
            assert_eq!(hits[0].distance, 0.0);
        }
    }
}
