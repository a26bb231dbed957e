//! The executor's counters.

#[cfg(feature = "serde")]
mod serialize;
mod since;

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::Intake;
use chiplet_policy::{Homes, Placement, Rates, TableId};
use chiplet_topology::DomainId;
use rustc_hash::FxHashMap;

use crate::counts::{Counts, End, Steals, TABLES_AT_ONCE};
use crate::engine::Engine;
use crate::engine::stats::TableStats;
use crate::latencies::Latencies;
use crate::placement::balancer::{Asked, Balancer};

/// Everything the executor counts: in every table and in the totals,
/// `accepted = queued + running + done + expired + cancelled + panicked`.
///
/// It is read part by part: however many tables there are, a worker or a submit waits for one step at most, some
/// microseconds. Adding and removing tables wait for none of it. A task that starts meanwhile may count as `queued`
/// still, one that ends counts as ended. While no task moves it is exact.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The tables, in order of their ids.
    pub tables: Vec<TableSnapshot>,
    /// The domains that have workers.
    pub domains: Vec<DomainSnapshot>,
    /// All tables together, removed ones included.
    pub total: Counts,
    /// All workers together.
    pub steals: Steals,
    /// Placement changes since the start, without those of adding and removing tables.
    pub remaps: u64,
    /// Tables that were copied to the memory of another socket since the start.
    pub copied_tables: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// The placement in force.
    #[cfg_attr(feature = "serde", serde(rename = "placement_version"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::version"))]
    pub placement: Arc<Placement>,
}

/// One table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableSnapshot {
    /// Its id.
    pub id: TableId,
    /// The name it was added under.
    pub name: Arc<str>,
    /// Where its tasks stand.
    pub counts: Counts,
    /// Its homes.
    pub homes: Homes,
    /// The NUMA nodes that hold its memory, each with how many bytes, as of when it was added, replaced or last copied;
    /// empty on machines with one socket, and where the table or the system does not say.
    pub memory: Vec<(u32, u64)>,
    /// Its index and all copies of it: 0 for a table that only closures search.
    pub copies: usize,
    /// Core-seconds a second that it asks for, served and refused, over the fast and the slow window.
    pub load: Rates,
    /// Its measured traffic, in bytes per second, over the fast and the slow window.
    pub traffic: Rates,
    /// From submit to start.
    pub wait: Latencies,
    /// From start to answer.
    pub service: Latencies,
}

/// One domain.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DomainSnapshot {
    /// Its id in the executor's topology.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::number"))]
    pub id: DomainId,
    /// Its workers that are at work.
    pub workers: usize,
    /// Workers on a task or scan unit now.
    pub busy_workers: usize,
    /// Tasks waiting in its queues; without those that a purge or a shutdown is about to end.
    pub queued: u64,
    /// Tasks refused because its queues were full.
    pub shed: u64,
    /// Tasks its workers ended, by how.
    pub done: u64,
    /// Ended by their deadline.
    pub expired: u64,
    /// Ended by cancellation.
    pub cancelled: u64,
    /// Ended by a panic.
    pub panicked: u64,
    /// Where its workers' tasks and scan units came from.
    pub steals: Steals,
    /// Its workers' time on tasks and scan units, summed.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "busy_us", serialize_with = "serialize::in_micros")
    )]
    pub busy: Duration,
    /// Wait of the tasks its workers ended.
    pub wait: Latencies,
    /// Service time of the tasks its workers ended.
    pub service: Latencies,
}

/// What a group's queue has counted of its removed tables, and of the others.
type GroupIntake = (Intake, usize, Vec<(TableId, Intake, u64)>);

/// What all groups have counted of one table.
#[derive(Default)]
struct TableCounts {
    intake: Intake,
    queued: u64,
    stats: TableStats,
}

impl TableCounts {
    fn counts(&self) -> Counts {
        Counts::from_parts(self.intake, self.queued, self.stats.served)
    }
}

/// Takes the snapshot. No lock that workers or submits take is held for longer than copying [`TABLES_AT_ONCE`] tables'
/// counters, or one histogram, takes.
pub(crate) fn take(engine: &Engine, balancer: &Balancer) -> Snapshot {
    let _counters = balancer.keep_counters();
    let (placement, done) = balancer.view();
    // In this order, from a task's beginning to its end: see `engine/stats/mod.rs`.
    let (groups, layout) = (&engine.scheduler.groups, &engine.scheduler.layout);
    let intakes = (0..groups.count()).map(|group| {
        let (gone, tasks) = {
            let group = groups.lock(group);
            (group.queue.retired(), group.queue.len())
        };
        (gone, tasks, groups.intake(group))
    });
    let intakes: Vec<GroupIntake> = intakes.collect();
    let mut by_table: FxHashMap<TableId, TableCounts> = FxHashMap::default();
    let mut retired = TableCounts::default();
    let mut domains = Vec::with_capacity(intakes.len());
    for (group, (gone, _, intakes)) in intakes.iter().enumerate() {
        let ends = engine.stats.read(group);
        retired.intake.absorb(*gone);
        retired.stats.absorb(&ends.retired);
        let mut shed = gone.shed;
        for &(table, intake, queued) in intakes {
            shed += intake.shed;
            let counts = by_table.entry(table).or_default();
            counts.intake.absorb(intake);
            counts.queued += queued;
        }
        let mut all = ends.retired;
        for (table, stats) in &ends.tables {
            all.absorb(stats);
            by_table.entry(*table).or_default().stats.absorb(stats);
        }
        let (mut busy_workers, mut steals) = (0, Steals::default());
        for worker in (0..layout.threads()).filter(|&worker| layout.group_of(worker) == group) {
            let (occupied, its) = engine.stats.of(worker);
            busy_workers += usize::from(occupied);
            steals.absorb(its);
        }
        domains.push(DomainSnapshot {
            id: layout.domain_of(group),
            workers: groups.at_work_in(group),
            busy_workers,
            queued: 0,
            shed,
            done: all.served.of(End::Done),
            expired: all.served.of(End::Expired),
            cancelled: all.served.of(End::Cancelled),
            panicked: all.served.of(End::Panicked),
            steals,
            busy: ends.busy,
            wait: all.wait,
            service: all.service,
        });
    }

    // What has ended since does not wait in its domain either.
    let still = by_table
        .iter()
        .map(|(&table, counts)| (table, counts.counts().queued));
    let mut still: FxHashMap<TableId, u64> = still.collect();
    for (domain, (_, tasks, intakes)) in domains.iter_mut().zip(&intakes) {
        let mut queries = 0;
        for &(table, _, queued) in intakes {
            let left = still.entry(table).or_default();
            queries += queued.min(*left);
            *left = left.saturating_sub(queued);
        }
        domain.queued = queries.min(*tasks as u64);
    }
    let mut total = retired.counts();
    let mut steals = Steals::default();
    for domain in &domains {
        steals.absorb(domain.steals);
    }
    for counts in by_table.values() {
        total.absorb(counts.counts());
    }
    let placed: Vec<_> = placement.iter().collect();
    let mut tables = Vec::with_capacity(placed.len());
    for some in placed.chunks(TABLES_AT_ONCE) {
        let asked = balancer.asked(some.iter().map(|&(id, _)| id));
        for (&(id, homes), Asked { load, traffic }) in some.iter().zip(asked) {
            // It may have been removed meanwhile.
            let Some(entry) = engine.registry.find(id) else {
                continue;
            };
            let counts = by_table.remove(&id).unwrap_or_default();
            tables.push(TableSnapshot {
                id,
                name: Arc::clone(&entry.name),
                counts: counts.counts(),
                homes: homes.clone(),
                memory: entry.index.residence(),
                copies: entry.index.iter().count(),
                load,
                traffic,
                wait: counts.stats.wait,
                service: counts.stats.service,
            });
        }
    }
    Snapshot {
        tables,
        domains,
        total,
        steals,
        remaps: done.remaps,
        copied_tables: done.copied_tables,
        copied_bytes: done.copied_bytes,
        placement,
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use crate::{Executor, Topology};

    #[test]
    fn while_counters_are_read_tables_come_and_go() {
        let machine = Topology::uniform(1, 2, 32 << 20);
        let executor = Executor::builder().topology(machine).build().unwrap();
        // As a snapshot does until it has all of them. Whoever waited for that would wait for ever.
        let _counters = executor.balancer.keep_counters();
        let table = executor.add_closure_table("songs", 1 << 20);
        executor.set_table_size(table, 1).unwrap();
        executor.spawn(table, || ()).wait().unwrap();
        executor.remove_table(table).unwrap();
        assert_eq!(executor.placement().iter().len(), 0);
    }
}

#[cfg(all(test, feature = "serde", not(any(chiplet_loom, chiplet_shuttle))))]
mod serde_tests {
    use serde_json::json;

    use crate::{Class, Executor, PlannerConfig, QueryLimits, SplitConfig, TableOptions, Topology};

    #[test]
    fn a_snapshot_is_written_with_all_that_is_counted() {
        let machine = Topology::uniform(1, 2, 32 << 20);
        let executor = Executor::builder().topology(machine).build().unwrap();
        let table = executor.add_closure_table("songs", 1 << 20);
        executor.spawn(table, || ()).wait().unwrap();
        let written = serde_json::to_value(executor.snapshot()).unwrap();
        let songs = &written["tables"][0];
        assert_eq!(
            (&songs["name"], &songs["homes"]),
            (&json!("songs"), &json!([[0, 1.0]]))
        );
        assert_eq!(songs["counts"]["done"], 1);
        assert_eq!(songs["wait"]["count"], 1);
        assert_eq!(written["domains"][0]["workers"], 2);
        assert_eq!(written["total"]["accepted"], 1);
    }

    #[test]
    fn settings_are_read_by_name_and_what_is_left_out_is_the_default() {
        let limits: QueryLimits = serde_json::from_value(json!({ "max_k": 100 })).unwrap();
        assert_eq!(limits, QueryLimits::new().max_k(Some(100)));
        let options = json!({ "weight": 2.0, "class": "bulk" });
        let options: TableOptions = serde_json::from_value(options).unwrap();
        assert_eq!(options, TableOptions::new().weight(2.0).class(Class::Bulk));
        let planner = PlannerConfig::new();
        let written = serde_json::to_value(planner).unwrap();
        assert_eq!(
            serde_json::from_value::<PlannerConfig>(written).unwrap(),
            planner
        );
        let unknown = serde_json::from_value::<SplitConfig>(json!({ "no_such": 1 }));
        assert!(unknown.unwrap_err().to_string().contains("no_such"));
    }
}
