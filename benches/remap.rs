//! What a remap of 10,000 tables over 64 domains takes: `cargo bench --bench remap`.
//!
//! It runs on the balancer's thread and never on the path of a query, about once a second when nothing changes and
//! at most once in ten seconds when something does.

use std::time::Duration;

use chiplet::{DomainId, TableId};
use chiplet_policy::{
    Assignment, Demand, DomainSpec, MapperConfig, Placement, Planner, PlannerConfig, Time, Usage,
    assign_homes,
};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};

const TABLES: u32 = 10_000;
const DOMAINS: u32 = 64;

/// A 64-domain machine of 8-core CCDs, as large as two sockets get and then some.
const CORES: u32 = 8;

fn domains() -> Vec<DomainSpec> {
    (0..DOMAINS)
        .map(|id| DomainSpec {
            cache_bytes: 32 << 20,
            package: id / 32,
            ..DomainSpec::new(DomainId(id), CORES)
        })
        .collect()
}

fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

/// Core-seconds a second of each table, 410 of 512 in all: popularity falls with the square root of a rank that is
/// scattered over the tables; `turn` gives the ranks to others.
fn loads(turn: u32) -> impl Iterator<Item = f64> {
    (0..TABLES).map(move |slot| {
        let rank = (slot.wrapping_mul(7_919) + turn) % TABLES;
        2.06 / f64::from(rank + 1).sqrt()
    })
}

fn demands(turn: u32) -> Vec<Demand> {
    (0..)
        .map(table)
        .zip(loads(turn))
        .map(|(table, load)| Demand {
            size: 1 << 20,
            ..Demand::new(table, load)
        })
        .collect()
}

fn placed(assignment: &Assignment) -> Placement {
    Placement::default().next(assignment.homes.clone())
}

/// The mapper alone.
fn mapper(criterion: &mut Criterion) {
    let domains = domains();
    let config = MapperConfig::default();
    let (before, after) = (demands(0), demands(TABLES / 2));
    let old = placed(&assign_homes(&before, &domains, None, &config));
    let mut group = criterion.benchmark_group("mapper, 10,000 tables, 64 domains");
    for (what, demands, current) in [
        ("from scratch", &before, None),
        ("unchanged load", &before, Some(&old)),
        ("hot set moved", &after, Some(&old)),
    ] {
        group.bench_function(BenchmarkId::from_parameter(what), |bencher| {
            bencher.iter(|| assign_homes(demands, &domains, current, &config));
        });
    }
    group.finish();
}

/// What the balancer calls: windows, trigger, mapper, and the new placement.
fn tick(criterion: &mut Criterion) {
    let mut planner = Planner::new(PlannerConfig::default(), domains());
    for slot in 0..TABLES {
        planner.add_table(table(slot), 1 << 20);
    }
    let mut now = 0;
    let mut seconds = |planner: &mut Planner, turn, count| {
        for _ in 0..count {
            now += 1;
            for (slot, load) in (0..).zip(loads(turn)) {
                let usage = Usage {
                    busy: Duration::from_secs_f64(load),
                    bytes: (load * 1e9) as u64,
                };
                planner.record(table(slot), Time::from_secs(now), usage);
            }
        }
        Time::from_secs(now)
    };
    let settled = seconds(&mut planner, 0, 70);
    planner.tick(settled);
    let settled = seconds(&mut planner, 0, 70);
    let still = planner.clone();
    let moved = seconds(&mut planner, TABLES / 2, 70);
    assert!(still.clone().tick(settled).is_none(), "steady load");
    let remap = planner.clone().tick(moved);
    let remap = remap.expect("a moved hot set is worth a remap");
    println!("the remap measured: {:?}", remap.reason);
    let moves = remap.moves.len();

    let mut group = criterion.benchmark_group("planner tick, 10,000 tables, 64 domains");
    for (what, planner, at) in [
        ("nothing changes".to_owned(), &still, settled),
        (format!("a remap of {moves} tables"), &planner, moved),
    ] {
        group.bench_function(what, |bencher| {
            bencher.iter_batched_ref(
                || planner.clone(),
                |planner| planner.tick(at),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    targets = mapper, tick
}
criterion_main!(benches);
