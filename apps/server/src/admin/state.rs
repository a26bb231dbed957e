//! What the admin page shows, as JSON: the executor's counters, and rates and percentiles of the last few seconds.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, UNIX_EPOCH};

use chiplet::TableId;
use chiplet::snapshot::{DomainSnapshot, Latencies, Snapshot, Steals, TableSnapshot};
use chiplet_topology::cpu_ranges;
use parking_lot::Mutex;
use serde::Serialize;

use super::Admin;
use super::metrics::busiest;
use crate::collection::Collection;
use crate::collection::catalog::Listed;
use crate::collection::rows::IndexMemory;
use crate::scheduling::Slot;

/// Rates and percentiles are of about this much time.
const WINDOW: Duration = Duration::from_secs(5);

/// Readings closer together than this are not kept: the page asks once a second, and many may look.
const LEAST_APART: Duration = Duration::from_millis(500);

/// A reading older than this is of no use: nobody has looked for a while.
const OLDEST: Duration = Duration::from_secs(15);

/// Earlier readings. Nothing is read unless somebody looks.
#[derive(Default)]
pub(crate) struct Live(Mutex<VecDeque<(Instant, Snapshot)>>);

impl Live {
    /// Keeps `now`, and returns the kept reading that is nearest to a window ago.
    fn turn(&self, at: Instant, now: &Snapshot) -> Option<(Instant, Snapshot)> {
        let mut kept = self.0.lock();
        kept.retain(|(then, _)| at.saturating_duration_since(*then) < OLDEST);
        let off = |then: Instant| at.saturating_duration_since(then).abs_diff(WINDOW);
        let earlier = kept
            .iter()
            .filter(|(then, _)| at.saturating_duration_since(*then) >= LEAST_APART)
            .min_by_key(|(then, _)| off(*then))
            .cloned();
        let fresh = kept
            .back()
            .is_none_or(|(then, _)| at.saturating_duration_since(*then) >= LEAST_APART);
        if fresh {
            kept.push_back((at, now.clone()));
        }
        earlier
    }
}

#[derive(Serialize)]
pub(crate) struct State {
    server: Server,
    window_seconds: f64,
    totals: Totals,
    placement: Placement,
    domains: Vec<Domain>,
    tables: Vec<Table>,
    tables_not_shown: usize,
    remaps: Vec<Remap>,
}

#[derive(Serialize)]
struct Server {
    name: &'static str,
    version: &'static str,
    uptime_seconds: f64,
    ready: bool,
    draining: bool,
    not_ready_because: String,
    grpc_addr: String,
    scheduler: &'static str,
    machine: String,
}

#[derive(Default, Serialize)]
struct Totals {
    accepted: u64,
    queued: u64,
    running: u64,
    done: u64,
    expired: u64,
    cancelled: u64,
    panicked: u64,
    shed: u64,
    done_per_second: f64,
    steals: StealCounts,
}

#[derive(Default, Serialize)]
struct StealCounts {
    own: u64,
    domain: u64,
    remote: u64,
    rebalanced: u64,
    overflow: u64,
}

impl From<Steals> for StealCounts {
    fn from(steals: Steals) -> Self {
        Self {
            own: steals.own,
            domain: steals.domain,
            remote: steals.remote,
            rebalanced: steals.rebalanced,
            overflow: steals.overflow,
        }
    }
}

#[derive(Default, Serialize)]
struct Placement {
    version: u64,
    remaps: u64,
}

#[derive(Serialize)]
struct Domain {
    id: u32,
    cpus: String,
    cache_bytes: u64,
    /// Which cache makes a domain.
    cache_level: String,
    workers: usize,
    busy_workers: usize,
    /// Share of the workers' time in the window.
    busy_share: f64,
    queued: u64,
    queue_limit: usize,
    shed: u64,
    done_per_second: f64,
    wait_p50_us: Option<f64>,
    wait_p99_us: Option<f64>,
    service_p50_us: Option<f64>,
    service_p99_us: Option<f64>,
    steals: StealCounts,
}

#[derive(Serialize)]
struct Table {
    id: Option<u32>,
    name: String,
    index: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    points: usize,
    traffic_bytes_per_second: f64,
    homes: Vec<Home>,
    memory: Vec<NodeBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    huge_page_bytes: Option<u64>,
    queued: u64,
    done_per_second: f64,
    shed: u64,
    wait_p99_us: Option<f64>,
    service_p50_us: Option<f64>,
    service_p99_us: Option<f64>,
}

#[derive(Serialize)]
struct Home {
    domain: u32,
    weight: f64,
}

/// What of an index is on a NUMA node.
#[derive(Serialize)]
struct NodeBytes {
    node: u32,
    bytes: u64,
}

#[derive(Serialize)]
struct Remap {
    at_unix_ms: u64,
    version: u64,
    reason: String,
    moves: Vec<Move>,
}

#[derive(Serialize)]
struct Move {
    table: String,
    from: String,
    to: String,
}

/// The state at this moment.
pub(crate) fn now(admin: &Admin) -> State {
    let api = &admin.api;
    let executor = api.scheduler.executor();
    let at = Instant::now();
    let snapshot = executor.map(|executor| executor.snapshot());
    let window = snapshot
        .as_ref()
        .and_then(|snapshot| Window::open(admin, at, snapshot));
    let missing = admin.readiness.missing();
    let mut state = State {
        server: Server {
            name: "chiplet-server",
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: admin.readiness.uptime().as_secs_f64(),
            ready: missing.is_none(),
            draining: admin.readiness.is_draining(),
            not_ready_because: missing.unwrap_or_default(),
            grpc_addr: admin.grpc_addr.to_string(),
            scheduler: api.scheduler.name(),
            machine: executor.map_or_else(String::new, |executor| {
                let topology = executor.topology();
                [
                    counted(topology.domains().len(), "domain"),
                    counted(topology.core_count(), "core"),
                    counted(topology.cpu_count(), "cpu"),
                ]
                .join(", ")
            }),
        },
        window_seconds: window.as_ref().map_or(0.0, |window| window.seconds),
        totals: Totals::default(),
        placement: Placement::default(),
        domains: Vec::new(),
        tables: Vec::new(),
        tables_not_shown: 0,
        remaps: remaps(admin),
    };
    let listed = api.catalog.list();
    match &snapshot {
        Some(snapshot) => fill(&mut state, admin, snapshot, window.as_ref(), &listed),
        None => {
            let all = listed.iter().map(|listed| table(listed, None, None));
            state.tables = all.collect();
        }
    }
    state
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The time since an earlier reading.
struct Window {
    seconds: f64,
    earlier: Snapshot,
    tables: HashMap<TableId, usize>,
}

impl Window {
    fn open(admin: &Admin, at: Instant, snapshot: &Snapshot) -> Option<Self> {
        let (then, earlier) = admin.live.turn(at, snapshot)?;
        let tables = earlier.tables.iter().enumerate();
        Some(Self {
            seconds: at.saturating_duration_since(then).as_secs_f64(),
            tables: tables.map(|(index, table)| (table.id, index)).collect(),
            earlier,
        })
    }

    fn domain(&self, now: &DomainSnapshot) -> Option<&DomainSnapshot> {
        let mut domains = self.earlier.domains.iter();
        domains.find(|domain| domain.id == now.id)
    }

    fn table(&self, now: &TableSnapshot) -> Option<&TableSnapshot> {
        self.tables
            .get(&now.id)
            .map(|&index| &self.earlier.tables[index])
    }

    fn rate(&self, now: u64, then: u64) -> f64 {
        now.saturating_sub(then) as f64 / self.seconds
    }
}

fn micros(latencies: Option<&Latencies>, percent: f64) -> Option<f64> {
    latencies
        .filter(|latencies| latencies.count() > 0)
        .map(|latencies| latencies.percentile(percent).as_secs_f64() * 1e6)
}

fn fill(
    state: &mut State,
    admin: &Admin,
    snapshot: &Snapshot,
    window: Option<&Window>,
    listed: &[Listed],
) {
    let total = snapshot.total;
    state.totals = Totals {
        accepted: total.accepted,
        queued: total.queued,
        running: total.running,
        done: total.done,
        expired: total.expired,
        cancelled: total.cancelled,
        panicked: total.panicked,
        shed: total.shed,
        done_per_second: window.map_or(0.0, |window| {
            window.rate(total.done, window.earlier.total.done)
        }),
        steals: snapshot.steals.into(),
    };
    state.placement = Placement {
        version: snapshot.placement.version(),
        remaps: snapshot.remaps,
    };
    state.domains = snapshot
        .domains
        .iter()
        .map(|domain| domain_state(admin, domain, window))
        .collect();

    let collections: HashMap<TableId, &Listed> = listed
        .iter()
        .filter_map(|entry| match entry {
            Listed::Serving(collection) => match collection.slot {
                Slot::Table(id) => Some((id, entry)),
                Slot::Pool(_) => None,
            },
            Listed::Damaged { .. } | Listed::Loading { .. } => None,
        })
        .collect();
    let absent = listed
        .iter()
        .filter(|listed| !matches!(listed, Listed::Serving(_)));
    state.tables = absent.map(|listed| table(listed, None, None)).collect();
    let (shown, others) = busiest(&snapshot.tables);
    state.tables_not_shown = others.len();
    let shown = shown.into_iter().filter_map(|snapshot| {
        let entry = collections.get(&snapshot.id)?;
        Some(table(entry, Some(snapshot), window))
    });
    state.tables.extend(shown);
}

fn domain_state(admin: &Admin, now: &DomainSnapshot, window: Option<&Window>) -> Domain {
    let scheduler = &admin.api.scheduler;
    let model = scheduler
        .executor()
        .and_then(|executor| executor.topology().domains().get(now.id.0 as usize));
    let earlier = window.and_then(|window| Some((window, window.domain(now)?)));
    let wait = earlier.map(|(_, then)| now.wait.since(&then.wait));
    let service = earlier.map(|(_, then)| now.service.since(&then.service));
    Domain {
        id: now.id.0,
        cpus: model.map_or_else(String::new, |domain| cpu_ranges(&domain.cpus())),
        cache_bytes: model.map_or(0, |domain| domain.cache_bytes),
        cache_level: scheduler.executor().map_or_else(String::new, |executor| {
            executor.topology().level().to_string()
        }),
        workers: now.workers,
        busy_workers: now.busy_workers,
        busy_share: earlier.map_or(0.0, |(window, then)| {
            let busy = now.busy.saturating_sub(then.busy).as_secs_f64();
            busy / (window.seconds * now.workers.max(1) as f64)
        }),
        queued: now.queued,
        queue_limit: scheduler.queue_limit(),
        shed: now.shed,
        done_per_second: earlier.map_or(0.0, |(window, then)| window.rate(now.done, then.done)),
        wait_p50_us: micros(wait.as_ref(), 50.0),
        wait_p99_us: micros(wait.as_ref(), 99.0),
        service_p50_us: micros(service.as_ref(), 50.0),
        service_p99_us: micros(service.as_ref(), 99.0),
        steals: now.steals.into(),
    }
}

fn table(listed: &Listed, now: Option<&TableSnapshot>, window: Option<&Window>) -> Table {
    let earlier = match (now, window) {
        (Some(now), Some(window)) => window.table(now).map(|then| (window, now, then)),
        _ => None,
    };
    let wait = earlier.map(|(_, now, then)| now.wait.since(&then.wait));
    let service = earlier.map(|(_, now, then)| now.service.since(&then.service));
    let (name, index, points, status, problem) = match listed {
        Listed::Serving(collection) => {
            let (status, problem) = status(collection);
            let index = collection.with_settings(|settings| settings.index.name());
            let points = collection.view().live;
            (collection.name.to_string(), index, points, status, problem)
        }
        Listed::Damaged { name, problem } => {
            let problem = Some(problem.to_string());
            (name.to_string(), "none", 0, "red", problem)
        }
        Listed::Loading { name } => (name.to_string(), "none", 0, "yellow", None),
    };
    let memory = match listed {
        Listed::Serving(collection) => collection.view().base.index_memory.clone(),
        Listed::Damaged { .. } | Listed::Loading { .. } => IndexMemory::default(),
    };
    let nodes = memory.nodes.iter();
    Table {
        memory: nodes
            .map(|&(node, bytes)| NodeBytes { node, bytes })
            .collect(),
        huge_page_bytes: memory.huge_bytes,
        id: now.map(|now| now.id.slot),
        name,
        index,
        status,
        problem,
        points,
        traffic_bytes_per_second: now.map_or(0.0, |now| now.traffic.fast),
        homes: now.map_or_else(Vec::new, |now| {
            let homes = now.homes.iter().map(|home| Home {
                domain: home.domain.0,
                weight: home.share(),
            });
            homes.collect()
        }),
        queued: now.map_or(0, |now| now.counts.queued),
        done_per_second: earlier.map_or(0.0, |(window, now, then)| {
            window.rate(now.counts.done, then.counts.done)
        }),
        shed: now.map_or(0, |now| now.counts.shed),
        wait_p99_us: micros(wait.as_ref(), 99.0),
        service_p50_us: micros(service.as_ref(), 50.0),
        service_p99_us: micros(service.as_ref(), 99.0),
    }
}

/// The API's colours.
fn status(collection: &Collection) -> (&'static str, Option<String>) {
    match collection.build.problem() {
        Some(problem) => ("red", Some(problem)),
        None if collection.build.is_taken() => ("yellow", None),
        None => ("green", None),
    }
}

fn remaps(admin: &Admin) -> Vec<Remap> {
    let latest = admin.remaps.latest().into_iter();
    latest
        .map(|(at, event)| Remap {
            at_unix_ms: at
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            version: event.version,
            reason: event.reason.to_string(),
            moves: event
                .moves
                .iter()
                .map(|moved| Move {
                    table: moved.name.to_string(),
                    from: moved.from.to_string(),
                    to: moved.to.to_string(),
                })
                .collect(),
        })
        .collect()
}
