//! What each worker did, each worker's under a lock of its own that only a snapshot ever contends for.
//!
//! Every count changes under exactly one worker's lock (or, for arrivals, one group's). A snapshot reads them one after
//! the other and stops nobody: the workers' first, then the groups'. A task that moves on meanwhile is seen at an
//! earlier step than it has reached, never at two, so counts add up. The order of locks is: balancer, one group's or one
//! worker's, one table's latencies.

use std::time::Duration;

use chiplet_policy::{Rung, TableId, TableUsage};
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;
use rustc_hash::FxHashMap;

use super::registry::TableEntry;
use crate::counts::{End, Served, Steals};
use crate::latencies::Latencies;
use crate::sync::Mutex;

/// What one worker did.
#[derive(Clone)]
pub(crate) struct WorkerStats {
    /// Where it works.
    domain: DomainId,
    pub(crate) tables: FxHashMap<TableId, TableStats>,
    /// Those that have been used since the balancer last asked, which may be few of very many.
    in_use: Vec<TableId>,
    /// Tables that were removed.
    pub(crate) retired: Served,
    pub(crate) steals: Steals,
    pub(crate) wait: Latencies,
    pub(crate) service: Latencies,
    /// Whether the worker is on a task or scan unit now.
    pub(crate) occupied: bool,
    /// Time spent on tasks and scan units.
    pub(crate) busy: Duration,
}

/// What one worker did for one table.
#[derive(Clone, Copy, Default)]
pub(crate) struct TableStats {
    pub(crate) served: Served,
    /// Since the balancer last asked.
    used: TableUsage,
    is_in_use: bool,
}

/// What all workers did.
pub(crate) struct Stats {
    workers: Box<[CachePadded<Mutex<WorkerStats>>]>,
}

impl Stats {
    /// For one worker in each of `domains`, in this order.
    pub(crate) fn new(domains: impl Iterator<Item = DomainId>) -> Self {
        let nothing = |domain| WorkerStats {
            domain,
            tables: FxHashMap::default(),
            in_use: Vec::new(),
            retired: Served::default(),
            steals: Steals::default(),
            wait: Latencies::new(),
            service: Latencies::new(),
            occupied: false,
            busy: Duration::ZERO,
        };
        Self {
            workers: domains
                .map(|domain| CachePadded::new(Mutex::new(nothing(domain))))
                .collect(),
        }
    }

    pub(crate) fn of(&self, worker: usize) -> &Mutex<WorkerStats> {
        &self.workers[worker]
    }

    /// A copy of every worker's.
    pub(crate) fn copy(&self) -> Vec<WorkerStats> {
        let copy = |stats: &CachePadded<Mutex<WorkerStats>>| stats.lock().clone();
        self.workers.iter().map(copy).collect()
    }

    /// What the tables used on each domain since the last call; each worker's bytes in that time, and the time it has been busy in
    /// all.
    pub(crate) fn drain_used(
        &self,
        mut each: impl FnMut(DomainId, TableId, TableUsage),
    ) -> Vec<(Duration, u64)> {
        self.workers
            .iter()
            .map(|stats| {
                let (domain, used, busy) = {
                    let stats = &mut *stats.lock();
                    let tables = &mut stats.tables;
                    let take = |table| {
                        let stats: &mut TableStats = tables.get_mut(&table)?;
                        stats.is_in_use = false;
                        Some((table, std::mem::take(&mut stats.used)))
                    };
                    let used: Vec<_> = stats.in_use.drain(..).filter_map(take).collect();
                    (stats.domain, used, stats.busy)
                };
                let mut bytes = 0;
                for (table, used) in used {
                    bytes += used.bytes;
                    each(domain, table, used);
                }
                (busy, bytes)
            })
            .collect()
    }

    /// Moves a removed table's counts to the retired ones.
    pub(crate) fn retire(&self, table: TableId) {
        for stats in &self.workers {
            let mut stats = stats.lock();
            if let Some(table) = stats.tables.remove(&table) {
                stats.retired.absorb(table.served);
            }
        }
    }
}

impl WorkerStats {
    pub(crate) fn started(&mut self, table: TableId, rung: Rung, weight: u64) {
        self.of(table).served.started += weight;
        self.steals.count(rung);
        self.occupied = true;
    }

    pub(crate) fn unit_started(&mut self, rung: Rung) {
        self.steals.count(rung);
        self.occupied = true;
    }

    /// It merges what the units of a query have found.
    pub(crate) fn merging(&mut self) {
        self.occupied = true;
    }

    /// A task that had ended before it was taken from its queue.
    pub(crate) fn found_ended(&mut self, table: TableId, end: End, weight: u64) {
        let stats = self.of(table);
        stats.served.unstarted += weight;
        stats.served.count_many(end, weight);
        if end == End::Expired {
            stats.used.missed += weight;
        }
    }

    fn of(&mut self, table: TableId) -> &mut TableStats {
        let stats = self.tables.entry(table).or_default();
        if !std::mem::replace(&mut stats.is_in_use, true) {
            self.in_use.push(table);
        }
        stats
    }

    /// Tasks that started together have ended: one, or the queries of a batch's part. Of what they used this worker has
    /// not counted `bytes`, and the time for which it was `busy`.
    pub(crate) fn ended(
        &mut self,
        entry: &TableEntry,
        ends: Served,
        (wait, service): (Duration, Duration),
        (bytes, busy): (u64, Duration),
    ) {
        let stats = self.of(entry.id);
        stats.served.absorb(ends);
        stats.used.ran += ends.ended();
        stats.used.use_more(bytes, busy);
        self.time(entry, ends.ended(), wait, service);
        self.pause(busy);
    }

    /// A task that was not begun, because it came up too late to be answered: its table asked for it in vain.
    pub(crate) fn passed_over(&mut self, entry: &TableEntry, end: End, wait: Duration) {
        let stats = self.of(entry.id);
        stats.served.count(end);
        stats.used.missed += u64::from(end == End::Expired);
        self.time(entry, 1, wait, Duration::ZERO);
        self.occupied = false;
    }

    fn time(&mut self, entry: &TableEntry, tasks: u64, wait: Duration, service: Duration) {
        self.wait.record_many(wait, tasks);
        self.service.record_many(service, tasks);
        entry.state.record(self.domain, wait, service, tasks);
    }

    /// This worker's part of a task or unit is over.
    pub(crate) fn worked(&mut self, table: TableId, bytes: u64, busy: Duration) {
        self.of(table).used.use_more(bytes, busy);
        self.pause(busy);
    }

    /// It is on no task any more, after it has been `busy` with one.
    fn pause(&mut self, busy: Duration) {
        self.occupied = false;
        self.busy += busy;
    }
}
