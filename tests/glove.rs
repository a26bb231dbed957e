//! Real vectors, real indexes: what the executor answers is what the index answers, and it is right.
#![cfg(feature = "faiss")]

mod common;

use std::sync::Arc;

use chiplet::index::{HnswConfig, HnswTable, IvfConfig, IvfTable, Metric};
use chiplet::{Context, Query, Table};
use chiplet_workload::dataset::VectorSet;
use chiplet_workload::truth::{self, Truth};

const K: usize = 10;

fn words() -> VectorSet {
    VectorSet::glove_sample(concat!(env!("CARGO_MANIFEST_DIR"), "/datasets")).unwrap()
}

/// Serves `queries` to `table` on a machine of two domains with four cores each, so that IVF queries are split,
/// holds each answer against a direct search, and returns the recall against exact search.
fn serve(
    rows: &VectorSet,
    queries: &VectorSet,
    table: Arc<dyn Table>,
    ask: impl Fn(&[f32]) -> Query,
) -> f64 {
    let truth = Truth::exact(rows, queries, K, truth::Metric::Cosine).unwrap();
    let executor = common::executor(2, 4);
    let id = executor.add_table("words", Arc::clone(&table));
    let mut recall = 0.0;
    for (number, vector) in queries.rows().enumerate() {
        let hits = executor.search(id, ask(vector)).wait().unwrap();
        let direct = table.search(&ask(vector), &mut Context::default()).unwrap();
        assert_eq!(hits, direct, "query {number}");
        recall += truth.recall(number, hits.iter().map(|hit| hit.id as u32));
    }
    let counts = executor.snapshot().tables[0].counts;
    assert_eq!(
        (counts.done, counts.accepted),
        (queries.len() as u64, queries.len() as u64)
    );
    recall / queries.len() as f64
}

#[test]
fn an_hnsw_table_of_word_vectors_recalls_95_percent() {
    let (rows, queries) = (words().interleaved(0, 10), words().interleaved(7, 100));
    let config = HnswConfig::new(Metric::Cosine);
    let table = HnswTable::build(rows.as_slice(), rows.dim(), &config).unwrap();
    let recall = serve(&rows, &queries, Arc::new(table), |v| {
        Query::new(v).top(K).ef(64)
    });
    assert!(recall >= 0.95, "{recall}");
}

#[test]
fn ivf_tables_of_word_vectors_recall_95_percent_split_or_not() {
    let (rows, queries) = (words().interleaved(0, 2), words().interleaved(7, 100));
    for factory in ["IVF128,Flat", "IVF128,SQ8"] {
        let config = IvfConfig::new(Metric::Cosine);
        let table = IvfTable::build(rows.as_slice(), rows.dim(), factory, &config).unwrap();
        let recall = serve(&rows, &queries, Arc::new(table), |v| {
            Query::new(v).top(K).nprobe(20)
        });
        assert!(recall >= 0.95, "{factory}: {recall}");
    }
}
