//! What a block costs the allocator: no allocation a row.

use std::sync::atomic::Ordering;

use crate::common::executor;
use crate::common::hooked::{DIM, rows};
use crate::{ALLOCATIONS, ALONE};
use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric, Refined};
use chiplet::{Block, Executor, Query, TableId};

/// The fewest allocations of several blocks of so many rows: others on top are the balancer's and the timed look's.
fn allocations(executor: &Executor, table: TableId, count: usize) -> u64 {
    let once = |_| {
        let block = Block::new(rows(count), DIM).like(Query::new([]).top(5));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let answers = executor.search_block(table, block).wait().unwrap();
        assert_eq!(answers.failed, []);
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    (0..10).map(once).min().unwrap()
}

#[test]
fn twice_the_rows_take_hardly_an_allocation_more() {
    let _alone = ALONE.lock();
    let executor = executor(1, 2);
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    let graph = || HnswTable::build(&rows(600), DIM, &config).unwrap();
    let flat = || FlatTable::build(rows(600), DIM, Metric::L2).unwrap();
    let tables = [
        ("hnsw", executor.add_table("hnsw", graph())),
        ("flat", executor.add_table("flat", flat())),
        (
            "refined",
            executor.add_table("refined", Refined::new(graph(), flat()).unwrap()),
        ),
    ];
    for (name, table) in tables {
        let [fewer, more] = [1_000, 2_000].map(|count| allocations(&executor, table, count));
        assert!(fewer > 0, "nothing was counted");
        assert!(fewer < 100, "{name}: {fewer} for 1,000 rows");
        assert!(more <= fewer + 10, "{name}: {fewer} and {more} allocations");
    }
}
