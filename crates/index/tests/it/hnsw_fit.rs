//! The formats that a build chooses, and what it refuses.

use crate::common::{clustered, duplicated, recall, unsplit};
use chiplet_index::{BuildError, Fit, FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::{Query, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const DIM: usize = 48;
const ROWS: usize = 2400;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric).ef_construction(60)
}

fn formats(rows: &[f32], config: &HnswConfig) -> (RowFormat, Option<RowFormat>) {
    let table = HnswTable::build(rows, DIM, config).unwrap();
    (table.row_format(), table.rerank_format())
}

fn refused(rows: &[f32], config: &HnswConfig) -> String {
    let refused = HnswTable::build(rows, DIM, config).err();
    let Some(BuildError::Fit { tried, .. }) = refused else {
        panic!("{refused:?}");
    };
    tried
}

/// Rows around 30 centres, which are about 1 apart in each component.
fn around_centres(spread: f32) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(4);
    let centres: Vec<f32> = (0..30 * DIM)
        .map(|_| random.random_range(-1.0..1.0))
        .collect();
    (0..ROWS * DIM)
        .map(|at| centres[at / DIM % 30 * DIM + at % DIM] + random.random_range(-spread..spread))
        .collect()
}

#[test]
fn ordinary_rows_get_few_bits() {
    let rows = clustered(ROWS, DIM, 3);
    for metric in METRICS {
        let config = config(metric).fit(Fit::recall(0.95));
        assert_eq!(
            formats(&rows, &config),
            (RowFormat::Sq4, Some(RowFormat::F16)),
            "{metric:?}"
        );
        let config = config.rerank(RowFormat::F32);
        assert_eq!(
            formats(&rows, &config),
            (RowFormat::Sq4, Some(RowFormat::F32)),
            "{metric:?}"
        );
    }
}

/// What 4-bit rows find of the nearest `top`, as a refused build says it.
fn said(rows: &[f32], fit: Fit) -> f64 {
    let coded = config(Metric::L2)
        .rows(RowFormat::Sq4)
        .rerank(RowFormat::F32);
    let tried = refused(rows, &coded.fit(fit));
    tried.rsplit(' ').next().unwrap().parse().unwrap()
}

/// What searches for the nearest `top` find in 4-bit rows.
fn found(rows: &[f32], asked: &[f32], top: usize) -> f64 {
    let exact = FlatTable::build(rows, DIM, Metric::L2).unwrap();
    let coded = config(Metric::L2)
        .rows(RowFormat::Sq4)
        .rerank(RowFormat::F32);
    let table = HnswTable::build(rows, DIM, &coded).unwrap();
    let asked = asked.chunks_exact(DIM);
    let queries: Vec<Query> = asked.map(|row| Query::new(row).top(top).ef(200)).collect();
    recall(&exact, &table, &queries)
}

#[test]
fn what_a_refusal_says_is_what_a_search_finds() {
    let mut before = 1.0;
    for spread in [0.3, 0.1, 0.03] {
        let rows = around_centres(spread);
        let said = said(&rows, Fit::recall(1.0));
        assert!(said < before, "{spread}: {said}, {before}");
        before = said;
        // Each row finds itself.
        let asked: Vec<f32> = rows
            .chunks_exact(DIM)
            .step_by(9)
            .flatten()
            .copied()
            .collect();
        let found = (found(&rows, &asked, 11) * 11.0 - 1.0) / 10.0;
        assert!((said - found).abs() < 0.06, "{spread}: {said}, {found}");
    }
    assert!(before < 0.8, "{before}");
}

#[test]
fn where_4_bits_find_too_little_others_are_taken() {
    let rows = around_centres(0.1);
    let (walked, _) = formats(&rows, &config(Metric::L2).fit(Fit::recall(0.97)));
    assert_ne!(walked, RowFormat::Sq4);
    let (walked, _) = formats(&rows, &config(Metric::L2).fit(Fit::recall(0.5)));
    assert_eq!(walked, RowFormat::Sq4);
}

#[test]
fn queries_that_are_given_are_those_tried() {
    let rows = around_centres(0.03);
    let far = clustered(150, DIM, 9);
    let by_rows = said(&rows, Fit::recall(1.0));
    let by_queries = said(&rows, Fit::recall(1.0).queries(&far[..]));
    assert!(
        (by_rows - by_queries).abs() > 0.01,
        "{by_rows}, {by_queries}"
    );
    let found = found(&rows, &far, 10);
    assert!((by_queries - found).abs() < 0.06, "{by_queries}, {found}");
}

#[test]
fn memory_is_kept_to() {
    let rows = clustered(ROWS, DIM, 3);
    let config = config(Metric::L2);
    // 32 bytes a row of 4 bits, 52 of 8, 96 of 16; links of 3 bytes and ids.
    let others = 32 * 3 + 4 + 4;
    for (bytes, wanted) in [
        (32 + 96 + others, (RowFormat::Sq4, Some(RowFormat::F16))),
        (32 + 64 + others, (RowFormat::Sq4, Some(RowFormat::Sq8))),
        (64 + others, (RowFormat::Sq8, None)),
    ] {
        let most = (ROWS * bytes) as u64;
        let config = config.clone().fit(Fit::recall(0.8).memory(most));
        assert_eq!(formats(&rows, &config), wanted, "{bytes}");
        let table = HnswTable::build(&rows, DIM, &config).unwrap();
        assert!(table.size_bytes() <= most + 8192, "{bytes}");
    }
    let tried = refused(&rows, &config.fit(Fit::recall(0.8).memory(1000)));
    assert!(tried.contains("f32 takes"), "{tried}");
}

#[test]
fn values_beyond_half_precision_are_kept_as_what_holds_them() {
    let mut rows = clustered(ROWS, DIM, 3);
    rows.iter_mut().for_each(|x| *x *= 1e6);
    let fitted = config(Metric::L2).fit(Fit::recall(0.9));
    let (_, full) = formats(&rows, &fitted);
    assert_ne!(full, Some(RowFormat::F16));
}

#[test]
fn odd_rows_have_a_format() {
    let one = clustered(1, DIM, 3);
    let copies = duplicated(500, DIM, 5, 3);
    let equal = one.repeat(300);
    let zeros = vec![0.0; 300 * DIM];
    for rows in [&[][..], &one, &copies, &equal, &zeros] {
        for metric in METRICS {
            let config = config(metric).fit(Fit::recall(0.99));
            let table = HnswTable::build(rows, DIM, &config).unwrap();
            let hits = unsplit(&table, &Query::new(&one[..]).top(3));
            assert_eq!(hits.len(), 3.min(rows.len() / DIM), "{metric:?}");
        }
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let rows = clustered(100, DIM, 3);
    for (fit, setting) in [
        (Fit::recall(0.0), "recall"),
        (Fit::recall(1.1), "recall"),
        (Fit::recall(f64::NAN), "recall"),
        (Fit::recall(0.9).top(0), "top"),
        (Fit::recall(0.9).top(501), "top"),
    ] {
        let error = HnswTable::build(&rows, DIM, &config(Metric::L2).fit(fit)).err();
        let Some(BuildError::Setting { setting: found, .. }) = error else {
            panic!("{setting}: {error:?}");
        };
        assert_eq!(found, setting);
    }
    let error = |queries: Vec<f32>| {
        let fit = Fit::recall(0.9).queries(queries);
        HnswTable::build(&rows, DIM, &config(Metric::L2).fit(fit)).err()
    };
    let ragged = error(vec![0.0; DIM + 1]);
    assert!(matches!(ragged, Some(BuildError::RaggedRows { .. })));
    let not_a_number = error(vec![f32::NAN; DIM]);
    assert!(matches!(not_a_number, Some(BuildError::NotFinite { .. })));
}
