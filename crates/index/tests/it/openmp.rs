//! A search of an IVF table runs on the calling thread alone.

use std::fs::read_to_string;
use std::thread;

use crate::common::clustered;
use chiplet_index::{IvfConfig, IvfTable, Metric};
use chiplet_table::{Context, Query, Table};

/// Threads of this name: those that OpenMP starts have the name of the one that opens the team.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

/// What `code` gives on a thread of this name.
fn named<T: Send>(name: &str, code: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.into());
        thread.spawn_scoped(scope, code).unwrap().join().unwrap()
    })
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
        let (table, team) = named("builds", || {
            let config = IvfConfig::new(Metric::L2);
            let table = IvfTable::build(&rows, 16, factory, &config).unwrap();
            (table, threads("builds"))
        });
        let cores = thread::available_parallelism().unwrap().get();
        assert!(team > 1 || cores == 1, "a build opens one, which is seen");
        named("asks", || {
            for vector in rows.chunks_exact(16).take(50) {
                let query = Query::new(vector).nprobe(24).top(100);
                table.search(&query, &mut Context::default()).unwrap();
            }
            assert_eq!(threads("asks"), 1, "{factory}");
        });
    }
}
