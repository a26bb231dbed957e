//! What each worker did, each worker's under a lock of its own that only a snapshot ever contends for.
//!
//! Every count changes under exactly one worker's lock (or, for arrivals, one inbox's). A snapshot reads them one after
//! the other and stops nobody: the workers' first, then the inboxes'. A task that moves on meanwhile is seen at an earlier
//! step than it has reached, never at two, so counts add up. The order of locks is: balancer, one inbox or one worker's,
//! one table's latencies.

use std::time::Duration;

use chiplet_policy::{Rung, TableId};
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
    pub(crate) tables: FxHashMap<TableId, Served>,
    /// Tables that were removed.
    pub(crate) retired: Served,
    pub(crate) steals: Steals,
    pub(crate) wait: Latencies,
    pub(crate) service: Latencies,
    /// Whether the worker is on a task or scan unit now.
    pub(crate) occupied: bool,
    /// Time spent on tasks and scan units.
    pub(crate) busy: Duration,
    /// Bytes read for each table since the balancer last asked.
    traffic: FxHashMap<TableId, u64>,
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
            retired: Served::default(),
            steals: Steals::default(),
            wait: Latencies::new(),
            service: Latencies::new(),
            occupied: false,
            busy: Duration::ZERO,
            traffic: FxHashMap::default(),
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

    /// The traffic since the last call, and the time each worker has been busy in all.
    pub(crate) fn drain_traffic(&self, mut each: impl FnMut(TableId, u64)) -> Vec<(Duration, u64)> {
        self.workers
            .iter()
            .map(|stats| {
                let (traffic, busy) = {
                    let mut stats = stats.lock();
                    (std::mem::take(&mut stats.traffic), stats.busy)
                };
                let mut bytes = 0;
                for (table, table_bytes) in traffic {
                    bytes += table_bytes;
                    each(table, table_bytes);
                }
                (busy, bytes)
            })
            .collect()
    }

    /// Moves a removed table's counts to the retired ones.
    pub(crate) fn retire(&self, table: TableId) {
        for stats in &self.workers {
            let mut stats = stats.lock();
            if let Some(served) = stats.tables.remove(&table) {
                stats.retired.absorb(served);
            }
            stats.traffic.remove(&table);
        }
    }
}

impl WorkerStats {
    pub(crate) fn started(&mut self, table: TableId, rung: Rung, weight: u64) {
        self.tables.entry(table).or_default().started += weight;
        self.steals.count(rung);
        self.occupied = true;
    }

    pub(crate) fn unit_started(&mut self, rung: Rung) {
        self.steals.count(rung);
        self.occupied = true;
    }

    /// A task that had ended before it was taken from its queue.
    pub(crate) fn found_ended(&mut self, table: TableId, end: End, weight: u64) {
        let served = self.tables.entry(table).or_default();
        served.unstarted += weight;
        served.count_many(end, weight);
    }

    pub(crate) fn ended(
        &mut self,
        entry: &TableEntry,
        end: End,
        wait: Duration,
        service: Duration,
    ) {
        let mut ends = Served::default();
        ends.count(end);
        self.ended_many(entry, ends, wait, service);
    }

    /// As [`WorkerStats::ended`], for the queries of a batch's part: they started together, and their answers came together.
    pub(crate) fn ended_many(
        &mut self,
        entry: &TableEntry,
        ends: Served,
        wait: Duration,
        service: Duration,
    ) {
        self.tables.entry(entry.id).or_default().absorb(ends);
        self.wait.record_many(wait, ends.ended());
        self.service.record_many(service, ends.ended());
        let tasks = ends.ended();
        entry.state.record(self.domain, wait, service, tasks);
    }

    /// This worker's part of a task or unit is over.
    pub(crate) fn worked(&mut self, table: TableId, bytes: u64, busy: Duration) {
        self.occupied = false;
        self.busy += busy;
        if bytes > 0 {
            *self.traffic.entry(table).or_default() += bytes;
        }
    }
}
