//! How a graph table stores its rows: what each format finds, reports and refuses.

use crate::common::{assert_well_formed, clustered, recall, unsplit};
use chiplet_index::{
    BuildError, FlatTable, HnswConfig, HnswTable, MAX_NORM, Metric, RowFormat, normalized,
};
use chiplet_table::{Filter, Query, Table};

const DIM: usize = 24;
const ROWS: usize = 1500;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];
const FORMATS: [RowFormat; 4] = [
    RowFormat::F32,
    RowFormat::F16,
    RowFormat::Bf16,
    RowFormat::Sq8,
];

/// Every format, and with each what decides last: nothing else, or one of those that can.
fn kept() -> impl Iterator<Item = (RowFormat, Option<RowFormat>)> {
    let decided = |format| {
        let rerank = FORMATS.map(Some).into_iter();
        rerank.chain([None]).map(move |rerank| (format, rerank))
    };
    let few_bits = [RowFormat::Sq4, RowFormat::Sq2, RowFormat::Sq1];
    let formats = FORMATS.into_iter().chain(few_bits);
    formats
        .flat_map(decided)
        .filter(|(format, rerank)| format.check_rerank(*rerank).is_ok())
}

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric).m(12).ef_construction(60)
}

fn stored(metric: Metric, format: RowFormat, rerank: Option<RowFormat>) -> HnswConfig {
    let config = config(metric).rows(format);
    match rerank {
        Some(rerank) => config.rerank(rerank),
        None => config,
    }
}

fn queries(count: usize) -> Vec<Query> {
    clustered(ROWS + count, DIM, 3)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(10))
        .collect()
}

/// `vector` as `metric` compares it.
fn prepared(metric: Metric, vector: &[f32]) -> Vec<f32> {
    match metric {
        Metric::Cosine => normalized(vector),
        _ => vector.to_vec(),
    }
}

#[test]
fn each_format_reaches_its_recall() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(100);
    for metric in METRICS {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        for (format, rerank) in kept() {
            let config = stored(metric, format, rerank);
            let table = HnswTable::build(&rows, DIM, &config).unwrap();
            for query in &queries {
                let hits = unsplit(&table, query);
                assert_well_formed(&hits, 10);
                assert_eq!(hits.len(), 10);
            }
            let recall = recall(&exact, &table, &queries);
            // The order among the nearest is that of the format that decides last.
            let wanted: f64 = match rerank.unwrap_or(format) {
                RowFormat::F32 | RowFormat::F16 => 0.99,
                RowFormat::Bf16 => 0.98,
                _ => 0.96,
            };
            // 24 bits are not meant for so few components.
            let wanted = wanted.min(if format == RowFormat::Sq1 { 0.95 } else { 1.0 });
            assert!(recall >= wanted, "{metric:?} {format} {rerank:?}: {recall}");
        }
    }
}

#[test]
fn distances_after_reranking_with_whole_rows_are_exact_to_the_bit() {
    let rows = clustered(ROWS, DIM, 3);
    for metric in METRICS {
        for (format, _) in kept().filter(|kept| kept.1 == Some(RowFormat::F32)) {
            let config = config(metric).rows(format).rerank(RowFormat::F32);
            let table = HnswTable::build(&rows, DIM, &config).unwrap();
            for query in queries(20) {
                let vector = prepared(metric, query.vector());
                for hit in unsplit(&table, &query) {
                    let row = prepared(metric, &rows[hit.id as usize * DIM..][..DIM]);
                    let exact = metric.distance(&vector, &row);
                    assert_eq!(
                        hit.distance.to_bits(),
                        exact.to_bits(),
                        "{metric:?} {format}"
                    );
                }
            }
        }
    }
}

#[test]
fn distances_without_reranking_are_near_the_exact_ones() {
    let rows = clustered(ROWS, DIM, 3);
    for metric in METRICS {
        for (format, tolerance) in [
            (RowFormat::F16, 1e-2),
            (RowFormat::Bf16, 1e-1),
            // Rows span about 3.4: a step is 0.014, and 24 components are off by half of one each.
            (RowFormat::Sq8, 2e-1),
        ] {
            let table = HnswTable::build(&rows, DIM, &config(metric).rows(format)).unwrap();
            for query in queries(20) {
                let vector = prepared(metric, query.vector());
                for hit in unsplit(&table, &query) {
                    let row = prepared(metric, &rows[hit.id as usize * DIM..][..DIM]);
                    let apart = (hit.distance - metric.distance(&vector, &row)).abs();
                    assert!(apart <= tolerance, "{metric:?} {format}: {apart}");
                }
            }
        }
    }
}

#[test]
fn smaller_formats_take_less_memory() {
    let rows = clustered(ROWS, DIM, 3);
    let bytes = FORMATS.map(|format| {
        let config = config(Metric::L2).rows(format);
        HnswTable::build(&rows, DIM, &config).unwrap().size_bytes()
    });
    // Rows of 24 components: 96, 48, 48 and 28 bytes.
    assert_eq!(bytes[0] - bytes[1], 48 * ROWS as u64);
    assert_eq!(bytes[1], bytes[2]);
    assert!(bytes[3] < bytes[2]);
}

#[test]
fn a_query_of_zeros_is_at_cosine_distance_one_from_every_row_in_every_format() {
    let mut rows = clustered(200, DIM, 3);
    rows[40 * DIM..41 * DIM].fill(0.0);
    for (format, rerank) in kept() {
        let config = stored(Metric::Cosine, format, rerank);
        let table = HnswTable::build(&rows, DIM, &config).unwrap();
        let hits = unsplit(&table, &Query::new([0.0; DIM]).top(200));
        assert_eq!(hits.len(), 200);
        assert!(
            hits.iter().all(|hit| hit.distance == 1.0),
            "{format} {rerank:?}: {hits:?}"
        );
    }
}

#[test]
fn a_row_of_zeros_is_at_cosine_distance_one_from_every_query_in_every_format() {
    let mut rows = clustered(200, DIM, 3);
    rows[40 * DIM..41 * DIM].fill(0.0);
    for (format, rerank) in kept() {
        let config = stored(Metric::Cosine, format, rerank);
        let table = HnswTable::build(&rows, DIM, &config).unwrap();
        for query in queries(10) {
            let hits = unsplit(&table, &query.top(200));
            let zero = hits.iter().find(|hit| hit.id == 40).unwrap();
            let coded = rerank.unwrap_or(format) == RowFormat::Sq8;
            let tolerance = if coded { 0.02 } else { 0.0 };
            let apart = (zero.distance - 1.0).abs();
            assert!(apart <= tolerance, "{format}: {}", zero.distance);
        }
    }
    // Nothing but zeros.
    for (format, rerank) in kept() {
        let config = stored(Metric::Cosine, format, rerank);
        let table = HnswTable::build(&[0.0; 4 * DIM], DIM, &config).unwrap();
        let hits = unsplit(&table, &Query::new([1.0; DIM]).top(4));
        assert_eq!(hits.len(), 4);
        assert!(hits.iter().all(|hit| hit.distance.is_finite()), "{format}");
    }
}

#[test]
fn rows_that_are_all_equal_are_all_found() {
    let row: Vec<f32> = (0..DIM).map(|x| x as f32 * 0.25 - 2.0).collect();
    let rows = row.repeat(50);
    for metric in METRICS {
        for (format, rerank) in kept() {
            let config = stored(metric, format, rerank);
            let table = HnswTable::build(&rows, DIM, &config).unwrap();
            let hits = unsplit(&table, &Query::new(&row[..]).top(50));
            assert_well_formed(&hits, 50);
            assert_eq!(hits.len(), 50);
            let compared = prepared(metric, &row);
            let exact = metric.distance(&compared, &compared);
            for hit in hits {
                let apart = (hit.distance - exact).abs();
                assert!(
                    apart <= 0.02 * exact.abs().max(1.0),
                    "{metric:?} {format}: {hit:?}"
                );
            }
        }
    }
}

#[test]
fn a_component_that_f16_cannot_hold_is_refused_by_name() {
    let mut rows = clustered(20, DIM, 3);
    rows[7 * DIM + 5] = -65_520.0;
    let refused = BuildError::OutOfRange {
        row: 7,
        component: 5,
        value: -65_520.0,
        format: "f16",
        limit: 65_504.0,
    };
    let build = |config: &HnswConfig| HnswTable::build(&rows, DIM, config).err();
    assert!(refused.to_string().contains("bf16"));
    let refused = Some(refused);
    assert_eq!(build(&config(Metric::L2).rows(RowFormat::F16)), refused);
    assert_eq!(build(&config(Metric::L2).rerank(RowFormat::F16)), refused);
    assert_eq!(build(&config(Metric::L2).rows(RowFormat::Bf16)), None);
    // Scaled to length 1, it fits.
    assert_eq!(build(&config(Metric::Cosine).rows(RowFormat::F16)), None);
    // The last value that rounds to one that f16 has.
    rows[7 * DIM + 5] = 65_519.0;
    let f16 = config(Metric::L2).rows(RowFormat::F16);
    let table = HnswTable::build(&rows, DIM, &f16).unwrap();
    let hits = unsplit(&table, &Query::new(&rows[7 * DIM..8 * DIM]).top(1));
    assert_eq!(hits[0].id, 7);
}

#[test]
fn rows_that_f16_rounds_away_are_refused() {
    let ordinary = clustered(300, DIM, 3);
    let f16 = |metric| config(metric).rows(RowFormat::F16);
    for (scale, refused) in [
        (1e-2, false),
        (1e-4, false),
        (1e-7, true),
        (1e-8, true),
        (1e-30, true),
    ] {
        let rows: Vec<f32> = ordinary.iter().map(|x| x * scale).collect();
        for config in [
            f16(Metric::L2),
            config(Metric::InnerProduct).rerank(RowFormat::F16),
        ] {
            match HnswTable::build(&rows, DIM, &config) {
                Ok(_) => assert!(!refused, "{scale:e}"),
                Err(error) => {
                    assert!(refused, "{scale:e}: {error}");
                    let told = error.to_string();
                    assert!(told.contains("bf16") && told.contains("scale"), "{told}");
                    let BuildError::TooSmall {
                        row,
                        norm,
                        rows,
                        format,
                    } = error
                    else {
                        panic!("{told}");
                    };
                    assert_eq!((row, rows, format), (0, 300, "f16"));
                    assert!(norm > 0.0 && norm < 1e-5, "{norm}");
                }
            }
        }
        // Scaled to length 1, or with the exponents of f32, they fit.
        assert!(HnswTable::build(&rows, DIM, &f16(Metric::Cosine)).is_ok());
        let bf16 = config(Metric::L2).rows(RowFormat::Bf16);
        assert!(HnswTable::build(&rows, DIM, &bf16).is_ok());
    }
    // Small components of ordinary rows, rows of zeros and a few small rows do no harm.
    let mut rows = ordinary;
    rows.iter_mut().step_by(2).for_each(|x| *x *= 1e-8);
    rows[..40 * DIM].fill(0.0);
    rows[40 * DIM..43 * DIM].fill(1e-9);
    assert!(HnswTable::build(&rows, DIM, &f16(Metric::L2)).is_ok());
    rows[43 * DIM..44 * DIM].fill(1e-9);
    let refused = HnswTable::build(&rows, DIM, &f16(Metric::L2)).err();
    let error = refused.expect("four small rows of 300");
    let BuildError::TooSmall { row, rows, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((row, rows), (40, 4));
}

#[test]
fn distances_of_the_longest_rows_are_finite() {
    let long = (MAX_NORM * 0.99) as f32;
    let rows = [long, 0.0, -long, 0.0, 0.0, long, 0.0, -long];
    for metric in METRICS {
        for (format, rerank) in [
            (RowFormat::F32, None),
            (RowFormat::Bf16, None),
            (RowFormat::Sq8, None),
            (RowFormat::Sq4, Some(RowFormat::F32)),
            (RowFormat::Sq2, Some(RowFormat::F32)),
            (RowFormat::Sq1, Some(RowFormat::F32)),
        ] {
            let config = stored(metric, format, rerank);
            let table = HnswTable::build(&rows, 2, &config).unwrap();
            let hits = unsplit(&table, &Query::new([long, 0.0]).top(4));
            assert_well_formed(&hits, 4);
            assert_eq!((hits.len(), hits[0].id), (4, 0), "{metric:?} {format}");
            assert_eq!(hits[3].id, 1, "{metric:?} {format}");
        }
    }
}

#[test]
fn any_dimension_will_do() {
    for dim in [1, 3, 63, 65, 1000] {
        let rows = clustered(300, dim, 5);
        for metric in METRICS {
            let exact = FlatTable::build(rows.clone(), dim, metric).unwrap();
            for (format, _) in kept().filter(|kept| kept.1 == Some(RowFormat::F32)) {
                let config = config(metric).rows(format).rerank(RowFormat::F32);
                let table = HnswTable::build(&rows, dim, &config).unwrap();
                // Every row is a candidate: what is left is the arithmetic.
                for row in rows.chunks_exact(dim).take(10) {
                    let query = Query::new(row).top(5).ef(300);
                    let truth = unsplit(&exact, &query);
                    // All are compared once more.
                    let all = matches!(format, RowFormat::Sq2 | RowFormat::Sq1);
                    let query = if all { query.top(100) } else { query };
                    let mut hits = unsplit(&table, &query);
                    hits.truncate(5);
                    // Rows at distances that the format cannot tell apart may crowd each other out.
                    let slack = 0.01 * truth[4].distance.abs().max(1.0);
                    for (hit, truth) in hits.iter().zip(&truth) {
                        let apart = hit.distance - truth.distance;
                        assert!(
                            apart <= slack,
                            "{dim} {metric:?} {format}: {hit:?} {truth:?}"
                        );
                    }
                    assert_eq!(hits.len(), 5);
                }
            }
        }
    }
}

#[test]
fn a_format_is_named_as_it_is_read() {
    for (format, _) in kept() {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert!("f64".parse::<RowFormat>().unwrap_err().contains("f64"));
}

#[test]
fn distances_of_codes_stay_within_those_of_the_metric() {
    let rows = clustered(500, 16, 5);
    let config = HnswConfig::new(Metric::Cosine);
    for config in [
        config.clone().rows(RowFormat::Sq8),
        config.clone().rows(RowFormat::Bf16),
        config.clone().rows(RowFormat::Sq4).rerank(RowFormat::Sq8),
        config.rows(RowFormat::Sq4).inside_refined(),
    ] {
        let table = HnswTable::build(&rows, 16, &config).unwrap();
        for (row, k) in rows.chunks_exact(16).zip([10, 500].into_iter().cycle()) {
            for sign in [1.0, -1.0] {
                let query: Vec<f32> = row.iter().map(|x| sign * x).collect();
                let query = Query::new(query).top(k).ef(500);
                for query in [query.clone(), query.filter(Filter::ids(0..9))] {
                    let hits = unsplit(&table, &query);
                    let distances = hits.iter().map(|hit| hit.distance);
                    let outside: Vec<f32> =
                        distances.filter(|d| !(0.0..=2.0).contains(d)).collect();
                    assert!(outside.is_empty(), "{config:?}: {outside:?}");
                    assert!(hits.is_sorted());
                }
            }
        }
    }
}

#[test]
fn codes_of_the_longest_rows_are_compared_without_a_wrap() {
    let built = |rows: &[f32], dim, metric, format| {
        let config = HnswConfig::new(metric).rows(format).rerank(RowFormat::F32);
        let config = match format {
            RowFormat::Sq8 => HnswConfig::new(metric).rows(format),
            _ => config,
        };
        HnswTable::build(rows, dim, &config)
    };
    // Whole cache lines, which have no constant, and rows with one.
    for dim in [65_536, 65_535] {
        let row = |value: fn(usize) -> f32| (0..dim).map(value);
        let rows: Vec<f32> = row(|_| 0.0)
            .chain(row(|_| 255.0))
            .chain(row(|i| (i % 2) as f32 * 255.0))
            .collect();
        let zeros = Query::new(&rows[..dim]).top(3);
        let table = built(&rows, dim, Metric::L2, RowFormat::Sq8).unwrap();
        let distances: Vec<f32> = unsplit(&table, &zeros)
            .iter()
            .map(|hit| hit.distance)
            .collect();
        let squares = |components: usize| (components as u64 * 255 * 255) as f32;
        assert_eq!(distances, [0.0, squares(dim / 2), squares(dim)]);
        let table = built(&rows, dim, Metric::InnerProduct, RowFormat::Sq8).unwrap();
        let ones = Query::new(vec![1.0; dim]).top(1);
        let product = -unsplit(&table, &ones)[0].distance / (255 * dim) as f32;
        assert!((product - 1.0).abs() < 1e-5, "{product}");
        for format in [RowFormat::Sq4, RowFormat::Sq2, RowFormat::Sq1] {
            let table = built(&rows, dim, Metric::L2, format).unwrap();
            for (row, id) in rows.chunks_exact(dim).zip(0..) {
                assert_eq!(unsplit(&table, &Query::new(row).top(1))[0].id, id);
            }
        }
    }
    let error = built(&[0.0; 65_537], 65_537, Metric::L2, RowFormat::Sq8).err();
    let limit = 65_536;
    assert_eq!(
        error,
        Some(BuildError::DimensionTooLarge { dim: 65_537, limit })
    );
}
