//! Metrics for Prometheus. Labels are bounded: methods and reasons are lists in the code, domains are the machine's,
//! tables are the busiest few and `other`.

mod executor;
mod meters;
mod page;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::time::SystemTime;

use chiplet::snapshot::{RemapEvent, Snapshot, TableSnapshot};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Registry, Unit};

pub(crate) use self::executor::busiest;
use self::executor::{domain_metrics, memory_metrics, table_metrics};
pub(crate) use self::meters::Meters;
use self::page::{Labels, Page};
use super::Admin;
use super::others::Counted;
use super::process::Process;
use crate::collection::catalog::{Listed, Troubles};
use crate::collection::rows::IndexMemory;

/// Remaps that are remembered.
const REMAPS_KEPT: usize = 20;

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
