//! Rows that are equal do not keep a graph from finding the others, and all of them are found when asked for.

use crate::common::{clustered, mapped};
use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Pages, RowFormat};
use chiplet_table::{Context, Filter, Neighbor, Query, Table};

const DIM: usize = 24;
const QUERIES: usize = 60;
const EF: usize = 64;

fn search(table: &impl Table, query: &Query) -> Vec<Neighbor> {
    table.search(query, &mut Context::default()).unwrap()
}

/// Rows of clusters, and queries of the same that are none of them.
fn sample(rows: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let all = clustered(rows + QUERIES, DIM, 7);
    let (rows, queries) = all.split_at(rows * DIM);
    let queries = queries.chunks_exact(DIM).map(<[f32]>::to_vec).collect();
    (rows.to_vec(), queries)
}

/// Part of the ten nearest that a graph finds, by distance: rows as near as the tenth are as good.
fn recall(table: &HnswTable, rows: &[f32], metric: Metric, queries: &[Vec<f32>]) -> f64 {
    let exact = FlatTable::build(rows, DIM, metric).unwrap();
    let (mut found, mut wanted) = (0, 0);
    for vector in queries {
        let query = Query::new(&vector[..]).top(10).ef(EF);
        let truth = search(&exact, &query);
        let tenth = truth.last().unwrap().distance;
        let hits = search(table, &query);
        let mut ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), hits.len(), "a row was found twice");
        let near = |hit: &&Neighbor| hit.distance <= tenth + tenth.abs() * 1e-5 + 1e-6;
        found += hits.iter().filter(near).count();
        wanted += truth.len();
    }
    found as f64 / wanted as f64
}

fn check(name: &str, rows: &[f32], queries: &[Vec<f32>], least: f64) -> HnswTable {
    let mut table = None;
    for metric in [Metric::L2, Metric::Cosine] {
        let built = HnswTable::build(rows, DIM, &HnswConfig::new(metric)).unwrap();
        assert_eq!(built.len(), rows.len() / DIM, "copies are rows too");
        let recall = recall(&built, rows, metric, queries);
        assert!(recall >= least, "{name}, {metric:?}: {recall}");
        table = table.or(Some(built));
    }
    table.unwrap()
}

#[test]
fn zero_rows_cost_no_recall_of_the_others() {
    let (mut rows, queries) = sample(3_000);
    check("none", &rows, &queries, 0.98);
    for zeros in [20, 100, 1_000] {
        rows.truncate(3_000 * DIM);
        rows.resize((3_000 + zeros) * DIM, 0.0);
        check(&format!("{zeros} zero rows"), &rows, &queries, 0.98);
    }
}

#[test]
fn rows_of_which_half_are_one_are_searched_like_the_other_half() {
    let (mut rows, queries) = sample(4_000);
    let one = rows[..DIM].to_vec();
    for row in rows.chunks_exact_mut(DIM).step_by(2) {
        row.copy_from_slice(&one);
    }
    check("half one row", &rows, &queries, 0.98);
}

#[test]
fn groups_of_copies_are_found_whole() {
    let (some, queries) = sample(100);
    let rows: Vec<f32> = (0..4_000)
        .flat_map(|row| &some[row % 100 * DIM..][..DIM])
        .copied()
        .collect();
    let table = check("100 rows 40 times", &rows, &queries, 0.99);
    for one in [0, 57] {
        let group = Query::new(&rows[one * DIM..][..DIM]).top(40).ef(EF);
        let hits = search(&table, &group);
        let mut ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
        ids.sort_unstable();
        let wanted: Vec<u64> = (0..40).map(|copy| copy * 100 + one as u64).collect();
        assert_eq!(ids, wanted);
    }
}

#[test]
fn each_row_twice_and_copies_of_few_rows_are_searched_alike() {
    let (some, queries) = sample(1_500);
    let twice = [&some[..], &some[..]].concat();
    check("each row twice", &twice, &queries, 0.98);
    // Row n is drawn about 1/n times as often as row 1.
    let drawn: Vec<f32> = (0..3_000_usize)
        .flat_map(|draw| {
            let row = (draw * 7_919 % 1_499) * (draw * 104_729 % 1_009) / 1_009;
            &some[row * DIM..][..DIM]
        })
        .copied()
        .collect();
    check("drawn", &drawn, &queries, 0.98);
}

#[test]
fn all_copies_are_found_when_asked_for_from_memory_and_from_files_with_and_without_a_filter() {
    let (mut rows, _) = sample(2_000);
    let one = rows[3 * DIM..4 * DIM].to_vec();
    for copy in 0..500 {
        rows[(4 * copy + 3) * DIM..][..DIM].copy_from_slice(&one);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for config in [
        HnswConfig::new(Metric::L2),
        HnswConfig::new(Metric::L2)
            .rows(RowFormat::F16)
            .rerank(RowFormat::F32),
        HnswConfig::new(Metric::Cosine).reorder(false),
    ] {
        let built = HnswTable::build(&rows, DIM, &config).unwrap();
        built.save(&path).unwrap();
        let loaded = HnswTable::load(&path, Pages::Small).unwrap();
        let mapped = mapped::hnsw(&path).unwrap();
        mapped.verify().unwrap();
        for table in [&built, &loaded, &mapped] {
            let all: Vec<u64> = (0..500).map(|copy| 4 * copy + 3).collect();
            let hits = search(table, &Query::new(&one[..]).top(500).ef(EF));
            let mut ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
            ids.sort_unstable();
            assert_eq!(ids, all);
            // Few, most and one of them allowed, and a few others.
            for allowed in [
                vec![7, 1_003, 1_999, 4, 8],
                all[1..].to_vec(),
                vec![1_999],
                (0..2_000).filter(|id| id % 8 != 3).collect(),
            ] {
                let filter = Filter::ids(allowed.iter().copied());
                let top = allowed.len().min(60);
                let query = Query::new(&one[..]).top(top).ef(EF).filter(filter);
                let hits = search(table, &query);
                assert_eq!(hits.len(), top);
                let copies = allowed.iter().filter(|id| *id % 4 == 3).count();
                let found = hits.iter().filter(|hit| hit.id % 4 == 3).count();
                assert_eq!(found, copies.min(top), "of {} allowed", allowed.len());
                assert!(hits.iter().all(|hit| allowed.contains(&hit.id)));
            }
        }
    }
}

#[test]
fn many_queries_at_once_find_what_each_finds() {
    let (mut rows, queries) = sample(2_000);
    rows[1_000 * DIM..].fill(0.0);
    let table = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::L2)).unwrap();
    let mut queries: Vec<Query> = queries
        .iter()
        .map(|vector| Query::new(&vector[..]).top(20).ef(EF))
        .collect();
    queries.push(Query::new(vec![0.0; DIM]).top(1_000));
    let together = table.search_batch(&queries, &mut Context::default());
    for (query, together) in queries.iter().zip(together) {
        assert_eq!(together.unwrap(), search(&table, query));
    }
}

/// Copies that were scaled, or went through other arithmetic: under cosine no two of them are quite equal.
#[test]
fn rows_that_differ_in_their_last_bits_cost_no_recall_either() {
    let (base, queries) = sample(3_000);
    let one = base[..DIM].to_vec();
    let scaled = |copy: usize| one.iter().map(move |x| x * (1.0 + copy as f32 * 0.37));
    for count in [100, 3_000] {
        let mut rows = base.clone();
        rows.extend((0..count).flat_map(scaled));
        let table = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::Cosine)).unwrap();
        let recall = recall(&table, &rows, Metric::Cosine, &queries);
        assert!(recall >= 0.98, "{count}: {recall}");
    }
}
