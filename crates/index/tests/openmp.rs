//! A search of an IVF table runs on the calling thread alone. By itself in a process, to count its threads.

#![cfg(all(feature = "faiss", target_os = "linux"))]

mod common;

use chiplet_index::{IvfConfig, IvfTable, Metric};
use chiplet_table::{Context, Query, Table};
use common::clustered;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_search_opens_no_openmp_team() {
    let rows = clustered(3000, 16, 6);
    for factory in [
        "IVF24,Flat",
        "IVF24,SQ8",
        "IVF24,PQ8x4np",
        "IVF24,PQ8x4fs",
        "IVF24_HNSW8,Flat",
    ] {
        let table = IvfTable::build(&rows, 16, factory, &IvfConfig::new(Metric::L2)).unwrap();
        // OpenMP keeps a team for each thread that ever opened one, so a thread that did not build asks.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = threads();
                for vector in rows.chunks_exact(16).take(50) {
                    let query = Query::new(vector).nprobe(24).top(100);
                    table.search(&query, &mut Context::default()).unwrap();
                }
                assert_eq!(threads(), before, "{factory}");
            });
        });
    }
}
