//! What flat memory brings: one graph of hnsw_rs, searched by that crate and by the `HnswTable` that its dump becomes.
//!
//! `cargo bench -p chiplet-index --features hnsw_rs --bench flat_memory`; `CHIPLET_SIMD=portable` before it leaves out
//! the wide vector instructions. Both find the same rows, so that queries a second compare at equal recall. Rounds of
//! both alternate; printed is the median of their ratios, with the lowest and the highest.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use chiplet_index::hnsw::SquaredL2;
use chiplet_index::{HnswConfig, HnswTable, Metric};
use chiplet_table::{Context, Query, Table as _};
use common::clustered;
use hnsw_rs::prelude::{AnnT as _, Hnsw};

const ROWS: usize = 30_000;
const DIM: usize = 64;
const QUERIES: usize = 500;
const K: usize = 10;
const ROUNDS: usize = 9;

fn main() {
    let vectors = clustered(ROWS + QUERIES, DIM, 1);
    let (rows, queries) = vectors.split_at(ROWS * DIM);
    let graph = Hnsw::<f32, SquaredL2>::new(16, ROWS, 16, 200, SquaredL2);
    for (id, row) in rows.chunks_exact(DIM).enumerate() {
        graph.insert((row, id));
    }
    let folder = tempfile::tempdir().expect("a folder for the dump");
    let name = graph
        .file_dump(folder.path(), "graph")
        .expect("hnsw_rs dumps its graph");
    let config = HnswConfig::new(Metric::L2);
    let table = HnswTable::from_hnsw_rs_dump(folder.path(), &name, &config)
        .expect("a dump of hnsw_rs is adopted");
    println!("{ROWS} x {DIM}, clusters; HnswTable to hnsw_rs, the same graph, one thread");
    for ef in [20, 80, 200] {
        let asked: Vec<Query> = queries
            .chunks_exact(DIM)
            .map(|vector| Query::new(vector).top(K).ef(ef))
            .collect();
        let same = asked.iter().filter(|query| {
            let theirs = graph.search(query.vector(), K, ef);
            let ours = table
                .search(query, &mut Context::default())
                .expect("a good query");
            theirs.iter().zip(&ours).all(|(a, b)| a.d_id as u64 == b.id)
        });
        let same = same.count();
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let theirs = seconds(|| {
                    for query in &asked {
                        black_box(graph.search(query.vector(), K, ef));
                    }
                });
                let ours = seconds(|| {
                    for query in &asked {
                        let _ = black_box(table.search(query, &mut Context::default()));
                    }
                });
                theirs / ours
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "ef {ef:3}: {:.2} ({:.2}-{:.2}) times as many queries a second; {same} of {QUERIES} answers the same",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}
