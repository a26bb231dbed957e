//! What a table costs in memory, beside the index itself: little while nobody asks for it, and a few KiB of counters,
//! queue and traffic windows when somebody does.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{HANG, builder};
use crate::{ALONE, HELD};
use chiplet::snapshot::TableSnapshot;
use chiplet::{Executor, StealConfig, TableId};

const TABLES: i64 = 10_000;
const DOMAINS: u32 = 64;

/// The promise: an idle table takes less than this, its name and its place in every structure included.
const IDLE_BYTES: i64 = 2 << 10;

/// A table that has been used takes less.
const USED_BYTES: i64 = 2 * IDLE_BYTES;

/// The same with its traffic windows, once the balancer has taken note of it.
const SEEN_BYTES: i64 = 5 << 10;

fn add_tables(executor: &Executor) -> Vec<TableId> {
    (0..TABLES)
        .map(|n| executor.add_closure_table(format!("table {n}"), 1 << 20))
        .collect()
}

/// Bytes held now beyond `before`, per table.
fn per_table(before: i64) -> i64 {
    (HELD.load(Ordering::Relaxed) - before) / TABLES
}

/// Prints the figures with `--nocapture`.
#[test]
fn a_table_takes_less_than_2_kib_idle_4_used_and_5_with_its_windows() {
    let _alone = ALONE.lock();
    // A table that other domains help with has a flow in each of them, and how many do depends on the machine's load.
    let at_home = StealConfig::new().cold_factor(None);
    let executor = builder(DOMAINS, 1).steal(at_home).build().unwrap();
    let before = HELD.load(Ordering::Relaxed);
    let tables = add_tables(&executor);
    let ids = (tables.capacity() * size_of::<TableId>()) as i64;
    let idle = per_table(before + ids);
    for &table in &tables {
        executor.spawn(table, || ()).wait().unwrap();
    }
    let used = per_table(before + ids);
    // The traffic windows come with the balancer's look, once a second: it may have come among the tasks.
    let is_seen = |table: &TableSnapshot| table.load.slow > 0.0;
    let looked = executor.snapshot().tables.iter().any(is_seen);
    let begun = Instant::now();
    while !executor.snapshot().tables.iter().all(is_seen) {
        assert!(begun.elapsed() < HANG, "the balancer looks");
        std::thread::sleep(Duration::from_millis(50));
    }
    let seen = per_table(before + ids);
    println!(
        "{TABLES} tables, {DOMAINS} domains: {idle} bytes an idle table, {used} bytes a used one, {seen} with its windows"
    );
    assert!(idle > 0, "nothing was counted");
    assert!(idle < IDLE_BYTES, "{idle} bytes an idle table");
    assert!(looked || used < USED_BYTES, "{used} bytes a used table");
    assert!(seen < SEEN_BYTES, "{seen} bytes with its windows");
}
