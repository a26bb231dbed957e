//! The executor's figures: by domain, and by table for the busiest.

use std::fmt;

use chiplet::snapshot::{Snapshot, TableSnapshot};

use super::page::{Labels, Page};
use crate::admin::others::Counted;
use crate::collection::rows::IndexMemory;

/// Tables that have labels of their own, the busiest first.
pub(crate) const TABLES_SHOWN: usize = 20;

pub(super) fn domain_metrics(
    page: &mut Page<'_>,
    snapshot: &Snapshot,
    queue_limit: u64,
) -> fmt::Result {
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
        "Where a domain's workers took tasks from: their own queue at home, their domain, another domain",
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
    page.counters(
        "chiplet_domain_moved",
        "Tasks that their submit moved to a domain: their home had a longer wait, or was full",
        domains
            .iter()
            .flat_map(|domain| {
                [
                    ("rebalanced", domain.steals.rebalanced),
                    ("overflow", domain.steals.overflow),
                ]
                .map(|(why, count)| (with(domain.id.0, "reason", why), count))
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
pub(super) fn memory_metrics(
    page: &mut Page<'_>,
    memories: &[(String, IndexMemory)],
) -> fmt::Result {
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

pub(super) fn table_metrics(page: &mut Page<'_>, snapshot: &Snapshot, sum: Counted) -> fmt::Result {
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
