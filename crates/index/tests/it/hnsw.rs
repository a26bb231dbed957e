//! The graph table against exact search and against its own count. Row formats: `hnsw_rows.rs`; graphs of others:
//! `adopt.rs`, `hnswlib.rs`, `hnsw_rs.rs`.

use std::ops::ControlFlow;

use crate::common::{
    assert_concurrent_equals_sequential, assert_progress, assert_well_formed, clustered,
    duplicated, recall, unsplit,
};
use chiplet_index::{
    BuildError, BuildOptions, FlatTable, HnswConfig, HnswTable, Metric, RowFormat, Stage,
};
use chiplet_table::{Context, Query, Table};

const DIM: usize = 16;
const ROWS: usize = 2000;
const M: usize = 12;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric).m(M).ef_construction(60)
}

fn queries(count: usize, seed: u64) -> Vec<Query> {
    // From the same clusters as the rows, but none of the rows.
    clustered(ROWS + count, DIM, seed)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(10))
        .collect()
}

/// What `table` answers, and what it says that cost.
fn answers(table: &HnswTable, queries: &[Query]) -> Vec<(Vec<chiplet_table::Neighbor>, u64)> {
    let answer = |query| {
        let mut context = Context::default();
        (table.search(query, &mut context).unwrap(), context.bytes())
    };
    queries.iter().map(answer).collect()
}

#[test]
fn recall_at_10_is_at_least_095_in_every_metric_however_many_threads_build() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(100, 3);
    for metric in METRICS {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        for threads in [1, 2, 5] {
            let table = HnswTable::build(&rows, DIM, &config(metric).threads(threads)).unwrap();
            for query in &queries {
                assert_well_formed(&unsplit(&table, query), 10);
            }
            let recall = recall(&exact, &table, &queries);
            assert!(recall >= 0.95, "{metric:?}, {threads} threads: {recall}");
        }
    }
}

#[test]
fn one_thread_builds_the_same_graph_each_time() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(100, 3);
    for metric in METRICS {
        let build = || HnswTable::build(&rows, DIM, &config(metric)).unwrap();
        // The same rows compared, too.
        assert_eq!(answers(&build(), &queries), answers(&build(), &queries));
    }
}

#[test]
fn a_build_tied_to_cpus_is_that_of_one_thread() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(50, 3);
    let plain = HnswTable::build(&rows, DIM, &config(Metric::L2)).unwrap();
    // Cpu 0, or none where that is not to be had: a build ties its own threads, not the caller's.
    let tied = HnswTable::build(&rows, DIM, &config(Metric::L2).cpus([0])).unwrap();
    assert_eq!(answers(&plain, &queries), answers(&tied, &queries));
}

#[test]
fn every_row_can_be_reached() {
    let rows = clustered(ROWS, DIM, 3);
    for threads in [1, 2] {
        let table = HnswTable::build(&rows, DIM, &config(Metric::L2).threads(threads)).unwrap();
        let mut found = 0;
        for (row, id) in rows.chunks_exact(DIM).zip(0..) {
            let hits = unsplit(&table, &Query::new(row).top(1).ef(50));
            found += usize::from(hits[0].id == id);
        }
        // Not each by a walk as short as this.
        assert!(found >= ROWS * 995 / 1000, "{threads} threads: {found}");
        let all = unsplit(&table, &Query::new(&rows[..DIM]).top(ROWS));
        assert_well_formed(&all, ROWS);
        assert_eq!(all.len(), ROWS);
    }
}

#[test]
fn reordering_nodes_changes_no_answer() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(100, 3);
    for metric in METRICS {
        let build = |on| HnswTable::build(&rows, DIM, &config(metric).reorder(on)).unwrap();
        assert_eq!(
            answers(&build(true), &queries),
            answers(&build(false), &queries)
        );
    }
}

#[test]
fn more_candidates_find_no_less_and_cost_more() {
    let rows = clustered(ROWS, DIM, 3);
    let exact = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    let table = HnswTable::build(&rows, DIM, &config(Metric::L2)).unwrap();
    let with = |ef| -> Vec<Query> { queries(50, 3).into_iter().map(|q| q.ef(ef)).collect() };
    let cost = |ef| -> u64 {
        answers(&table, &with(ef))
            .iter()
            .map(|(_, bytes)| bytes)
            .sum()
    };
    assert!(recall(&exact, &table, &with(200)) >= recall(&exact, &table, &with(10)));
    assert_eq!(recall(&exact, &table, &with(ROWS)), 1.0);
    assert!(cost(10) < cost(50) && cost(50) < cost(200));
    // Whole rows and their links: 64 bytes of each, and M links of 3.
    assert!(cost(10).is_multiple_of(64 + 3 * M as u64));
    // The table's own `ef` counts where a query does not say.
    let set = table.with_ef(200).unwrap();
    assert_eq!(answers(&set, &queries(50, 3)), answers(&set, &with(200)));
}

#[test]
fn concurrent_searches_answer_as_sequential_ones() {
    let table = HnswTable::build(&clustered(ROWS, DIM, 3), DIM, &config(Metric::Cosine)).unwrap();
    assert_concurrent_equals_sequential(&table, &queries(40, 3));
}

#[test]
fn finds_k_rows_even_where_links_do_not_lead() {
    // Identical rows are linked among themselves, and links to others are rare.
    let rows = duplicated(500, DIM, 3, 9);
    let exact = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    let table = HnswTable::build(&rows, DIM, &config(Metric::L2).m(2)).unwrap();
    for k in [400, 500] {
        let query = Query::new(&rows[..DIM]).top(k).ef(500);
        assert_eq!(unsplit(&table, &query), unsplit(&exact, &query));
    }
}

#[test]
fn a_table_of_one_row_finds_it() {
    let table = HnswTable::build(&[1.0; DIM], DIM, &config(Metric::InnerProduct)).unwrap();
    let hits = unsplit(&table, &Query::new([2.0; DIM]).top(5));
    assert_eq!(
        (hits.len(), hits[0].id, hits[0].distance),
        (1, 0, -2.0 * DIM as f32)
    );
}

#[test]
fn a_radius_cuts_what_is_farther() {
    let rows = clustered(ROWS, DIM, 3);
    let table = HnswTable::build(&rows, DIM, &config(Metric::L2)).unwrap();
    for query in queries(20, 3) {
        let all = unsplit(&table, &query);
        let near = unsplit(&table, &query.radius(all[4].distance));
        assert_eq!(near, all[..5]);
    }
}

#[test]
fn progress_runs_from_nothing_to_every_row() {
    let rows = clustered(1500, DIM, 3);
    for threads in [1, 2] {
        let mut reports = Vec::new();
        let small = config(Metric::L2).m(4).ef_construction(8).threads(threads);
        let options = BuildOptions::new().report(|progress| {
            reports.push(progress);
            ControlFlow::Continue(())
        });
        HnswTable::build_with(&rows, DIM, &small, options).unwrap();
        let stages = [Stage::Checking, Stage::Adding, Stage::Finishing];
        assert_progress(&reports, &stages, 1500);
    }
}

#[test]
fn refuses_settings_that_make_no_graph() {
    for (config, setting) in [
        (config(Metric::L2).m(1), "m"),
        (config(Metric::L2).m(256), "m"),
        (config(Metric::L2).ef_construction(0), "ef_construction"),
        (config(Metric::L2).ef(0), "ef"),
        (config(Metric::L2).threads(0), "threads"),
        (config(Metric::L2).threads(4_097), "threads"),
        (config(Metric::L2).rows(RowFormat::Sq4), "rerank"),
        (config(Metric::L2).rows(RowFormat::Sq1), "rerank"),
        (config(Metric::L2).rerank(RowFormat::Sq4), "rerank"),
        (config(Metric::L2).rerank(RowFormat::Sq2), "rerank"),
    ] {
        let refused = HnswTable::build(&[1.0; DIM], DIM, &config).err();
        assert!(
            matches!(refused, Some(BuildError::Setting { setting: s, .. }) if s == setting),
            "{refused:?}"
        );
    }
    let table = HnswTable::build(&[1.0; DIM], DIM, &config(Metric::L2)).unwrap();
    assert!(matches!(
        table.with_ef(0).err(),
        Some(BuildError::Setting { setting: "ef", .. })
    ));
}

#[test]
fn refuses_rows_that_it_cannot_compare() {
    let build = |rows: &[f32], dim| HnswTable::build(rows, dim, &config(Metric::L2)).err();
    assert_eq!(build(&[], 0), Some(BuildError::ZeroDimension));
    assert_eq!(
        build(&[0.0; 7], 3),
        Some(BuildError::RaggedRows { values: 7, dim: 3 })
    );
    assert!(matches!(
        build(&[0.0, f32::NAN], 1),
        Some(BuildError::NotFinite { row: 1, .. })
    ));
    assert!(matches!(
        build(&[0.0, 1e19], 1),
        Some(BuildError::RowTooLong { row: 1, .. })
    ));
}
