//! A table's memory follows its home to another node, on a kernel that has several.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet::index::{FlatConfig, FlatTable, HnswConfig, HnswTable, MemoryPolicy, Metric, Pages};
use chiplet::shutdown::Shutdown;
use chiplet::{Builder, Executor, Neighbor, PlannerConfig, Query, Table, TableId, Topology};
use chiplet_memory::Region;
use chiplet_policy::WindowConfig;

use crate::serving::HANG;

const DIM: usize = 64;

/// An executor that sees at once what is read.
fn builder() -> Builder {
    let windows = WindowConfig::new()
        .fast(Duration::from_millis(500))
        .slow(Duration::from_secs(1));
    Executor::builder().planner(PlannerConfig::new().windows(windows))
}

/// The nodes of the first and of the last package.
fn ends(topology: &Topology) -> (u32, u32) {
    let domains = topology.domains();
    let last = domains.last().expect("there are domains");
    (domains[0].node, last.node)
}

/// Exact search in memory of one node.
fn flat_on(node: u32) -> FlatConfig {
    FlatConfig::new(Metric::L2).memory(MemoryPolicy::on([node]))
}

/// Cpus of the domains near `node`.
fn cpus_near(topology: &Topology, node: u32) -> Vec<u32> {
    let near = topology
        .domains()
        .iter()
        .filter(|domain| domain.node == node);
    near.flat_map(|domain| domain.cpus()).collect()
}

fn rows(count: usize) -> Vec<f32> {
    (0..count * DIM)
        .map(|at| (at * 7_919 % 1_009) as f32)
        .collect()
}

fn ask(executor: &Executor, table: TableId) -> Vec<Neighbor> {
    let query = Query::new((0..DIM).map(|at| at as f32).collect::<Vec<_>>()).top(5);
    let mut ticket = executor.submit(table, query).expect("there is room");
    let answer = ticket.wait_for(HANG).expect("it is answered");
    answer.expect("no query fails")
}

/// The executor's view of where a table's memory is.
fn memory(executor: &Executor, table: TableId) -> Vec<(u32, u64)> {
    let tables = executor.snapshot().tables;
    let known = tables.into_iter().find(|known| known.id == table);
    known.expect("it was added").memory
}

/// Bytes on each node of memory that was asked for on `node` alone, as `/proc/self/numa_maps` has it.
fn preferring(node: u32) -> BTreeMap<u32, u64> {
    let maps = fs::read_to_string("/proc/self/numa_maps").expect("the kernel has it");
    let mut bytes = BTreeMap::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let policy = words.get(1).copied().unwrap_or_default();
        if !policy.starts_with("prefer") || !policy.ends_with(&format!(":{node}")) {
            continue;
        }
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let page = value("kernelpagesize_kB=").and_then(|text| text.parse::<u64>().ok());
        let pages = words.iter().filter_map(|word| {
            let (on, pages) = word.strip_prefix('N')?.split_once('=')?;
            Some((on.parse::<u32>().ok()?, pages.parse::<u64>().ok()?))
        });
        for (on, pages) in pages {
            *bytes.entry(on).or_default() += pages * page.unwrap_or(4) * 1_024;
        }
    }
    bytes
}

/// Asks until that comes true, and holds each answer against `expected`.
fn until(executor: &Executor, table: TableId, expected: &[Neighbor], there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < HANG, "{:?}", executor.snapshot());
        assert_eq!(ask(executor, table), expected);
    }
}

/// Built on one node, searched from another: it moves there, all of it, and answers as before. What is left behind goes
/// back to the system.
pub fn memory_follows_its_home() {
    let executor = builder().build().expect("the machine has cores");
    let (first, last) = ends(executor.topology());
    let values = rows(2_000);
    let graph = HnswTable::build(
        &values,
        DIM,
        &HnswConfig::new(Metric::L2).memory(MemoryPolicy::on([first])),
    );
    let flat = FlatTable::build(rows(16_384), DIM, flat_on(first));
    let (graph, flat) = (graph.expect("sound"), flat.expect("sound"));
    let sizes = [graph.size_bytes(), flat.size_bytes()];
    let tables = [
        executor.add_table("graph", graph),
        executor.add_table("flat", flat),
    ];
    let expected = tables.map(|table| ask(&executor, table));
    for table in tables {
        assert_eq!(memory(&executor, table)[..].len(), 1);
        assert_eq!(memory(&executor, table)[0].0, first);
    }
    let near = cpus_near(executor.topology(), last);
    executor.restrict_to(&near).expect("they are the machine's");
    for (table, expected) in tables.into_iter().zip(&expected) {
        until(
            &executor,
            table,
            expected,
            || matches!(memory(&executor, table)[..], [(node, _)] if node == last),
        );
        assert_eq!(ask(&executor, table), *expected);
    }
    assert!(executor.snapshot().copied_tables >= 2);
    let begun = Instant::now();
    let there = || preferring(last).get(&last).copied().unwrap_or(0) >= sizes.iter().sum();
    let gone = || preferring(first).values().sum::<u64>() == 0;
    while !(there() && gone()) {
        let seen = (preferring(first), preferring(last));
        assert!(begun.elapsed() < HANG, "{seen:?} of {sizes:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(preferring(last).len(), 1, "nothing of it is elsewhere");
}

/// A node without room gets no copy: the table stays, and answers.
pub fn a_full_node_gets_no_copy() {
    let executor = builder().build().expect("the machine has cores");
    let (first, last) = ends(executor.topology());
    let flat = FlatTable::build(rows(65_536), DIM, flat_on(first));
    let table = executor.add_table("flat", flat.expect("sound"));
    let expected = ask(&executor, table);
    let room = chiplet_topology::room_on(&[last]).expect("the kernel says");
    // It leaves half of what the table needs.
    let taken = room.saturating_sub(8 << 20) as usize;
    let full =
        Region::new(taken, MemoryPolicy::on([last]).pages(Pages::Small)).expect("it is there");
    full.populate(|_, _| ()).expect("it is there");
    executor
        .restrict_to(&cpus_near(executor.topology(), last))
        .expect("they are the machine's");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        assert_eq!(ask(&executor, table), expected);
    }
    assert_eq!(memory(&executor, table)[0].0, first);
    assert_eq!(executor.snapshot().copied_tables, 0);
    drop(full);
}

/// A shutdown in the middle of a copy: it ends soon, every query is answered, and the copy's memory is given back.
pub fn a_copy_ends_with_its_executor() {
    let slow = builder().copy_rate(Some(1 << 20));
    let executor = Arc::new(slow.build().expect("the machine has cores"));
    let (first, last) = ends(executor.topology());
    let flat = FlatTable::build(rows(65_536), DIM, flat_on(first));
    let table = executor.add_table("flat", flat.expect("sound"));
    let expected = ask(&executor, table);
    let near = cpus_near(executor.topology(), last);
    executor.restrict_to(&near).expect("they are the machine's");
    // 16 MiB take 16 s.
    until(&executor, table, &expected, || !preferring(last).is_empty());
    assert_eq!(ask(&executor, table), expected);
    let report = executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!((report.abandoned, report.still_running), (0, 0));
    let total = executor.snapshot().total;
    assert_eq!(total.accepted, total.done);
    assert_eq!(executor.snapshot().copied_tables, 0);
    assert!(preferring(last).is_empty(), "{:?}", preferring(last));
}
