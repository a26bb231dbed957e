//! The graph table against exact search, against hnsw_rs called directly, and against its own count.

#![cfg(feature = "hnsw")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chiplet_executor::{Query, Table, Work};
use chiplet_index::hnsw::{Cosine, Counted, GraphDistance, SquaredL2};
use chiplet_index::{BuildError, FlatTable, HnswConfig, HnswTable, Metric, Progress, Stage};
use common::{
    assert_concurrent_equals_sequential, assert_well_formed, clustered, duplicated, recall, unsplit,
};
use hnsw_rs::prelude::{DistL2, Distance, Hnsw};

const DIM: usize = 16;
const ROWS: usize = 2000;
const M: usize = 12;
const EF_CONSTRUCTION: usize = 60;

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric)
        .m(M)
        .ef_construction(EF_CONSTRUCTION)
}

/// An hnsw_rs graph over `rows`, made as a user of hnsw_rs makes one.
fn graph<D: Distance<f32> + Send + Sync>(rows: &[f32], distance: D) -> Hnsw<'static, f32, D> {
    let graph = Hnsw::new(M, rows.len() / DIM, 16, EF_CONSTRUCTION, distance);
    for (id, row) in rows.chunks_exact(DIM).enumerate() {
        graph.insert((row, id));
    }
    graph
}

fn queries(count: usize, seed: u64) -> Vec<Query> {
    // From the same clusters as the rows, but none of the rows.
    clustered(ROWS + count, DIM, seed)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(10))
        .collect()
}

#[test]
fn recall_at_10_is_at_least_095_in_every_metric() {
    let rows = clustered(ROWS, DIM, 3);
    let queries = queries(100, 3);
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        let table = HnswTable::build(&rows, DIM, &config(metric)).unwrap();
        let recall = recall(&exact, &table, &queries);
        assert!(recall >= 0.95, "{metric:?}: {recall}");
    }
}

#[test]
fn answers_equal_those_of_hnsw_rs_called_directly() {
    let rows = clustered(ROWS, DIM, 3);
    let graph = graph(&rows, Counted(SquaredL2));
    let queries = queries(50, 3);
    let direct: Vec<Vec<(u64, f32)>> = queries
        .iter()
        .map(|query| {
            let found = graph.search(query.vector(), 10, 40);
            found
                .iter()
                .map(|hit| (hit.d_id as u64, hit.distance))
                .collect()
        })
        .collect();
    let adopted = HnswTable::new(graph).unwrap();
    let built = HnswTable::build(&rows, DIM, &config(Metric::L2)).unwrap();
    for (query, direct) in queries.iter().zip(direct) {
        let query = query.clone().ef(40);
        let hits = unsplit(&adopted, &query);
        assert_well_formed(&hits, 10);
        let pairs: Vec<_> = hits.iter().map(|hit| (hit.id, hit.distance)).collect();
        assert_eq!(pairs, direct);
        assert_eq!(
            unsplit(&built, &query),
            hits,
            "the same rows make the same graph"
        );
    }
}

#[test]
fn euclidean_graphs_of_hnsw_rs_report_squared_distances() {
    let rows = clustered(ROWS, DIM, 3);
    let euclidean = HnswTable::new(graph(&rows, Counted(DistL2))).unwrap();
    let exact = FlatTable::build(rows, DIM, Metric::L2).unwrap();
    assert_eq!(euclidean.metric(), Metric::L2);
    for query in queries(20, 3) {
        let truth = unsplit(&exact, &query);
        let hits = unsplit(&euclidean, &query.ef(400));
        assert_eq!(hits[0], truth[0]);
    }
}

/// A distance that counts for itself, to hold the table's own count against.
#[derive(Clone, Default)]
struct Watched(Arc<AtomicU64>);

impl Distance<f32> for Watched {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        self.0.fetch_add(1, Ordering::Relaxed);
        SquaredL2.eval(a, b)
    }
}

impl GraphDistance for Watched {
    const METRIC: Metric = Metric::L2;
}

#[test]
fn work_is_exactly_the_distances_evaluated() {
    let watched = Watched::default();
    let count = Arc::clone(&watched.0);
    let table = HnswTable::new(graph(&clustered(ROWS, DIM, 3), Counted(watched))).unwrap();
    for query in queries(30, 3) {
        let before = count.load(Ordering::Relaxed);
        let mut work = Work::default();
        table.search(&query, &mut work).unwrap();
        let visited = count.load(Ordering::Relaxed) - before;
        assert!(visited > 10);
        assert_eq!(work.bytes(), visited * (DIM as u64 * 4 + M as u64 * 4));
    }
}

#[test]
fn concurrent_searches_answer_as_sequential_ones() {
    let table = HnswTable::build(&clustered(ROWS, DIM, 3), DIM, &config(Metric::Cosine)).unwrap();
    assert_concurrent_equals_sequential(&table, &queries(40, 3));
}

#[test]
fn finds_k_rows_even_where_links_do_not_lead() {
    // Among identical rows the graph keeps few links, and a search of it finds fewer rows than there are.
    let rows = duplicated(500, DIM, 3, 9);
    let exact = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    let graph = graph(&rows, Counted(SquaredL2));
    let query = Query::new(&rows[..DIM]).top(400).ef(500);
    let reached = graph.search(query.vector(), 400, 500).len();
    assert!(
        reached < 400,
        "hnsw_rs alone reaches {reached}: this test needs other data"
    );
    let table = HnswTable::new(graph).unwrap();
    let mut work = Work::default();
    let hits = table.search(&query, &mut work).unwrap();
    assert_eq!(hits, unsplit(&exact, &query));
    assert!(work.bytes() >= 500 * DIM as u64 * 4, "the scan is counted");
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
fn progress_runs_from_nothing_to_every_row() {
    let rows = clustered(1500, DIM, 3);
    let mut reports = Vec::new();
    let small = config(Metric::L2).m(4).ef_construction(8);
    HnswTable::build_with(&rows, DIM, &small, |progress| reports.push(progress)).unwrap();
    let expected = [0, 1024, 1500].map(|done| Progress {
        stage: Stage::Adding,
        done,
        total: 1500,
    });
    assert_eq!(reports, expected);
}

#[test]
fn refuses_settings_that_would_end_the_process() {
    for (config, setting) in [
        (config(Metric::L2).m(1), "m"),
        (config(Metric::L2).m(256), "m"),
        (config(Metric::L2).ef_construction(0), "ef_construction"),
        (config(Metric::L2).ef(0), "ef"),
    ] {
        let refused = HnswTable::build(&[1.0; DIM], DIM, &config).err();
        assert!(
            matches!(refused, Some(BuildError::Setting { setting: s, .. }) if s == setting),
            "{refused:?}"
        );
    }
}

#[test]
fn refuses_graphs_it_cannot_search_safely() {
    let adopt = |rows: &[&[f32]]| {
        let graph = Hnsw::new(8, rows.len(), 16, 20, Counted(SquaredL2));
        for (id, row) in rows.iter().enumerate() {
            graph.insert((row, id));
        }
        HnswTable::new(graph).err()
    };
    assert_eq!(adopt(&[]), Some(BuildError::EmptyGraph));
    assert_eq!(
        adopt(&[&[1e19, 0.0]]),
        Some(BuildError::RowTooLong {
            row: 0,
            norm: f64::from(1e19f32),
            limit: chiplet_index::MAX_NORM
        })
    );
    assert!(matches!(
        adopt(&[&[f32::INFINITY, 0.0]]),
        Some(BuildError::NotFinite {
            row: 0,
            component: 0,
            ..
        })
    ));
    let graph = Hnsw::new(8, 1, 16, 20, Counted(Cosine));
    graph.insert((&[3.0, 4.0], 7));
    assert_eq!(
        HnswTable::new(graph).err(),
        Some(BuildError::NotNormalized { row: 7, norm: 5.0 })
    );
}
