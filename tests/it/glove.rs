//! Real vectors, real indexes: what the executor answers is what the index answers, and it is right.

use std::sync::Arc;

use crate::common::words::{WORD_DIM, words};
use chiplet::index::{FlatTable, HnswConfig, HnswTable, IvfConfig, IvfTable, Metric};
use chiplet::{Context, Query, Table};

const K: usize = 10;

/// Serves `queries` to `table` on a machine of two domains with four cores each, so that IVF queries are split,
/// holds each answer against a direct search, and returns the recall against exact search.
fn serve(
    rows: &[f32],
    queries: &[f32],
    table: Arc<dyn Table>,
    ask: impl Fn(&[f32]) -> Query,
) -> f64 {
    let exact = FlatTable::build(rows, WORD_DIM, Metric::Cosine).unwrap();
    let executor = crate::common::executor(2, 4);
    let id = executor.add_table("words", Arc::clone(&table));
    let count = queries.len() / WORD_DIM;
    let mut found = 0;
    for (number, vector) in queries.chunks(WORD_DIM).enumerate() {
        let hits = executor.search(id, ask(vector)).wait().unwrap();
        let direct = table.search(&ask(vector), &mut Context::default()).unwrap();
        assert_eq!(hits, direct, "query {number}");
        let truth = exact.search(&Query::new(vector).top(K), &mut Context::default());
        let truth: Vec<u64> = truth.unwrap().iter().map(|hit| hit.id).collect();
        found += hits.iter().filter(|hit| truth.contains(&hit.id)).count();
    }
    let counts = executor.snapshot().tables[0].counts;
    assert_eq!((counts.done, counts.accepted), (count as u64, count as u64));
    found as f64 / (K * count) as f64
}

#[test]
fn an_hnsw_table_of_word_vectors_recalls_95_percent() {
    let (rows, queries) = (words(0, 10), words(7, 100));
    let config = HnswConfig::new(Metric::Cosine);
    let table = HnswTable::build(&rows, WORD_DIM, &config).unwrap();
    let recall = serve(&rows, &queries, Arc::new(table), |v| {
        Query::new(v).top(K).ef(64)
    });
    assert!(recall >= 0.95, "{recall}");
}

#[test]
fn ivf_tables_of_word_vectors_recall_95_percent_split_or_not() {
    let (rows, queries) = (words(0, 2), words(7, 100));
    for factory in ["IVF128,Flat", "IVF128,SQ8"] {
        let config = IvfConfig::new(Metric::Cosine);
        let table = IvfTable::build(&rows, WORD_DIM, factory, &config).unwrap();
        let recall = serve(&rows, &queries, Arc::new(table), |v| {
            Query::new(v).top(K).nprobe(20)
        });
        assert!(recall >= 0.95, "{factory}: {recall}");
    }
}
