//! Metrics for Prometheus. Labels are bounded: methods and reasons are lists in the code, domains are the machine's,
//! tables are the busiest few and `other`.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use chiplet::{Latencies, RemapEvent, Snapshot, TableSnapshot};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tonic::Code;

use super::Admin;
use super::others::Counted;
use super::process::Process;
use crate::collection::catalog::{Listed, Troubles};
use crate::collection::rows::IndexMemory;

/// Upper bounds of the histograms' buckets, in seconds: a search takes tens of microseconds to tens of milliseconds,
/// a full queue's wait up to a second.
const BUCKETS: [f64; 16] = [
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1,
    0.25, 1.0, 10.0,
];

/// Tables that have labels of their own, the busiest first.
pub(crate) const TABLES_SHOWN: usize = 20;

/// Remaps that are remembered.
const REMAPS_KEPT: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

type TimedByMethod = Family<Method, Histogram, fn() -> Histogram>;

/// What the server itself counts; the executor counts the rest.
pub(crate) struct Meters {
    answered: Family<Answered, Counter>,
    took: TimedByMethod,
    shed: Family<Reason, Counter>,
    pub(crate) connections: AtomicU64,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            answered: Family::default(),
            took: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            shed: Family::default(),
            connections: AtomicU64::new(0),
        }
    }

    pub(crate) fn answered(&self, method: &'static str, code: Code, took: Duration) {
        let code = code_name(code);
        self.answered
            .get_or_create(&Answered { method, code })
            .inc();
        self.took
            .get_or_create(&Method { method })
            .observe(took.as_secs_f64());
    }

    /// Counts a request that was refused for want of capacity.
    pub(crate) fn shed(&self, reason: &'static str) {
        self.shed.get_or_create(&Reason { reason }).inc();
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The latest remaps, newest first.
#[derive(Default)]
pub(crate) struct Remaps(Mutex<VecDeque<(SystemTime, RemapEvent)>>);

impl Remaps {
    pub(crate) fn push(&self, event: &RemapEvent) {
        let mut remaps = self.0.lock();
        remaps.push_front((SystemTime::now(), event.clone()));
        remaps.truncate(REMAPS_KEPT);
    }

    pub(crate) fn latest(&self) -> Vec<(SystemTime, RemapEvent)> {
        self.0.lock().iter().cloned().collect()
    }
}

/// The metrics page.
pub(crate) fn text(admin: &Admin) -> String {
    let meters = &admin.meters;
    let mut registry = Registry::default();
    registry.register(
        "grpc_server_handled",
        "Requests answered, by method and status",
        meters.answered.clone(),
    );
    registry.register_with_unit(
        "grpc_server_handling",
        "Time from a request's arrival to its answer",
        Unit::Seconds,
        meters.took.clone(),
    );
    registry.register(
        "chiplet_server_shed",
        "Requests refused for want of capacity, by what was full",
        meters.shed.clone(),
    );
    registry.register_collector(Box::new(Readings::take(admin)));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// Everything that is read at the moment of the scrape.
struct Readings {
    executor: Option<Snapshot>,
    /// What the tables without a label have counted.
    others: Counted,
    /// The memory of the indexes of those with one.
    memories: Vec<(String, IndexMemory)>,
    queue_limit: u64,
    process: Option<Process>,
    ready: bool,
    connections: u64,
    collections: u64,
    troubles: Troubles,
    building: u64,
    writes_failed: u64,
    memory_used: u64,
    memory_limit: u64,
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readings")
    }
}

impl Readings {
    fn take(admin: &Admin) -> Self {
        let api = &admin.api;
        let (executor, others) = tables(admin);
        let listed = api.catalog.list();
        let shown = executor
            .as_ref()
            .map(|snapshot| busiest(&snapshot.tables).0);
        let shown: HashSet<&str> = shown.iter().flatten().map(|table| &*table.name).collect();
        let memories = listed.iter().filter(|listed| shown.contains(listed.name()));
        let memories = memories.filter_map(|listed| match listed {
            Listed::Serving(collection) => {
                let memory = collection.view().base.index_memory.clone();
                Some((collection.name.to_string(), memory))
            }
            Listed::Damaged { .. } | Listed::Loading { .. } => None,
        });
        let memories = memories.collect();
        Self {
            memories,
            executor,
            others,
            queue_limit: api.scheduler.queue_limit() as u64,
            process: Process::read(),
            ready: admin.readiness.missing().is_none(),
            connections: admin
                .meters
                .connections
                .load(std::sync::atomic::Ordering::Relaxed),
            collections: listed.len() as u64,
            troubles: api.catalog.troubles(),
            building: api.builder.pending() as u64,
            writes_failed: api.catalog.failed_writes(),
            memory_used: api.catalog.budget().used(),
            memory_limit: api.catalog.budget().limit(),
        }
    }
}

/// The executor's tables, and what those without a label have counted.
fn tables(admin: &Admin) -> (Option<Snapshot>, Counted) {
    let mut others = admin.others.lock();
    let Some(executor) = admin.api.scheduler.executor() else {
        return (None, Counted::default());
    };
    let snapshot = executor.snapshot();
    let (shown, unlisted) = busiest(&snapshot.tables);
    let counted = |table: &TableSnapshot| (table.id, Counted::of(table));
    let sum = others.scrape(
        shown.into_iter().map(counted),
        unlisted.into_iter().map(counted),
    );
    (Some(snapshot), sum)
}

/// Writes one metric after the other.
struct Page<'a>(DescriptorEncoder<'a>);

type Labels = Vec<(&'static str, String)>;

impl Page<'_> {
    fn metric(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        values: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        values(self.0.encode_descriptor(name, help, unit, kind)?)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        self.metric(name, help, unit, MetricType::Gauge, |metric| {
            ConstGauge::new(value).encode(metric)
        })
    }

    fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        self.metric(name, help, unit, MetricType::Counter, |metric| {
            ConstCounter::new(value).encode(metric)
        })
    }

    fn gauges(&mut self, name: &str, help: &str, values: Vec<(Labels, f64)>) -> fmt::Result {
        self.metric(name, help, None, MetricType::Gauge, |mut metric| {
            for (labels, value) in values {
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    fn counters(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) -> fmt::Result {
        self.metric(name, help, None, MetricType::Counter, |mut metric| {
            for (labels, value) in values {
                ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, Latencies)>,
    ) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        self.metric(name, help, unit, MetricType::Histogram, |mut metric| {
            for (labels, latencies) in values {
                let mut below = 0;
                let mut buckets: Vec<(f64, u64)> = BUCKETS
                    .iter()
                    .map(|&bound| {
                        let all = latencies.count_at_most(Duration::from_secs_f64(bound));
                        let here = all - below;
                        below = all;
                        (bound, here)
                    })
                    .collect();
                buckets.push((f64::INFINITY, latencies.count() - below));
                let sum = latencies.sum().as_secs_f64();
                metric.encode_family(&labels)?.encode_histogram::<Labels>(
                    sum,
                    latencies.count(),
                    &buckets,
                    None,
                )?;
            }
            Ok(())
        })
    }
}

impl Collector for Readings {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        page.gauge(
            "chiplet_server_ready",
            "1 if the server takes traffic, 0 while it loads or drains",
            None,
            f64::from(u8::from(self.ready)),
        )?;
        page.gauge(
            "chiplet_server_connections",
            "Connections open on the gRPC port",
            None,
            self.connections as f64,
        )?;
        page.gauge(
            "chiplet_server_collections",
            "Collections, damaged ones included",
            None,
            self.collections as f64,
        )?;
        let unserved = |reason: &str, count: u64| {
            let labels: Labels = vec![("reason", reason.to_owned())];
            (labels, count as f64)
        };
        page.gauges(
            "chiplet_server_collections_unserved",
            "Collections that answer no requests, by why: their file is damaged or cannot be read, or memory does not suffice",
            vec![
                unserved("damaged", self.troubles.damaged),
                unserved("no_memory", self.troubles.no_memory),
            ],
        )?;
        page.gauge(
            "chiplet_server_builds_red",
            "Collections whose latest index could not be built",
            None,
            self.troubles.red_builds as f64,
        )?;
        page.gauge(
            "chiplet_server_builds_pending",
            "Collections whose index is being built or waits for that",
            None,
            self.building as f64,
        )?;
        page.counter(
            "chiplet_server_writes_failed",
            "Writes that were taken and could not be stored, whether or not a client waited",
            None,
            self.writes_failed as f64,
        )?;
        page.gauge(
            "chiplet_server_memory_used",
            "Memory of points and indexes, as counted against limits.memory_bytes",
            Some(&Unit::Bytes),
            self.memory_used as f64,
        )?;
        page.gauge(
            "chiplet_server_memory_limit",
            "The limit of that memory",
            Some(&Unit::Bytes),
            self.memory_limit as f64,
        )?;
        if let Some(process) = &self.process {
            process_metrics(&mut page, process)?;
        }
        match &self.executor {
            Some(snapshot) => {
                domain_metrics(&mut page, snapshot, self.queue_limit)?;
                memory_metrics(&mut page, &self.memories)?;
                table_metrics(&mut page, snapshot, self.others)
            }
            None => Ok(()),
        }
    }
}

fn process_metrics(page: &mut Page<'_>, process: &Process) -> fmt::Result {
    let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
    page.counter(
        "process_cpu",
        "Processor time, user and system",
        seconds,
        process.cpu_seconds,
    )?;
    page.gauge(
        "process_resident_memory",
        "Resident memory",
        bytes,
        process.resident_bytes as f64,
    )?;
    page.gauge(
        "process_virtual_memory",
        "Virtual memory",
        bytes,
        process.virtual_bytes as f64,
    )?;
    page.gauge(
        "process_start_time",
        "Start of the process since the Unix epoch",
        seconds,
        process.start_seconds,
    )?;
    page.gauge("process_threads", "Threads", None, process.threads as f64)?;
    page.gauge(
        "process_open_fds",
        "Open files",
        None,
        process.open_fds as f64,
    )
}

fn domain_metrics(page: &mut Page<'_>, snapshot: &Snapshot, queue_limit: u64) -> fmt::Result {
    let domains = &snapshot.domains;
    let label = |id: u32| -> Labels { vec![("domain", id.to_string())] };
    let with = |id: u32, name: &'static str, value: &str| -> Labels {
        vec![("domain", id.to_string()), (name, value.to_owned())]
    };
    page.gauges(
        "chiplet_domain_queue_depth",
        "Queries that wait in a domain",
        domains
            .iter()
            .map(|domain| (label(domain.id.0), domain.queued as f64))
            .collect(),
    )?;
    page.gauge(
        "chiplet_domain_queue_limit",
        "Queries that may wait in each domain",
        None,
        queue_limit as f64,
    )?;
    page.gauges(
        "chiplet_domain_workers",
        "Workers at work in a domain",
        domains
            .iter()
            .map(|domain| (label(domain.id.0), domain.workers as f64))
            .collect(),
    )?;
    page.gauges(
        "chiplet_domain_workers_busy",
        "Workers on a query now",
        domains
            .iter()
            .map(|domain| (label(domain.id.0), domain.busy_workers as f64))
            .collect(),
    )?;
    page.counters(
        "chiplet_domain_queries",
        "Queries that a domain's workers ended, by how",
        domains
            .iter()
            .flat_map(|domain| {
                [
                    ("done", domain.done),
                    ("expired", domain.expired),
                    ("cancelled", domain.cancelled),
                    ("panicked", domain.panicked),
                ]
                .map(|(end, count)| (with(domain.id.0, "end", end), count))
            })
            .collect(),
    )?;
    page.counters(
        "chiplet_domain_shed",
        "Queries refused because a domain's queue, or the table's share of it, was full",
        domains
            .iter()
            .map(|domain| (label(domain.id.0), domain.shed))
            .collect(),
    )?;
    page.counters(
        "chiplet_domain_steals",
        "Where a domain's workers took tasks from: their own queue, their domain, another domain",
        domains
            .iter()
            .flat_map(|domain| {
                [
                    ("own", domain.steals.own),
                    ("domain", domain.steals.domain),
                    ("remote", domain.steals.remote),
                ]
                .map(|(level, count)| (with(domain.id.0, "level", level), count))
            })
            .collect(),
    )?;
    let waits = domains
        .iter()
        .map(|domain| (label(domain.id.0), domain.wait.clone()));
    page.histograms(
        "chiplet_domain_wait",
        "From submission to start",
        waits.collect(),
    )?;
    let services = domains
        .iter()
        .map(|domain| (label(domain.id.0), domain.service.clone()));
    page.histograms(
        "chiplet_domain_service",
        "From start to answer",
        services.collect(),
    )?;
    page.gauge(
        "chiplet_placement_version",
        "Version of the placement in force",
        None,
        snapshot.placement.version() as f64,
    )?;
    page.counter(
        "chiplet_remaps",
        "Changes of placement that traffic caused",
        None,
        snapshot.remaps as f64,
    )
}

/// The label of all tables that have none of their own. A table of that very name is counted among them.
const OTHER: &str = "other";

/// The busiest tables, and the others.
pub(crate) fn busiest(tables: &[TableSnapshot]) -> (Vec<&TableSnapshot>, Vec<&TableSnapshot>) {
    let (namesakes, mut tables): (Vec<&TableSnapshot>, Vec<_>) =
        tables.iter().partition(|table| &*table.name == OTHER);
    tables.sort_by(|a, b| {
        let by_traffic = b.traffic.slow.total_cmp(&a.traffic.slow);
        let by_count = b.counts.accepted.cmp(&a.counts.accepted);
        by_traffic.then(by_count).then(a.id.cmp(&b.id))
    });
    let mut others = tables.split_off(tables.len().min(TABLES_SHOWN));
    others.extend(namesakes);
    (tables, others)
}

/// Where the indexes of the busiest tables lie.
fn memory_metrics(page: &mut Page<'_>, memories: &[(String, IndexMemory)]) -> fmt::Result {
    let on_nodes = memories.iter().flat_map(|(table, memory)| {
        memory.nodes.iter().map(|&(node, bytes)| {
            let labels: Labels = vec![("table", table.clone()), ("node", node.to_string())];
            (labels, bytes as f64)
        })
    });
    page.gauges(
        "chiplet_table_node_bytes",
        "An index's memory on a NUMA node, as of when it was built or loaded",
        on_nodes.collect(),
    )?;
    let huge = memories.iter().filter_map(|(table, memory)| {
        let labels: Labels = vec![("table", table.clone())];
        Some((labels, memory.huge_bytes? as f64))
    });
    page.gauges(
        "chiplet_table_huge_page_bytes",
        "What of an index's memory is in huge pages, as of when it was built or loaded",
        huge.collect(),
    )
}

fn table_metrics(page: &mut Page<'_>, snapshot: &Snapshot, sum: Counted) -> fmt::Result {
    let (shown, others) = busiest(&snapshot.tables);
    let label = |table: &TableSnapshot| -> Labels { vec![("table", table.name.to_string())] };
    let other: Labels = vec![("table", OTHER.to_owned())];
    let levels = |value: fn(&TableSnapshot) -> f64| -> Vec<(Labels, f64)> {
        let each = shown.iter().map(|table| (label(table), value(table)));
        let rest = others.iter().map(|table| value(table)).sum();
        let rest = (!others.is_empty()).then(|| (other.clone(), rest));
        each.chain(rest).collect()
    };
    let counts = |value: fn(&Counted) -> u64| -> Vec<(Labels, u64)> {
        let each = shown
            .iter()
            .map(|table| (label(table), value(&Counted::of(table))));
        // Once there, it stays.
        let any = !others.is_empty() || sum != Counted::default();
        let rest = any.then(|| (other.clone(), value(&sum)));
        each.chain(rest).collect()
    };
    page.gauges(
        "chiplet_table_traffic_bytes_per_second",
        "What a table's queries read, over the slow window",
        levels(|table| table.traffic.slow),
    )?;
    page.gauges(
        "chiplet_table_queue_depth",
        "A table's queries that wait",
        levels(|table| table.counts.queued as f64),
    )?;
    page.counters(
        "chiplet_table_queries",
        "A table's queries that were answered",
        counts(|counted| counted.done),
    )?;
    page.counters(
        "chiplet_table_shed",
        "A table's queries that were refused because a queue was full",
        counts(|counted| counted.shed),
    )?;
    let waits = shown.iter().map(|table| (label(table), table.wait.clone()));
    page.histograms(
        "chiplet_table_wait",
        "From submission to start, for the busiest tables",
        waits.collect(),
    )?;
    let services = shown
        .iter()
        .map(|table| (label(table), table.service.clone()));
    page.histograms(
        "chiplet_table_service",
        "From start to answer, for the busiest tables",
        services.collect(),
    )
}
