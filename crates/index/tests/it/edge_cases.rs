//! The handles a query has, turned too far, on every kind of table: a typed error or the documented clamp.

use crate::common::{assert_well_formed, clustered, unsplit};
use chiplet_index::{BuildError, FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::{Context, Query, SearchError, Table};

const DIM: usize = 12;
const ROWS: usize = 600;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Every kind of table over the same rows, in every metric, by name.
fn tables(rows: &[f32]) -> Vec<(String, Box<dyn Table>)> {
    let mut tables: Vec<(String, Box<dyn Table>)> = Vec::new();
    for metric in METRICS {
        let flat = FlatTable::build(rows, DIM, metric).unwrap();
        tables.push((format!("flat {metric:?}"), Box::new(flat)));
        let config = HnswConfig::new(metric).m(8).ef_construction(40);
        let smaller = |format| config.clone().rows(format).rerank(RowFormat::F32);
        for (name, config) in [
            ("hnsw", config.clone()),
            ("hnsw bf16", smaller(RowFormat::Bf16)),
            ("hnsw sq8", smaller(RowFormat::Sq8)),
            ("hnsw sq4", smaller(RowFormat::Sq4)),
            ("hnsw sq2", smaller(RowFormat::Sq2)),
            ("hnsw sq1", smaller(RowFormat::Sq1)),
        ] {
            let table = HnswTable::build(rows, DIM, &config).unwrap();
            tables.push((format!("{name} {metric:?}"), Box::new(table)));
        }
        #[cfg(feature = "faiss")]
        for factory in ["IVF8,Flat", "IVF8,PQ4x4fs", "IVF8_HNSW8,SQ8"] {
            use chiplet_index::{IvfConfig, IvfTable};
            if rows.is_empty() {
                continue; // Cannot be trained; an empty trained one is tested in ivf.rs.
            }
            let config = IvfConfig::new(metric).nprobe(3);
            let table = IvfTable::build(rows, DIM, factory, &config).unwrap();
            tables.push((format!("{factory} {metric:?}"), Box::new(table)));
        }
    }
    tables
}

fn refusal(table: &dyn Table, query: &Query) -> SearchError {
    let error = table.search(query, &mut Context::default()).unwrap_err();
    if let Some(split) = table.as_split() {
        let coarse = split.coarse(query, &mut Context::default()).unwrap_err();
        assert_eq!(error.to_string(), coarse.to_string());
        let scan = split
            .scan(query, &[], 0..0, &mut Context::default())
            .unwrap_err();
        assert_eq!(error.to_string(), scan.to_string());
    }
    error
}

#[test]
fn a_query_that_no_table_can_answer_is_refused_by_name() {
    for (name, table) in tables(&clustered(ROWS, DIM, 2)) {
        let table = table.as_ref();
        let fine = vec![0.5; DIM];
        assert_eq!(
            refusal(table, &Query::new(vec![0.5; DIM + 1])),
            SearchError::WrongDimension {
                expected: DIM,
                got: DIM + 1
            },
            "{name}"
        );
        assert_eq!(
            refusal(table, &Query::new(vec![])),
            SearchError::WrongDimension {
                expected: DIM,
                got: 0
            },
            "{name}"
        );
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut vector = fine.clone();
            vector[3] = value;
            let refused = refusal(table, &Query::new(vector));
            assert!(
                matches!(refused, SearchError::NotFinite { position: 3, .. }),
                "{name}: {refused}"
            );
        }
        assert_eq!(
            refusal(table, &Query::new(fine.clone()).top(0)),
            SearchError::ZeroTop
        );
        assert_eq!(
            refusal(table, &Query::new(fine).nprobe(0)),
            SearchError::ZeroProbes
        );
    }
}

#[test]
fn a_query_too_long_for_f32_distances_is_refused_or_scaled() {
    for (name, table) in tables(&clustered(ROWS, DIM, 2)) {
        let query = Query::new(vec![1e30; DIM]);
        if name.ends_with("Cosine") {
            let short = unsplit(table.as_ref(), &Query::new(vec![1.0; DIM]));
            assert_eq!(unsplit(table.as_ref(), &query), short, "{name}");
        } else {
            let refused = refusal(table.as_ref(), &query);
            assert!(
                matches!(refused, SearchError::TooLong { .. }),
                "{name}: {refused}"
            );
        }
    }
}

#[test]
fn more_neighbours_than_rows_returns_every_row_once() {
    for (name, table) in tables(&clustered(ROWS, DIM, 2)) {
        for k in [ROWS, ROWS + 1, usize::MAX] {
            let query = Query::new(vec![0.1; DIM]).top(k).nprobe(usize::MAX);
            let hits = unsplit(table.as_ref(), &query);
            assert_well_formed(&hits, k);
            assert_eq!(hits.len(), ROWS, "{name}, k = {k}");
        }
    }
}

#[test]
fn an_ef_below_k_counts_as_k_and_one_beyond_the_rows_as_all() {
    for (name, table) in tables(&clustered(ROWS, DIM, 2)) {
        for (k, ef) in [(20, 0), (20, 1), (20, 20), (5, ROWS + 1), (5, usize::MAX)] {
            let hits = unsplit(table.as_ref(), &Query::new(vec![0.1; DIM]).top(k).ef(ef));
            assert_well_formed(&hits, k);
            assert_eq!(hits.len(), k, "{name}, ef = {ef}");
        }
    }
}

#[test]
fn more_probes_than_lists_visits_all_lists() {
    for (name, table) in tables(&clustered(ROWS, DIM, 2)) {
        let query = Query::new(vec![0.1; DIM]).top(50);
        let all = unsplit(table.as_ref(), &query.clone().nprobe(8));
        for nprobe in [9, 1000, usize::MAX] {
            assert_eq!(
                unsplit(table.as_ref(), &query.clone().nprobe(nprobe)),
                all,
                "{name}"
            );
        }
        assert_eq!(all.len(), 50, "{name}");
    }
}

#[test]
fn an_empty_table_finds_nothing() {
    for (name, table) in tables(&[]) {
        assert!(table.is_empty() && table.dim() == DIM, "{name}");
        assert_eq!(
            unsplit(table.as_ref(), &Query::new(vec![0.1; DIM])),
            [],
            "{name}"
        );
    }
}

#[test]
fn all_tables_report_the_same_distance_for_the_same_row() {
    let rows = clustered(ROWS, DIM, 2);
    let vector = clustered(1, DIM, 77);
    let tables = tables(&rows);
    for (name, table) in &tables {
        if name.contains("PQ") || name.contains("SQ") {
            continue; // Compressed codes estimate.
        }
        let metric = name.rsplit(' ').next().unwrap();
        let exact = &tables
            .iter()
            .find(|(n, _)| n == &format!("flat {metric}"))
            .unwrap()
            .1;
        let query = Query::new(vector.clone()).top(ROWS).ef(ROWS).nprobe(8);
        let mut truth = unsplit(exact.as_ref(), &query);
        let mut hits = unsplit(table.as_ref(), &query);
        truth.sort_by_key(|hit| hit.id);
        hits.sort_by_key(|hit| hit.id);
        assert_eq!(hits.len(), truth.len(), "{name}");
        for (hit, truth) in hits.iter().zip(&truth) {
            assert_eq!(hit.id, truth.id, "{name}");
            let apart = (hit.distance - truth.distance).abs();
            // Bit for bit where the arithmetic is ours, to rounding where it is Faiss'.
            let tolerance = if name.starts_with("IVF") { 1e-4 } else { 0.0 };
            assert!(apart <= tolerance, "{name}: {hit:?} and {truth:?}");
        }
    }
}

#[test]
fn a_zero_query_is_at_distance_zero_in_every_format() {
    for format in [
        RowFormat::F32,
        RowFormat::F16,
        RowFormat::Bf16,
        RowFormat::Sq8,
    ] {
        let config = HnswConfig::new(Metric::InnerProduct).rows(format);
        let table = HnswTable::build(&clustered(50, DIM, 3), DIM, &config).unwrap();
        for hit in unsplit(&table, &Query::new([0.0; DIM]).top(50)) {
            // -0.0 would sort before other tables' 0.0.
            assert_eq!(hit.distance.to_bits(), 0, "{format:?}");
        }
    }
}

#[test]
fn a_dimension_that_no_file_may_have_is_refused_at_build() {
    let dim = (1 << 24) + 1;
    let refused = HnswTable::build(&vec![1.0; dim], dim, &HnswConfig::new(Metric::L2)).err();
    assert_eq!(
        refused,
        Some(BuildError::DimensionTooLarge {
            dim,
            limit: 1 << 24
        })
    );
}

#[test]
fn a_wrong_level_of_instructions_is_reported() {
    let same = std::env::current_exe().unwrap();
    let mut again = std::process::Command::new(same);
    again.args([
        "--exact",
        "edge_cases::all_tables_report_the_same_distance_for_the_same_row",
        "--nocapture",
    ]);
    let said = again.env("CHIPLET_SIMD", "sse9").output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("CHIPLET_SIMD is \"sse9\""), "{said}");
}
