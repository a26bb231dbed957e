//! What the executor adds to a search: `cargo bench --bench overhead`.
//!
//! Absolute times depend on the machine and on what else it does; compare rows of one run.

#[path = "../tests/common/rules.rs"]
mod rules;

use std::hint::black_box;

use chiplet::index::{FlatTable, Metric};
use chiplet::{Block, Context, Executor, PlannerConfig, Query, Table, TableId, Topology};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rules::Rules;

/// Queries kept outstanding where throughput is measured: enough to keep two workers busy.
const OUTSTANDING: usize = 64;

fn executor(rules: Rules) -> Executor {
    let builder = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20));
    rules
        .configure(builder, PlannerConfig::default())
        .build()
        .expect("two workers start")
}

fn closure_tables(executor: &Executor, count: usize) -> Vec<TableId> {
    (0..count)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1 << 20))
        .collect()
}

/// From submit to answer of an empty task, one at a time: mostly the wake-up of an idle worker.
fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round trip of an empty task");
    for tables in [1, 1_000] {
        let executor = executor(Rules::Default);
        let ids = closure_tables(&executor, tables);
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("tables", tables), |bencher| {
            bencher.iter(|| {
                turn += 1;
                executor
                    .spawn(ids[turn % ids.len()], || black_box(1))
                    .wait()
            });
        });
    }
    group.finish();
}

/// Empty tasks a second with many outstanding, by rules.
fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("empty tasks, 64 outstanding");
    group.throughput(Throughput::Elements(OUTSTANDING as u64));
    let names = [
        "ccd-aware-fifo",
        "ccd-aware-bytes",
        "ccd-aware-local",
        "ccd-aware",
    ];
    for (name, rules) in names.into_iter().zip(Rules::ALL) {
        let executor = executor(rules);
        let table = closure_tables(&executor, 1)[0];
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let tickets: Vec<_> = (0..OUTSTANDING)
                    .map(|n| executor.spawn(table, move || black_box(n)))
                    .collect();
                for ticket in tickets {
                    ticket.wait().expect("an empty task cannot fail");
                }
            });
        });
    }
    group.finish();
}

/// An exact search called directly and through the executor.
fn search(criterion: &mut Criterion) {
    let dim = 64;
    let rows: Vec<f32> = (0..2_000 * dim)
        .map(|i| ((i * 7_919) % 1_009) as f32)
        .collect();
    let build = || FlatTable::build(rows.clone(), dim, Metric::L2).expect("the rows are sound");
    let query = Query::new(&rows[..dim]);
    let mut group = criterion.benchmark_group("exact search of 2,000 x 64");
    let table = build();
    group.bench_function("direct", |bencher| {
        bencher.iter(|| table.search(&query, &mut Context::default()));
    });
    let executor = executor(Rules::Default);
    let id = executor.add_table("flat", build());
    group.bench_function("executor", |bencher| {
        bencher.iter(|| executor.search(id, query.clone()).wait());
    });
    group.finish();
}

/// 4,096 queries of a small table: as one block, as batches of 256, and one by one with as many outstanding.
fn bulk(criterion: &mut Criterion) {
    const QUERIES: usize = 4_096;
    const TOGETHER: usize = 256;
    let dim = 16;
    let rows: Vec<f32> = (0..QUERIES * dim)
        .map(|i| ((i * 7_919) % 1_009) as f32)
        .collect();
    let table = FlatTable::build(&rows[..200 * dim], dim, Metric::L2);
    let executor = executor(Rules::Default);
    let id = executor.add_table("flat", table.expect("the rows are sound"));
    let queries: Vec<Query> = rows.chunks(dim).map(Query::new).collect();
    let block = Block::new(rows, dim);
    let mut group = criterion.benchmark_group("4,096 exact searches of 200 x 16");
    group.throughput(Throughput::Elements(QUERIES as u64));
    group.bench_function("one block", |bencher| {
        bencher.iter(|| executor.search_block(id, block.clone()).wait());
    });
    group.bench_function("batches of 256", |bencher| {
        bencher.iter(|| {
            for queries in queries.chunks(TOGETHER) {
                black_box(executor.search_batch(id, queries.to_vec()).wait()).expect("accepted");
            }
        });
    });
    group.bench_function("single, 256 outstanding", |bencher| {
        bencher.iter(|| {
            for queries in queries.chunks(TOGETHER) {
                let submit = |query: &Query| executor.search(id, query.clone());
                let tickets: Vec<_> = queries.iter().map(submit).collect();
                for ticket in tickets {
                    black_box(ticket.wait()).expect("accepted");
                }
            }
        });
    });
    group.finish();
}

criterion_group!(benches, round_trip, throughput, search, bulk);
criterion_main!(benches);
