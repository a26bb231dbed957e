//! The executor's figures for whatever exporter a program has, with the feature `metrics`.
//!
//! Nothing is counted for it: an export is the difference of two snapshots. What only grows is passed on as growth, not
//! as it stands, so that tables of one name, and one that takes a removed one's name, count on in one series.

mod page;

use std::collections::HashSet;
use std::sync::Arc;

use metrics::{Label, Unit};

use self::page::{Labels, Levels, Page};
use crate::counts::Steals;
use crate::snapshot::{DomainSnapshot, Snapshot, TableSnapshot};

/// Tables that have a label of their own if [`MetricsExport::tables`] says nothing else.
const TABLES: usize = 100;

const COUNT: Option<Unit> = Some(Unit::Count);
const BYTES: Option<Unit> = Some(Unit::Bytes);
const SECONDS: Option<Unit> = Some(Unit::Seconds);

/// How tasks end.
const ENDS: [&str; 4] = ["done", "expired", "cancelled", "panicked"];

/// The label of the tables that have none of their own.
const OTHER: &str = "other";

/// Passes snapshots of one executor on to the crate `metrics`, and so to any of its exporters: Prometheus,
/// OpenTelemetry, StatsD and others. With the feature `metrics`.
///
/// Call [`record`](Self::record) every few seconds, not less often than the exporter is scraped; it costs a task
/// nothing. The facade's page `docs::guide` lists the names.
///
/// Tables are known by their names: those with one name are added up, and a table that takes a removed one's name
/// counts on from there. A removed table's gauges are set to zero at the next export, and after that it is exported no
/// more. The crate `metrics` cannot take a series back: it is shown as it was last until the exporter drops what is
/// idle, as metrics-exporter-prometheus does after `PrometheusBuilder::idle_timeout`. What the table counted after its
/// last export is in the totals only.
///
/// ```
/// use chiplet_executor::{Executor, MetricsExport, Topology};
///
/// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
/// let mut export = MetricsExport::new();
/// // The program has installed its exporter; then every few seconds:
/// export.record(executor.snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetricsExport {
    tables: usize,
    last: Option<Snapshot>,
    levels: Levels,
}

impl Default for MetricsExport {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsExport {
    /// Nothing has been exported yet: the first export has all that was counted until then.
    ///
    /// One for each executor. Of two that export to one recorder the counters add up, and the gauges show the one that
    /// exported last.
    pub fn new() -> Self {
        Self {
            tables: TABLES,
            last: None,
            levels: Levels::default(),
        }
    }

    /// How many tables at most have a label of their own (default 100): those that ask for the most core time, over the
    /// slow window. The others are added up under `table="other"`.
    #[must_use]
    pub fn tables(mut self, most: usize) -> Self {
        self.tables = most;
        self
    }

    /// Exports `now`, a snapshot of the same executor as before, and a later one: sets the gauges, and adds to the
    /// counters what has come since the last export. Quantiles are of that interval, zero if nothing came.
    ///
    /// It goes to the recorder that is current on this thread; without one to nowhere, and later exports do not make up
    /// for it.
    pub fn record(&mut self, now: Snapshot) {
        let grown = match &self.last {
            Some(last) => now.since(last),
            None => now.clone(),
        };
        let own = busiest(&now.tables, self.tables);
        self.levels = metrics::with_recorder(|recorder| {
            let mut page = Page::new(recorder);
            all(&mut page, &grown);
            domains(&mut page, &grown.domains);
            tables(&mut page, &grown.tables, &own);
            page.end(&self.levels)
        });
        self.last = Some(now);
    }
}

/// The names of the busiest tables.
fn busiest(tables: &[TableSnapshot], most: usize) -> HashSet<&str> {
    let mut tables: Vec<&TableSnapshot> = tables.iter().collect();
    tables.sort_by(|a, b| {
        let by_load = b.load.slow.total_cmp(&a.load.slow);
        let by_count = b.counts.accepted.cmp(&a.counts.accepted);
        by_load.then(by_count).then(a.id.cmp(&b.id))
    });
    let names = tables.iter().take(most).map(|table| &*table.name);
    names.collect()
}

/// The metrics of each of `all`, a row each: what it is (a method of [`Page`]), its name, its unit, its values, each
/// with further labels, and what it says.
macro_rules! rows {
    ($page:ident, $all:expr, $labels:expr, |$one:ident| {
        $($kind:ident $name:literal, $unit:expr, $values:expr, $help:literal;)*
    }) => {
        $(
            let values = $all.iter().flat_map(|$one| {
                let of = move |(further, value)| ([$labels($one), further].concat(), value);
                $values.into_iter().map(of)
            });
            $page.$kind($name, $unit, $help, values);
        )*
    };
}

/// A value without further labels.
fn one<T>(value: T) -> [(Labels, T); 1] {
    [(Labels::new(), value)]
}

/// Values that a further label tells apart.
fn by<const N: usize>(
    key: &'static str,
    names: [&'static str; N],
    values: [u64; N],
) -> impl IntoIterator<Item = (Labels, u64)> {
    let labels = names.map(|name| vec![Label::new(key, name)]);
    labels.into_iter().zip(values)
}

/// What is counted of the executor as a whole.
fn all(page: &mut Page<'_>, grown: &Snapshot) {
    let (whole, total) = (|_: &Snapshot| Labels::new(), &grown.total);
    let grown = std::slice::from_ref(grown);
    rows!(page, grown, whole, |all| {
        counters "chiplet_accepted_total", COUNT, one(total.accepted),
            "Queries accepted, of removed tables too";
        counters "chiplet_queries_total", COUNT,
            by("end", ENDS, [total.done, total.expired, total.cancelled, total.panicked]),
            "Queries ended, by how, of removed tables too";
        counters "chiplet_shed_total", COUNT, one(total.shed),
            "Queries refused because a queue was full, of removed tables too";
        levels "chiplet_running", COUNT, one(total.running as f64),
            "Queries started and not ended";
        counters "chiplet_remaps_total", COUNT, one(all.remaps),
            "Changes of placement that traffic caused";
        levels "chiplet_placement_version", None, one(all.placement.version() as f64),
            "Version of the placement in force";
        counters "chiplet_copied_tables_total", COUNT, one(all.copied_tables),
            "Tables copied to the memory of another socket";
        counters "chiplet_copied_bytes_total", BYTES, one(all.copied_bytes),
            "Bytes of the tables copied to the memory of another socket";
    });
}

/// Where tasks were taken from.
fn taken(steals: Steals) -> [u64; 3] {
    [steals.own, steals.domain, steals.remote]
}

/// Why they were away from home before that.
fn moved(steals: Steals) -> [u64; 2] {
    [steals.rebalanced, steals.overflow]
}

fn domains(page: &mut Page<'_>, domains: &[DomainSnapshot]) {
    let label = |domain: &DomainSnapshot| vec![Label::new("domain", domain.id.0.to_string())];
    rows!(page, domains, label, |domain| {
        levels "chiplet_domain_queue_depth", COUNT, one(domain.queued as f64),
            "Queries that wait in a domain";
        levels "chiplet_domain_workers", COUNT, one(domain.workers as f64),
            "Workers at work in a domain";
        levels "chiplet_domain_workers_busy", COUNT, one(domain.busy_workers as f64),
            "Workers on a query now";
        counters "chiplet_domain_queries_total", COUNT,
            by("end", ENDS, [domain.done, domain.expired, domain.cancelled, domain.panicked]),
            "Queries that a domain's workers ended, by how";
        counters "chiplet_domain_shed_total", COUNT, one(domain.shed),
            "Queries refused because a domain's queue, or the table's share of it, was full";
        counters "chiplet_domain_steals_total", COUNT,
            by("level", ["own", "domain", "remote"], taken(domain.steals)),
            "Where a domain's workers took tasks from: their own queue at home, their domain, another domain";
        counters "chiplet_domain_moved_total", COUNT,
            by("reason", ["rebalanced", "overflow"], moved(domain.steals)),
            "Tasks that their submit moved to a domain: their home had a longer wait, or was full";
        times "chiplet_domain_busy_seconds", SECONDS, one(domain.busy),
            "Time of a domain's workers on tasks, summed: it only grows";
        latencies "chiplet_domain_wait_seconds", SECONDS, one(&domain.wait),
            "From submission to start";
        latencies "chiplet_domain_service_seconds", SECONDS, one(&domain.service),
            "From start to answer";
    });
}

fn tables(page: &mut Page<'_>, tables: &[TableSnapshot], own: &HashSet<&str>) {
    let label = |table: &TableSnapshot| match own.contains(&*table.name) {
        true => vec![Label::new("table", Arc::clone(&table.name))],
        false => vec![Label::new("table", OTHER)],
    };
    let numbered = |key: &'static str, number: u32| vec![Label::new(key, number.to_string())];
    let shares = |table: &TableSnapshot| {
        let homes = table.homes.iter();
        let shares = homes.map(|home| (numbered("domain", home.domain.0), home.share()));
        shares.collect::<Vec<_>>()
    };
    let memory = |table: &TableSnapshot| {
        let nodes = table.memory.iter();
        let bytes = nodes.map(|&(node, bytes)| (numbered("node", node), bytes as f64));
        bytes.collect::<Vec<_>>()
    };
    rows!(page, tables, label, |table| {
        levels "chiplet_table_traffic_bytes_per_second", None, one(table.traffic.slow),
            "What a table's queries read, over the slow window";
        levels "chiplet_table_load_cores", None, one(table.load.slow),
            "Core-seconds a second that a table asks for, served and refused, over the slow window";
        levels "chiplet_table_queue_depth", COUNT, one(table.counts.queued as f64),
            "A table's queries that wait";
        levels "chiplet_table_home_share", None, shares(table),
            "The part of a table's queries that a domain is home to, 1 for all";
        levels "chiplet_table_node_bytes", BYTES, memory(table),
            "A table's memory on a NUMA node, as of when it was added, replaced or last copied";
        counters "chiplet_table_queries_total", COUNT, one(table.counts.done),
            "A table's queries that were answered";
        counters "chiplet_table_expired_total", COUNT, one(table.counts.expired),
            "A table's queries that their deadline ended";
        counters "chiplet_table_cancelled_total", COUNT, one(table.counts.cancelled),
            "A table's queries that nobody waited for any more, or that a shutdown ended";
        counters "chiplet_table_panicked_total", COUNT, one(table.counts.panicked),
            "A table's queries that panicked";
        counters "chiplet_table_shed_total", COUNT, one(table.counts.shed),
            "A table's queries that were refused because a queue was full";
        latencies "chiplet_table_wait_seconds", SECONDS, one(&table.wait),
            "From submission to start";
        latencies "chiplet_table_service_seconds", SECONDS, one(&table.service),
            "From start to answer";
    });
}
