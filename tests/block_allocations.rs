//! What a block costs the allocator: no allocation a row.
#![allow(
    unsafe_code,
    reason = "a global allocator that counts is an unsafe trait"
)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric, Refined};
use chiplet::{Block, Executor, Query, TableId};
use common::executor;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed on to the system's allocator as it came; the default `realloc` and
// `alloc_zeroed` go through `alloc`, so they count too.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and the block is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DIM: usize = 4;

fn rows(count: usize) -> Vec<f32> {
    (0..count * DIM).map(|i| (i * 7919 % 1201) as f32).collect()
}

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

/// One test, as the counter is the whole process's.
#[test]
fn twice_the_rows_take_hardly_an_allocation_more() {
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
