//! The executor's figures for whatever exporter a program has, with the feature `metrics`.
//!
//! Nothing is counted for it: an export is the difference of two snapshots. What only grows is passed on as growth, not
//! as it stands, so that tables of one name, and one that takes a removed one's name, count on in one series.

mod page;

use std::collections::HashSet;
use std::sync::Arc;

use metrics::{Label, Unit};

use self::page::{Labels, Levels, Page};
use crate::snapshot::{DomainSnapshot, Snapshot, TableSnapshot};

/// Tables that have a label of their own if [`MetricsExport::tables`] says nothing else.
const TABLES: usize = 100;

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

/// What is counted of the executor as a whole.
fn all(page: &mut Page<'_>, grown: &Snapshot) {
    let total = &grown.total;
    page.counters(
        "chiplet_accepted_total",
        Unit::Count,
        "Queries accepted, of removed tables too",
        whole(total.accepted),
    );
    let ends = [
        ("done", total.done),
        ("expired", total.expired),
        ("cancelled", total.cancelled),
        ("panicked", total.panicked),
    ];
    page.counters(
        "chiplet_queries_total",
        Unit::Count,
        "Queries ended, by how, of removed tables too",
        ends.map(|(end, count)| (vec![Label::new("end", end)], count)),
    );
    page.counters(
        "chiplet_shed_total",
        Unit::Count,
        "Queries refused because a queue was full, of removed tables too",
        whole(total.shed),
    );
    page.levels(
        "chiplet_running",
        Some(Unit::Count),
        "Queries started and not ended",
        whole(total.running as f64),
    );
    page.counters(
        "chiplet_remaps_total",
        Unit::Count,
        "Changes of placement that traffic caused",
        whole(grown.remaps),
    );
    page.levels(
        "chiplet_placement_version",
        None,
        "Version of the placement in force",
        whole(grown.placement.version() as f64),
    );
    page.counters(
        "chiplet_copied_tables_total",
        Unit::Count,
        "Tables copied to the memory of another socket",
        whole(grown.copied_tables),
    );
    page.counters(
        "chiplet_copied_bytes_total",
        Unit::Bytes,
        "Bytes of the tables copied to the memory of another socket",
        whole(grown.copied_bytes),
    );
}

/// Of each domain or table its label and a value.
fn each<'s, S, T>(
    all: &'s [S],
    label: impl Fn(&S) -> Label + 's,
    value: impl Fn(&'s S) -> T + 's,
) -> impl Iterator<Item = (Labels, T)> + 's {
    all.iter().map(move |one| (vec![label(one)], value(one)))
}

/// A value without labels.
fn whole<T>(value: T) -> [(Labels, T); 1] {
    [(Labels::new(), value)]
}

fn domains(page: &mut Page<'_>, domains: &[DomainSnapshot]) {
    let label = |domain: &DomainSnapshot| Label::new("domain", domain.id.0.to_string());
    page.levels(
        "chiplet_domain_queue_depth",
        Some(Unit::Count),
        "Queries that wait in a domain",
        each(domains, label, |domain| domain.queued as f64),
    );
    page.levels(
        "chiplet_domain_workers",
        Some(Unit::Count),
        "Workers at work in a domain",
        each(domains, label, |domain| domain.workers as f64),
    );
    page.levels(
        "chiplet_domain_workers_busy",
        Some(Unit::Count),
        "Workers on a query now",
        each(domains, label, |domain| domain.busy_workers as f64),
    );
    page.counters(
        "chiplet_domain_queries_total",
        Unit::Count,
        "Queries that a domain's workers ended, by how",
        domains.iter().flat_map(|domain| {
            let ends = [
                ("done", domain.done),
                ("expired", domain.expired),
                ("cancelled", domain.cancelled),
                ("panicked", domain.panicked),
            ];
            ends.map(|(end, count)| (vec![label(domain), Label::new("end", end)], count))
        }),
    );
    page.counters(
        "chiplet_domain_shed_total",
        Unit::Count,
        "Queries refused because a domain's queue, or the table's share of it, was full",
        each(domains, label, |domain| domain.shed),
    );
    page.counters(
        "chiplet_domain_steals_total",
        Unit::Count,
        "Where a domain's workers took tasks from: their own queue at home, their domain, another domain",
        domains.iter().flat_map(|domain| {
            let steals = [
                ("own", domain.steals.own),
                ("domain", domain.steals.domain),
                ("remote", domain.steals.remote),
            ];
            steals.map(|(level, count)| (vec![label(domain), Label::new("level", level)], count))
        }),
    );
    page.counters(
        "chiplet_domain_moved_total",
        Unit::Count,
        "Tasks that their submit moved to a domain: their home had a longer wait, or was full",
        domains.iter().flat_map(|domain| {
            let moved = [
                ("rebalanced", domain.steals.rebalanced),
                ("overflow", domain.steals.overflow),
            ];
            moved.map(|(why, count)| (vec![label(domain), Label::new("reason", why)], count))
        }),
    );
    page.times(
        "chiplet_domain_busy_seconds",
        "Time of a domain's workers on tasks, summed: it only grows",
        each(domains, label, |domain| domain.busy),
    );
    page.latencies(
        "chiplet_domain_wait_seconds",
        "From submission to start",
        each(domains, label, |domain| &domain.wait),
    );
    page.latencies(
        "chiplet_domain_service_seconds",
        "From start to answer",
        each(domains, label, |domain| &domain.service),
    );
}

fn tables(page: &mut Page<'_>, tables: &[TableSnapshot], own: &HashSet<&str>) {
    let label = |table: &TableSnapshot| match own.contains(&*table.name) {
        true => Label::new("table", Arc::clone(&table.name)),
        false => Label::new("table", OTHER),
    };
    page.levels(
        "chiplet_table_traffic_bytes_per_second",
        None,
        "What a table's queries read, over the slow window",
        each(tables, label, |table| table.traffic.slow),
    );
    page.levels(
        "chiplet_table_load_cores",
        None,
        "Core-seconds a second that a table asks for, served and refused, over the slow window",
        each(tables, label, |table| table.load.slow),
    );
    page.levels(
        "chiplet_table_queue_depth",
        Some(Unit::Count),
        "A table's queries that wait",
        each(tables, label, |table| table.counts.queued as f64),
    );
    page.levels(
        "chiplet_table_home_share",
        None,
        "The part of a table's queries that a domain is home to, 1 for all",
        tables.iter().flat_map(|table| {
            table.homes.iter().map(|home| {
                let domain = Label::new("domain", home.domain.0.to_string());
                (vec![label(table), domain], home.share())
            })
        }),
    );
    page.levels(
        "chiplet_table_node_bytes",
        Some(Unit::Bytes),
        "A table's memory on a NUMA node, as of when it was added, replaced or last copied",
        tables.iter().flat_map(|table| {
            table.memory.iter().map(|&(node, bytes)| {
                let node = Label::new("node", node.to_string());
                (vec![label(table), node], bytes as f64)
            })
        }),
    );
    page.counters(
        "chiplet_table_queries_total",
        Unit::Count,
        "A table's queries that were answered",
        each(tables, label, |table| table.counts.done),
    );
    page.counters(
        "chiplet_table_expired_total",
        Unit::Count,
        "A table's queries that their deadline ended",
        each(tables, label, |table| table.counts.expired),
    );
    page.counters(
        "chiplet_table_cancelled_total",
        Unit::Count,
        "A table's queries that nobody waited for any more, or that a shutdown ended",
        each(tables, label, |table| table.counts.cancelled),
    );
    page.counters(
        "chiplet_table_panicked_total",
        Unit::Count,
        "A table's queries that panicked",
        each(tables, label, |table| table.counts.panicked),
    );
    page.counters(
        "chiplet_table_shed_total",
        Unit::Count,
        "A table's queries that were refused because a queue was full",
        each(tables, label, |table| table.counts.shed),
    );
    page.latencies(
        "chiplet_table_wait_seconds",
        "From submission to start",
        each(tables, label, |table| &table.wait),
    );
    page.latencies(
        "chiplet_table_service_seconds",
        "From start to answer",
        each(tables, label, |table| &table.service),
    );
}
