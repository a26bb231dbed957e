//! Rows in fewer bytes: what is read of them, and what that takes.

use chiplet_baselines::Strategy;
use chiplet_index::RowFormat;
use chiplet_topology::Topology;

use super::Scenario;
use crate::machine::{Costs, Machine};
use crate::outcome::Outcome;
use crate::workload::{Prepared, Recipe, Sampling, Table, stride, touched};

const MIB: u64 = 1 << 20;

/// Rows in these formats.
type Kept = (Option<RowFormat>, Option<RowFormat>);

const F32: Kept = (None, None);
const F16: Kept = (Some(RowFormat::F16), None);
const SQ8: Kept = (Some(RowFormat::Sq8), None);
const RERANKED: Kept = (Some(RowFormat::Sq8), Some(RowFormat::F32));

const GRAPHS: &str =
    "[[tables]]\nkind='hnsw'\ncount=4\nrows=[400000,400000]\ndims=[1024]\nm=2\nk=[40]\nef=150";
const LISTS: &str =
    "[[tables]]\nkind='ivf'\ncount=4\nrows=[400000,400000]\ndims=[128]\nlists=128\nprobes=8";

fn prepared(tables: &str, kept: Kept) -> Prepared {
    let recipe: Recipe = format!("name = 'test'\n{tables}").parse().unwrap();
    let recipe = recipe.kept(kept.0, kept.1).unwrap();
    let sampling = Sampling {
        sample: 0.25,
        queries: 60,
        rows: 4_096,
        ..Sampling::default()
    };
    Prepared::new(recipe.workload(1), sampling, |_| ())
}

/// A run of a thousand queries on four cores whose caches have this size.
fn run(tables: &str, kept: Kept, l2_bytes: u64) -> Outcome {
    run_of(1_000, tables, kept, l2_bytes)
}

fn run_of(queries: u64, tables: &str, kept: Kept, l2_bytes: u64) -> Outcome {
    let costs = Costs {
        l2_bytes,
        own_bytes: 0,
        ..Costs::GENOA
    };
    let machine = Machine::new("test", Topology::uniform(2, 2, l2_bytes), costs);
    let prepared = prepared(tables, kept);
    let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
    (scenario.warmup, scenario.measured) = (1_500, queries);
    scenario.run(&mut |_| ())
}

fn traffic(tables: &str, kept: Kept) -> f64 {
    run(tables, kept, 1 << 12).memory_bytes_per_query
}

#[test]
fn where_nothing_fits_traffic_follows_the_bytes_of_a_row() {
    for tables in [GRAPHS, LISTS] {
        let full = traffic(tables, F32);
        for (kept, part) in [(F16, 0.5), (SQ8, 0.25)] {
            let ratio = traffic(tables, kept) / full;
            // Links and centroids are as long as before, and codes do not begin with a cache line.
            assert!(
                (part - 0.005..part + 0.02).contains(&ratio),
                "{kept:?}: {ratio}"
            );
        }
    }
}

#[test]
fn reranking_reads_as_many_full_rows_as_the_library_compares() {
    let more = traffic(GRAPHS, RERANKED) - traffic(GRAPHS, SQ8);
    let rows = more / f64::from(4 * 1_024);
    let expected = RowFormat::Sq8.reranked(40) as f64;
    assert!((rows / expected - 1.0).abs() < 0.02, "{rows}, {expected}");
}

#[test]
fn reranking_computes_where_an_l2_holds_all() {
    let one = "[[tables]]\nkind='hnsw'\ncount=1\nrows=[1100,1100]\ndims=[64]\nk=[100]";
    let busy = |kept| {
        let outcome = run(one, kept, 64 * MIB);
        assert!(outcome.l3_misses_per_query < 1.0, "{outcome:?}");
        outcome.utilisation * 4e9 / outcome.qps
    };
    let more = busy(RERANKED) - busy(SQ8);
    // All 150 candidates, which are fewer than 166.
    let expected = 150.0 * crate::Compute::default().row(64);
    assert!((more / expected - 1.0).abs() < 0.02, "{more}, {expected}");
}

#[test]
fn the_same_formats_give_the_same_bytes_and_other_formats_others() {
    for (tables, all) in [
        (GRAPHS, &[F32, F16, SQ8, RERANKED][..]),
        (LISTS, &[F32, SQ8]),
    ] {
        let text = |&kept: &Kept| serde_json::to_string(&run(tables, kept, MIB)).unwrap();
        let first: Vec<String> = all.iter().map(text).collect();
        let second: Vec<String> = all.iter().map(text).collect();
        assert_eq!(first, second);
        for (at, one) in first.iter().enumerate() {
            assert!(!first[..at].contains(one), "{:?}", all[at]);
        }
    }
}

#[test]
fn a_table_is_as_large_as_its_copies() {
    let bytes = |tables, kept| prepared(tables, kept).workload.tables[0].bytes();
    // Four of three bytes.
    let links = 12;
    assert_eq!(bytes(GRAPHS, F32), 400_000 * (4_096 + links));
    // The codes, without a constant.
    assert_eq!(bytes(GRAPHS, SQ8), 400_000 * (1_024 + links));
    assert_eq!(bytes(GRAPHS, RERANKED), 400_000 * (1_024 + 4_096 + links));
    assert_eq!(bytes(LISTS, F16), 400_000 * 256);
    assert_eq!(bytes(LISTS, SQ8), 400_000 * 128);
}

#[test]
fn tables_as_they_came_are_written_down_as_before() {
    let text = |kept| serde_json::to_value(prepared(GRAPHS, kept).workload.tables[0]).unwrap();
    let names: Vec<String> = text(F32).as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["dim", "ef", "kind", "m", "rows"]);
    let reranked = text(RERANKED);
    assert_eq!(reranked["rows_as"], "sq8");
    assert_eq!(reranked["rerank"]["rows_as"], "f32");
    assert_eq!(reranked["rerank"]["candidates"], 76);
    assert!(matches!(
        prepared(LISTS, SQ8).workload.tables[0],
        Table::Lists {
            rows_as: RowFormat::Sq8,
            ..
        }
    ));
}

#[test]
fn a_row_counts_as_the_cache_lines_that_it_touches() {
    // By counting lines from each place where a row can begin.
    for format in [
        RowFormat::F16,
        RowFormat::Bf16,
        RowFormat::Sq8,
        RowFormat::Sq4,
        RowFormat::Sq2,
        RowFormat::Sq1,
    ] {
        for dim in 1..300 {
            let stride = stride(format, dim);
            let lines = |row: u32| (row * stride + stride - 1) / 64 - row * stride / 64 + 1;
            let counted: u32 = (0..64).map(lines).sum();
            assert_eq!(touched(format, dim), counted, "{format} {dim}");
        }
    }
    assert_eq!([68, 64].map(|dim| touched(RowFormat::Sq8, dim)), [128, 64]);
    assert_eq!(touched(RowFormat::Sq4, 128), 64);
    assert_eq!(touched(RowFormat::Sq2, 384), 128);
    assert_eq!(touched(RowFormat::Sq1, 384), 64);
    assert_eq!(touched(RowFormat::F32, 50), 200);
}

/// What a ranking model does after each search: 40 candidates of 4 KiB, as long as rows, a microsecond each.
const SCORED: &str = "scoring = { candidates = 40, feature_bytes = 4096, micros = 40 }";

#[test]
fn scoring_computes_and_reads_features_after_the_walk() {
    let one = "[[tables]]\nkind='hnsw'\ncount=1\nrows=[1100,1100]\ndims=[64]\nk=[100]";
    let scored = format!("{one}\n{SCORED}");
    let busy = |tables: &str| {
        let outcome = run(tables, F32, 64 * MIB);
        outcome.utilisation * 4e9 / outcome.qps
    };
    let more = busy(&scored) - busy(one);
    assert!((more / 40_000.0 - 1.0).abs() < 0.02, "{more}");

    let scored = format!("{GRAPHS}\n{SCORED}");
    // A query reads 11 MB, of which this is a sixtieth part: of a thousand queries the difference of means is 5 % off.
    let bytes = |tables: &str| run_of(16_000, tables, F32, 1 << 12).memory_bytes_per_query;
    let more = bytes(&scored) - bytes(GRAPHS);
    let expected = 40.0 * 4_096.0;
    assert!((more / expected - 1.0).abs() < 0.02, "{more}, {expected}");
    let bytes = prepared(&scored, F32).workload.tables[0].bytes();
    assert_eq!(
        bytes,
        prepared(GRAPHS, F32).workload.tables[0].bytes() + 400_000 * 4_096
    );
}

#[test]
fn copies_get_equal_parts_of_a_tables_queries() {
    let recipe: Recipe = format!("name = 'test'\ntable_skew = 1.0\nhot_share = 0.1\n{GRAPHS}")
        .parse()
        .unwrap();
    let shares = |workload: crate::Workload| {
        let traffic = workload.traffic(1e6, 1, None).unwrap();
        traffic.table_shares(std::time::Duration::ZERO).unwrap()
    };
    let once = shares(recipe.workload(1));
    let copied = recipe.workload(1).copied(3);
    assert_eq!(copied.tables.len(), 12);
    let thrice = shares(copied);
    for (table, share) in thrice.iter().enumerate() {
        assert!((share - once[table % 4] / 3.0).abs() < 1e-9, "{thrice:?}");
    }
}

#[test]
fn a_model_behind_lists_or_a_second_copy_is_refused() {
    for tables in [
        format!("{LISTS}\n{SCORED}"),
        format!("{GRAPHS}\nrerank = 'f16'\n{SCORED}"),
        format!("{GRAPHS}\nscoring = {{ candidates = 0, feature_bytes = 4, micros = 1 }}"),
    ] {
        let error = format!("name = 'test'\n{tables}")
            .parse::<Recipe>()
            .unwrap_err();
        assert!(error.to_string().contains("scoring"), "{error}");
    }
}
