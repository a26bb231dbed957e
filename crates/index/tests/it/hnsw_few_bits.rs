//! Rows of 4, 2 and 1 bits, re-ranked: how much of what a search over whole rows finds they find at the same `ef`, for
//! many kinds of rows.

use crate::common::{recall, unsplit};
use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::{Context, Query, Table as _};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A format, how many rows of how many components, and what is asked: `k`, `ef`, and the recall that the format may
/// lose to whole rows. These rows are harder than real ones: around 40 centres all directions are alike, so the
/// hundredth nearest is hardly nearer than the two hundredth.
#[derive(Clone, Copy)]
struct Case {
    format: RowFormat,
    rows: usize,
    dim: usize,
    asked: [(usize, usize, f64); 2],
}

/// 4-bit rows of 48 components have room for a scale of their own, rows of 64 do not. Of fewer bits all rows have one;
/// of 2 bits 256 components are cut to 240.
const CASES: [Case; 4] = [
    Case {
        format: RowFormat::Sq4,
        rows: 2_000,
        dim: 48,
        asked: [(10, 40, 0.01), (100, 100, 0.02)],
    },
    Case {
        format: RowFormat::Sq4,
        rows: 2_000,
        dim: 64,
        asked: [(10, 40, 0.01), (100, 100, 0.02)],
    },
    Case {
        format: RowFormat::Sq2,
        rows: 1_500,
        dim: 256,
        asked: [(10, 80, 0.02), (100, 400, 0.03)],
    },
    Case {
        format: RowFormat::Sq1,
        rows: 1_500,
        dim: 384,
        asked: [(10, 80, 0.03), (100, 400, 0.08)],
    },
];

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

/// Compares recall with that of whole rows.
fn assert_finds_as_much(what: &str, case: Case, rows: &[f32], asked: &[f32], metric: Metric) {
    assert_each_finds_as_much(what, case, rows, [asked], metric);
}

/// The same for several sets of queries.
fn assert_each_finds_as_much<'a>(
    what: &str,
    case: Case,
    rows: &[f32],
    sets: impl IntoIterator<Item = &'a [f32]>,
    metric: Metric,
) {
    let Case { format, dim, .. } = case;
    let exact = FlatTable::build(rows, dim, metric).unwrap();
    let config = HnswConfig::new(metric).ef_construction(80);
    let whole = HnswTable::build(rows, dim, &config).unwrap();
    let config = config.rows(format).rerank(RowFormat::F32);
    let coded = HnswTable::build(rows, dim, &config).unwrap();
    let asked = |set| case.asked.map(|asked| (set, asked));
    for (set, (k, ef, allowed)) in sets.into_iter().flat_map(asked) {
        let queries = queries(set, dim, k, ef);
        let wanted = recall(&exact, &whole, &queries);
        let found = recall(&exact, &coded, &queries);
        assert!(
            found >= wanted - allowed,
            "{what}, {format}, {dim}, {metric:?}, k {k}: {found}, whole rows {wanted}"
        );
    }
}

/// All cases in each metric.
fn each() -> impl Iterator<Item = (Case, Metric)> {
    let metrics = [Metric::L2, Metric::Cosine, Metric::InnerProduct];
    let with = move |case| metrics.map(|metric| (case, metric));
    CASES.into_iter().flat_map(with)
}

#[test]
fn ordinary_rows() {
    for (case, metric) in each() {
        let Case {
            rows: count, dim, ..
        } = case;
        let (rows, asked) = (vectors(dim, count, 2), vectors(dim, 100, 3));
        assert_finds_as_much("ordinary", case, &rows, &asked, metric);
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
    for (case, metric) in each() {
        let Case {
            rows: count, dim, ..
        } = case;
        let rows = scaled(vectors(dim, count, 2), dim);
        let asked = scaled(vectors(dim, 100, 3), dim);
        assert_finds_as_much("unequal components", case, &rows, &asked, metric);
    }
}

#[test]
fn rows_of_very_different_length() {
    for (case, metric) in each() {
        let Case {
            rows: count, dim, ..
        } = case;
        if (case.format, dim, metric) == (RowFormat::Sq4, 64, Metric::L2) {
            // Near queries are short rows, which are hardly more than a step of the long ones: use 8 bits.
            continue;
        }
        let mut rows = vectors(dim, count, 2);
        for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
            let length = 10_f32.powf((number * 7919 % count) as f32 / count as f32 - 0.5);
            row.iter_mut().for_each(|x| *x *= length);
        }
        let asked = vectors(dim, 100, 3);
        assert_finds_as_much("unequal lengths", case, &rows, &asked, metric);
    }
}

#[test]
fn a_few_rows_far_from_all_others() {
    for (case, metric) in each().filter(|(_, metric)| *metric != Metric::InnerProduct) {
        let Case {
            rows: count, dim, ..
        } = case;
        let mut rows = vectors(dim, count, 2);
        for (number, row) in rows.chunks_exact_mut(dim).enumerate().step_by(500) {
            row[number % dim] = 1e4;
        }
        let asked = vectors(dim, 100, 3);
        assert_finds_as_much("outliers", case, &rows, &asked, metric);
    }
}

#[test]
fn queries_far_from_all_rows() {
    for mut case in CASES {
        // What a product is off by grows with the query's distance from the middle of all rows:
        // `results/lab/2026-11/row-formats.md`.
        let lost = match case.format {
            RowFormat::Sq4 => [0.02, 0.02],
            RowFormat::Sq2 => [0.08, 0.06],
            _ => [0.14, 0.12],
        };
        for (asked, lost) in case.asked.iter_mut().zip(lost) {
            asked.2 = lost;
        }
        let Case {
            rows: count, dim, ..
        } = case;
        let rows = vectors(dim, count, 2);
        let sets = [3.0, 30.0, 300.0].map(|shift| {
            // Of fewer, one hit decides: whole rows and codes are found by chance, too.
            let mut asked = vectors(dim, 400, 3);
            // Each query in a direction of its own: from far enough, one direction has one answer.
            let mut random = StdRng::seed_from_u64(4);
            for x in asked.iter_mut().step_by(2) {
                *x += if random.random() { shift } else { -shift };
            }
            asked
        });
        let sets = sets.iter().map(Vec::as_slice);
        assert_each_finds_as_much("shifted queries", case, &rows, sets, Metric::L2);
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
    for case in CASES {
        let Case {
            rows: count, dim, ..
        } = case;
        let rows = sparse(vectors(dim, count, 2), dim);
        let asked = sparse(vectors(dim, 100, 3), dim);
        assert_finds_as_much("sparse", case, &rows, &asked, Metric::L2);
    }
}

/// The limit that `RowFormat::Sq4` names: what tells rows of tight clusters apart is less than a step.
#[test]
fn the_tighter_the_clusters_the_less_is_found() {
    for Case { dim, format, .. } in CASES {
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
            let config = config.rows(format).rerank(RowFormat::F32);
            let table = HnswTable::build(&rows, dim, &config).unwrap();
            recall(&exact, &table, &queries(&asked, dim, 10, 40))
        });
        let least = match format {
            RowFormat::Sq4 => [0.95, 0.7],
            _ => [0.85, 0.6],
        };
        assert!(found[0] > least[0], "{format} {dim}: {found:?}");
        assert!(found[1] > least[1], "{format} {dim}: {found:?}");
    }
}

#[test]
fn rows_of_two_kinds_in_turns() {
    for case in CASES {
        let dim = case.dim;
        let mixed = |count, seed| {
            let mut vectors = vectors(dim, count, seed);
            let other = vectors.chunks_exact_mut(dim).step_by(2);
            other.for_each(|row| row.iter_mut().for_each(|x| *x += 3.0));
            vectors
        };
        // Every second of these is looked at to choose the step.
        let (rows, asked) = (mixed(1_500, 2), mixed(100, 3));
        assert_finds_as_much("in turns", case, &rows, &asked, Metric::L2);
    }
}

#[test]
fn rows_of_which_nearly_all_are_equal() {
    let sizes = |case| [1e-3, 1.0, 1e4].map(|size| (case, size));
    for (
        Case {
            format,
            rows: count,
            dim,
            ..
        },
        size,
    ) in CASES.into_iter().flat_map(sizes)
    {
        let mut rows = vec![0.5; count * dim];
        let others: Vec<f32> = vectors(dim, count / 200, 2)
            .iter()
            .map(|x| 0.5 + x * size)
            .collect();
        let few = rows.chunks_exact_mut(dim).skip(7).step_by(199);
        for (row, other) in few.zip(others.chunks_exact(dim)) {
            row.copy_from_slice(other);
        }
        let config = HnswConfig::new(Metric::L2).ef_construction(80);
        let config = config.rows(format).rerank(RowFormat::F32);
        let table = HnswTable::build(&rows, dim, &config).unwrap();
        for (number, other) in others.chunks_exact(dim).enumerate() {
            let hits = unsplit(&table, &Query::new(other).top(1));
            assert_eq!(
                hits[0].id as usize,
                7 + 199 * number,
                "{format}, {dim}, {size}"
            );
            assert_eq!(hits[0].distance, 0.0);
        }
    }
}

/// With rows of zeros and copies of rows among them.
#[test]
fn every_small_dimension() {
    for dim in (1..=70).chain([384]) {
        let mut rows = vectors(dim, 40, 2);
        rows[..2 * dim].fill(0.0);
        rows.copy_within(5 * dim..8 * dim, 30 * dim);
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            let exact = FlatTable::build(&rows[..], dim, metric).unwrap();
            for format in [RowFormat::Sq4, RowFormat::Sq2, RowFormat::Sq1] {
                // All rows are linked.
                let config = HnswConfig::new(metric).m(40);
                let config = config.rows(format).rerank(RowFormat::F32);
                let table = HnswTable::build(&rows, dim, &config).unwrap();
                // All are candidates, and all are compared once more.
                for query in queries(&rows[..10 * dim], dim, 16, 40) {
                    let found = unsplit(&table, &query);
                    assert_eq!(found, unsplit(&exact, &query), "{format} {dim} {metric:?}");
                }
            }
        }
    }
}

#[test]
fn a_query_that_does_not_say_keeps_what_is_compared_once_more() {
    let (dim, k) = (48, 50);
    let rows = vectors(dim, 1_000, 2);
    for (format, kept) in [
        (RowFormat::Sq4, 64),
        (RowFormat::Sq2, 3 * k + 18),
        (RowFormat::Sq1, 4 * k + 60),
    ] {
        let config = HnswConfig::new(Metric::L2).ef_construction(40);
        let config = config.rows(format).rerank(RowFormat::F32);
        let table = HnswTable::build(&rows, dim, &config).unwrap();
        let found = |query| {
            let mut context = Context::default();
            let hits = table.search(&query, &mut context).unwrap();
            (hits, context.bytes())
        };
        for asked in vectors(dim, 5, 3).chunks_exact(dim) {
            let query = Query::new(asked).top(k);
            assert_eq!(found(query.clone()), found(query.clone().ef(kept)));
            assert_ne!(found(query.clone()).1, found(query.ef(kept - 5)).1);
        }
    }
}
