//! The feature `metrics`: exporters get what snapshots say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::common::{Gate, OpenOnDrop, builder, executor, hold};
use chiplet::index::{FlatTable, Metric};
use chiplet::snapshot::{Latencies, Snapshot};
use chiplet::{Executor, MetricsExport, Query, TableId};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;

const DIM: usize = 4;
const ROWS: usize = 100;

fn add(executor: &Executor, name: &str) -> TableId {
    let rows = (0..ROWS * DIM).map(|i| (i * 7919 % 1201) as f32);
    let table = FlatTable::build(rows.collect::<Vec<_>>(), DIM, Metric::L2).unwrap();
    executor.add_table(name, table)
}

fn search(executor: &Executor, table: TableId, times: usize) {
    for n in 0..times {
        let query = Query::new([n as f32; DIM]).top(3);
        assert_eq!(executor.search(table, query).wait().unwrap().len(), 3);
    }
}

/// What the exporter shows, by name and labels, without quotes.
#[derive(Default)]
struct Seen {
    counters: BTreeMap<String, u64>,
    gauges: BTreeMap<String, f64>,
    /// Those with a description.
    described: BTreeSet<String>,
}

/// A program with an exporter.
struct Program {
    recorder: PrometheusRecorder,
    export: MetricsExport,
}

impl Program {
    fn new(export: MetricsExport) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        Self { recorder, export }
    }

    /// Exports once, and returns what was exported and what is shown then.
    fn export(&mut self, executor: &Executor) -> (Snapshot, Seen) {
        let snapshot = executor.snapshot();
        let exported = snapshot.clone();
        metrics::with_local_recorder(&self.recorder, || self.export.record(exported));
        (snapshot, Seen::on(&self.recorder.handle().render()))
    }
}

impl Seen {
    fn on(page: &str) -> Self {
        let mut seen = Self::default();
        let mut counts = false;
        for line in page.lines().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["#", "HELP", name, ..] => drop(seen.described.insert(name.to_owned())),
                ["#", "TYPE", _, kind] => {
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    counts = kind == "counter";
                }
                [key, value] if counts => {
                    let key = key.replace('"', "");
                    seen.counters.insert(key, value.parse().unwrap());
                }
                [key, value] => {
                    let key = key.replace('"', "");
                    seen.gauges.insert(key, value.parse().unwrap());
                }
                _ => panic!("{line}"),
            }
        }
        seen
    }

    /// The counters of one name, added up.
    fn sum(&self, name: &str) -> u64 {
        let of_name = |key: &&String| key.split('{').next() == Some(name);
        let keys = self.counters.keys().filter(of_name);
        keys.map(|key| self.counters[key]).sum()
    }

    fn assert_time(&self, key: &str, truth: Duration) {
        let (seen, truth) = (self.gauges[key], truth.as_secs_f64());
        assert!(
            (seen - truth).abs() <= 1e-9 * (1.0 + truth),
            "{key}: {seen} {truth}"
        );
    }

    /// Of all times, and those that came since the export before.
    fn assert_latencies(&self, name: &str, label: &str, all: &Latencies, came: &Latencies) {
        assert_eq!(
            self.counters[&format!("{name}_count{{{label}}}")],
            all.count()
        );
        self.assert_time(&format!("{name}_sum{{{label}}}"), all.sum());
        for (quantile, percent) in [
            ("0.5", 50.0),
            ("0.9", 90.0),
            ("0.99", 99.0),
            ("0.999", 99.9),
        ] {
            let key = format!("{name}{{{label},quantile={quantile}}}");
            self.assert_time(&key, came.percentile(percent));
        }
    }

    fn names(&self) -> BTreeSet<String> {
        let keys = self.counters.keys().chain(self.gauges.keys());
        keys.map(|key| key.split('{').next().unwrap().to_owned())
            .collect()
    }
}

/// What the executor has counted is what has been exported, in however many exports; `before` was the last.
fn assert_same(before: Option<&Snapshot>, snapshot: &Snapshot, seen: &Seen) {
    let interval = before.map_or_else(|| snapshot.clone(), |before| snapshot.since(before));
    let total = &snapshot.total;
    let counter = |key: &str| seen.counters[key];
    assert_eq!(counter("chiplet_accepted_total"), total.accepted);
    assert_eq!(counter("chiplet_queries_total{end=done}"), total.done);
    assert_eq!(counter("chiplet_queries_total{end=expired}"), total.expired);
    assert_eq!(
        counter("chiplet_queries_total{end=cancelled}"),
        total.cancelled
    );
    assert_eq!(
        counter("chiplet_queries_total{end=panicked}"),
        total.panicked
    );
    assert_eq!(counter("chiplet_shed_total"), total.shed);
    assert_eq!(seen.gauges["chiplet_running"], total.running as f64);
    let steals = snapshot.steals;
    let all_steals = steals.own + steals.domain + steals.remote;
    assert_eq!(seen.sum("chiplet_domain_steals_total"), all_steals);
    let moved = steals.rebalanced + steals.overflow;
    assert_eq!(seen.sum("chiplet_domain_moved_total"), moved);
    for (domain, came) in snapshot.domains.iter().zip(&interval.domains) {
        let id = domain.id.0;
        let of = |name: &str| format!("chiplet_domain_{name}{{domain={id}}}");
        let done = format!("chiplet_domain_queries_total{{domain={id},end=done}}");
        assert_eq!(counter(&done), domain.done);
        assert_eq!(counter(&of("shed_total")), domain.shed);
        assert_eq!(seen.gauges[&of("workers")], domain.workers as f64);
        assert_eq!(seen.gauges[&of("queue_depth")], domain.queued as f64);
        seen.assert_time(&of("busy_seconds"), domain.busy);
        let label = format!("domain={id}");
        let waits = "chiplet_domain_wait_seconds";
        seen.assert_latencies(waits, &label, &domain.wait, &came.wait);
        let services = "chiplet_domain_service_seconds";
        seen.assert_latencies(services, &label, &domain.service, &came.service);
    }
    for (table, came) in snapshot.tables.iter().zip(&interval.tables) {
        let of = |name: &str| format!("chiplet_table_{name}{{table={}}}", table.name);
        let counts = &table.counts;
        assert_eq!(counter(&of("queries_total")), counts.done);
        assert_eq!(counter(&of("expired_total")), counts.expired);
        assert_eq!(counter(&of("cancelled_total")), counts.cancelled);
        assert_eq!(counter(&of("panicked_total")), counts.panicked);
        assert_eq!(counter(&of("shed_total")), counts.shed);
        assert_eq!(seen.gauges[&of("queue_depth")], counts.queued as f64);
        let traffic = seen.gauges[&of("traffic_bytes_per_second")];
        assert_eq!(traffic, table.traffic.slow);
        assert_eq!(seen.gauges[&of("load_cores")], table.load.slow);
        let label = format!("table={}", table.name);
        let waits = "chiplet_table_wait_seconds";
        seen.assert_latencies(waits, &label, &table.wait, &came.wait);
        let services = "chiplet_table_service_seconds";
        seen.assert_latencies(services, &label, &table.service, &came.service);
        for home in table.homes.iter() {
            let home_key = format!(
                "chiplet_table_home_share{{table={},domain={}}}",
                table.name, home.domain.0
            );
            assert_eq!(seen.gauges[&home_key], home.share());
        }
    }
}

#[test]
fn what_is_exported_is_what_was_counted() {
    let executor = builder(2, 2).table_queue_limit(4).build().unwrap();
    let tables = ["songs", "films"].map(|name| add(&executor, name));
    let closures = executor.add_closure_table("closures", 1);
    let mut program = Program::new(MetricsExport::new());
    search(&executor, tables[0], 20);
    let (first, seen) = program.export(&executor);
    assert_eq!(first.total.done, 20);
    assert_same(None, &first, &seen);

    search(&executor, tables[0], 10);
    search(&executor, tables[1], 30);
    let panics = executor.spawn(closures, || panic!("as it should"));
    assert!(panics.wait().is_err());
    let late = Query::new([0.0; DIM]).deadline(Instant::now());
    assert!(executor.search(tables[1], late).wait().is_err());
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, closures, 4, &gate);
    let waiting: Vec<_> = (0..6)
        .map(|_| executor.search(tables[0], Query::new([0.0; DIM])))
        .collect();
    let (second, seen) = program.export(&executor);
    let total = &second.total;
    assert_eq!((total.queued, total.running, total.shed), (4, 4, 2));
    assert_same(Some(&first), &second, &seen);

    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    for ticket in waiting {
        let _ = ticket.wait();
    }
    let (third, seen) = program.export(&executor);
    let total = &third.total;
    assert_eq!((total.done, total.panicked), (20 + 10 + 30 + 4 + 4, 1));
    assert_eq!((total.queued, total.running), (0, 0));
    assert_same(Some(&second), &third, &seen);
}

#[test]
fn a_removed_tables_gauges_are_zero_and_its_name_counts_on() {
    let executor = executor(1, 1);
    let mut program = Program::new(MetricsExport::new());
    let first = add(&executor, "songs");
    search(&executor, first, 5);
    let (_, seen) = program.export(&executor);
    let home = "chiplet_table_home_share{table=songs,domain=0}";
    let answered = "chiplet_table_queries_total{table=songs}";
    assert_eq!((seen.gauges[home], seen.counters[answered]), (1.0, 5));

    executor.remove_table(first).unwrap();
    let (_, seen) = program.export(&executor);
    let of_songs = |key: &&String| key.contains("table=songs");
    let gauges: Vec<_> = seen.gauges.keys().filter(of_songs).collect();
    assert!(gauges.len() >= 4, "{gauges:?}");
    for key in gauges {
        let grows = key.contains("_seconds_sum");
        assert!(grows || seen.gauges[key] == 0.0, "{key}");
    }
    assert_eq!(seen.counters[answered], 5);

    let second = add(&executor, "songs");
    search(&executor, second, 3);
    let (_, seen) = program.export(&executor);
    assert_eq!((seen.gauges[home], seen.counters[answered]), (1.0, 8));
    assert_eq!(seen.counters["chiplet_queries_total{end=done}"], 8);
}

#[test]
fn an_exporter_that_drops_what_is_idle_drops_a_removed_table() {
    let executor = executor(1, 1);
    let mut program = Program::new(MetricsExport::new());
    // Whatever was not exported again since it was shown.
    program.recorder = PrometheusBuilder::new()
        .idle_timeout(MetricKindMask::ALL, Some(Duration::ZERO))
        .build_recorder();
    let removed = add(&executor, "songs");
    let stays = add(&executor, "films");
    search(&executor, removed, 1);
    search(&executor, stays, 1);
    let (snapshot, seen) = program.export(&executor);
    assert_same(None, &snapshot, &seen);
    executor.remove_table(removed).unwrap();
    // It is set to zero at first.
    for shown in [true, false] {
        let (_, seen) = program.export(&executor);
        let mut keys = seen.counters.keys().chain(seen.gauges.keys());
        assert_eq!(keys.any(|key| key.contains("songs")), shown);
        // What has not changed is shown all the same.
        let counted = "chiplet_table_queries_total{table=films}";
        assert_eq!(seen.counters[counted], 1);
    }
}

#[test]
fn tables_of_one_name_and_those_without_a_label_are_added_up() {
    let executor = executor(1, 1);
    let mut program = Program::new(MetricsExport::new().tables(1));
    let tables = ["songs", "songs", "films"].map(|name| add(&executor, name));
    for table in tables {
        search(&executor, table, 4);
    }
    let (snapshot, seen) = program.export(&executor);
    let label = |name: &str, table: &str| format!("chiplet_table_{name}{{table={table}}}");
    // Either may have the most load.
    let (own, other) = match seen.counters.get(&label("queries_total", "songs")) {
        Some(_) => ("songs", 4),
        None => ("films", 8),
    };
    let all = snapshot.total.done;
    assert_eq!(seen.counters[&label("queries_total", own)], all - other);
    assert_eq!(seen.counters[&label("queries_total", "other")], other);
    let waits = seen.counters[&label("wait_seconds_count", "other")];
    assert_eq!(waits, other);
}

#[test]
fn each_metric_is_described_and_in_the_guide() {
    let executor = executor(1, 1);
    let table = add(&executor, "songs");
    search(&executor, table, 1);
    let mut program = Program::new(MetricsExport::new());
    let (_, seen) = program.export(&executor);
    let mut names = seen.names();
    assert_eq!(names, seen.described);
    // Parts of their summaries.
    names.retain(|name| !name.ends_with("_sum") && !name.ends_with("_count"));
    // Only machines with several nodes have it.
    names.insert("chiplet_table_node_bytes".to_owned());
    let page = include_str!("../../docs/guide.md");
    let rows = page.lines().filter(|line| line.starts_with("| `chiplet_"));
    let listed = rows.map(|row| {
        let name = row.trim_start_matches("| `");
        let end = name.find(['{', '`']).unwrap();
        name[..end].to_owned()
    });
    assert_eq!(listed.collect::<BTreeSet<_>>(), names);
}
