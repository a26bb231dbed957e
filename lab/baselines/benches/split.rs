//! What splitting a query gives, and what it costs where it gives nothing:
//! `cargo bench -p chiplet-baselines --bench split`; also what the executor adds to graph searches where there is
//! nothing to gain.
//!
//! Absolute times depend on the machine and on what else it does; compare rows of one group of one run.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chiplet::{
    Context, Executor, Neighbor, PlannerConfig, Probe, Query, SearchError, SplitConfig, SplitTable,
    Table, TableId, Topology,
};
use chiplet_baselines::{Pool, Strategy};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Lists of `f32` in memory; a scan of a list adds them up, which is what reading them costs without any index
/// library's own work.
struct Sums {
    lists: Vec<Vec<f32>>,
}

impl Sums {
    fn new(lists: usize, list_bytes: usize) -> Self {
        let values = list_bytes / size_of::<f32>();
        let list = |n: usize| (0..values).map(|i| ((i * 31 + n) % 101) as f32).collect();
        Self {
            lists: (0..lists).map(list).collect(),
        }
    }

    fn list_bytes(&self, list: usize) -> u64 {
        (self.lists[list].len() * size_of::<f32>()) as u64
    }
}

/// Eight partial sums, so that the additions do not wait for one another.
fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    for chunk in values.chunks_exact(8) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

impl Table for Sums {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    fn size_bytes(&self) -> u64 {
        (0..self.lists.len())
            .map(|list| self.list_bytes(list))
            .sum()
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for Sums {
    fn coarse(&self, query: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
        query.check(1)?;
        let probe = |list| Probe {
            list: list as u64,
            distance: 0.0,
            cost_bytes: self.list_bytes(list),
        };
        Ok((0..self.lists.len()).map(probe).collect())
    }

    fn scan(
        &self,
        _: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let found = probes[unit].iter().map(|probe| {
            context.add_bytes(probe.cost_bytes);
            Neighbor {
                id: probe.list,
                distance: sum(black_box(&self.lists[probe.list as usize])),
            }
        });
        Ok(found.collect())
    }
}

/// Two workers of one domain.
enum Two {
    Chiplet(Executor, TableId),
    Baseline(Pool, Arc<dyn Table>),
}

impl Two {
    fn start(strategy: &Strategy, table: Arc<dyn Table>) -> Self {
        let machine = Topology::uniform(1, 2, 32 << 20);
        if !strategy.is_chiplets() {
            let pool = Pool::start(strategy, &machine, 2, 1_024).expect("two workers start");
            return Self::Baseline(pool, table);
        }
        let builder = Executor::builder().topology(machine);
        let builder = builder
            .planner(strategy.planner(PlannerConfig::default()))
            .split(strategy.split(SplitConfig::default()))
            .run_length(strategy.run_length);
        let executor = builder.build().expect("two workers start");
        let table = executor.add_table("table", table);
        Self::Chiplet(executor, table)
    }

    /// Answers all of `queries`, which are outstanding at once.
    fn answer(&self, queries: &[Query]) {
        match self {
            Self::Chiplet(executor, table) => {
                let search = |query: &Query| executor.search(*table, query.clone());
                let tickets: Vec<_> = queries.iter().map(search).collect();
                for ticket in tickets {
                    ticket.wait().expect("the search succeeds");
                }
            }
            Self::Baseline(pool, table) => {
                let (answer, answers) = std::sync::mpsc::channel();
                for query in queries {
                    let answer = answer.clone();
                    let done = move |found| drop(answer.send(found));
                    let sent = pool.search(table, query.clone(), done);
                    assert!(sent.is_ok(), "there is room for all");
                }
                drop(answer);
                assert!(answers.iter().all(|found| found.is_ok()));
            }
        }
    }
}

/// One query at a time, then 16 at once, unsplit (`round-robin`) and split (`ccd-aware`). Two workers are idle in
/// the first case, so the split may halve the time; none is in the second, so it should change nothing.
fn scans(criterion: &mut Criterion) {
    const LISTS: usize = 32;
    for list_kib in [8, 32, 128, 512] {
        // One copy for all: where in memory a table lies changes what it costs to read.
        let lists: Arc<dyn Table> = Arc::new(Sums::new(LISTS, list_kib << 10));
        for outstanding in [1, 16] {
            let name = format!("{LISTS} lists of {list_kib} KiB, {outstanding} outstanding");
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Elements(outstanding as u64));
            for strategy in [
                Strategy::ROUND_ROBIN,
                Strategy::FORK_JOIN,
                Strategy::CCD_AWARE,
            ] {
                let two = Two::start(&strategy, Arc::clone(&lists));
                let queries = vec![Query::new([0.0]).top(LISTS); outstanding];
                group.bench_function(BenchmarkId::from_parameter(strategy), |bencher| {
                    bencher.iter(|| two.answer(&queries));
                });
            }
            group.finish();
        }
    }
}

/// One domain and one table: nothing to place and nothing to keep apart, so all strategies should be alike.
fn no_regret(criterion: &mut Criterion) {
    use chiplet::index::{HnswConfig, HnswTable, Metric};
    use chiplet_workload::dataset::{Clusters, VectorSet};

    const ROWS: usize = 1_500;
    const DIM: usize = 64;
    const OUTSTANDING: usize = 64;

    let rows = VectorSet::clusters(&Clusters {
        rows: ROWS,
        dim: DIM,
        ..Clusters::default()
    });
    let graph = HnswTable::build(rows.as_slice(), DIM, &HnswConfig::new(Metric::L2));
    let graph: Arc<dyn Table> = Arc::new(graph.expect("the rows are sound"));
    let queries: Vec<Query> = (0..OUTSTANDING)
        .map(|n| Query::new(rows.row(n * 23)).ef(32))
        .collect();
    let mut group =
        criterion.benchmark_group("one graph of 1,500 x 64, one domain, 64 outstanding");
    group.throughput(Throughput::Elements(OUTSTANDING as u64));
    for strategy in [
        Strategy::ROUND_ROBIN,
        Strategy::GLOBAL_STEAL,
        Strategy::CCD_AWARE,
    ] {
        let two = Two::start(&strategy, Arc::clone(&graph));
        group.bench_function(BenchmarkId::from_parameter(strategy), |bencher| {
            bencher.iter(|| two.answer(&queries));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = scans, no_regret
}
criterion_main!(benches);
