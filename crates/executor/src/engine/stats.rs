//! What each worker did, each worker's under a lock of its own that only readers contend for: snapshots and the
//! balancer.
//!
//! Every count changes under exactly one worker's lock (or, for arrivals, one group's). A snapshot reads them one after
//! the other, in small steps: the workers' first, then the groups'. A task that moves on meanwhile is seen at an
//! earlier step than it has reached, never at two, so counts add up. The order of locks is: counters, balancer, one
//! group's or one worker's, one table's latencies.

use std::time::Duration;

use chiplet_policy::{StealLevel, TableId, Usage};
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;
use rustc_hash::FxHashMap;

use super::registry::TableEntry;
use crate::counts::{End, Served, Steals, TABLES_AT_ONCE};
use crate::latencies::Latencies;
use crate::sync::Mutex;

/// What one worker did.
pub(crate) struct WorkerStats {
    /// Where it works.
    domain: DomainId,
    /// Of each table, in no order; a list, so that a reader can go through it in steps.
    rows: Vec<TableStats>,
    /// Where in the list a table stands.
    places: FxHashMap<TableId, usize>,
    /// Those that have been used since the balancer last asked, which may be few of very many.
    in_use: Vec<TableId>,
    /// Tables that were removed.
    retired: Served,
    steals: Steals,
    wait: Latencies,
    service: Latencies,
    /// Whether the worker is on a task or scan unit now.
    pub(crate) occupied: bool,
    /// Time spent on tasks and scan units.
    busy: Duration,
}

/// What one worker did for one table.
#[derive(Clone, Copy)]
struct TableStats {
    table: TableId,
    served: Served,
    /// Since the balancer last asked.
    used: Usage,
    is_in_use: bool,
}

/// What one worker did, as it was read.
pub(crate) struct WorkerCounts {
    pub(crate) tables: Vec<(TableId, Served)>,
    pub(crate) retired: Served,
    pub(crate) steals: Steals,
    pub(crate) wait: Latencies,
    pub(crate) service: Latencies,
    pub(crate) occupied: bool,
    pub(crate) busy: Duration,
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
            rows: Vec::new(),
            places: FxHashMap::default(),
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

    /// What every worker did. No table may be retired meanwhile.
    pub(crate) fn read(&self) -> Vec<WorkerCounts> {
        let workers = self.workers.iter();
        workers.map(|stats| read(stats, || ())).collect()
    }

    /// What the tables used on each domain since the last call; each worker's bytes in that time, and the time it has
    /// been busy in all. No table may be retired meanwhile.
    pub(crate) fn drain_used(
        &self,
        mut each: impl FnMut(DomainId, TableId, Usage),
    ) -> Vec<(Duration, u64)> {
        let mut in_use = Vec::new();
        let mut some = Vec::with_capacity(TABLES_AT_ONCE);
        let mut drain = |stats: &CachePadded<Mutex<WorkerStats>>| {
            let mut bytes = 0;
            let (domain, busy) = {
                let mut stats = stats.lock();
                std::mem::swap(&mut stats.in_use, &mut in_use);
                (stats.domain, stats.busy)
            };
            // A table that is used meanwhile is in this list already until it has been taken.
            for tables in in_use.chunks(TABLES_AT_ONCE) {
                {
                    let mut stats = stats.lock();
                    some.extend(tables.iter().filter_map(|&table| stats.take_used(table)));
                }
                for (table, used) in some.drain(..) {
                    bytes += used.bytes;
                    each(domain, table, used);
                }
            }
            in_use.clear();
            (busy, bytes)
        };
        self.workers.iter().map(&mut drain).collect()
    }

    /// Moves a removed table's counts to the retired ones.
    pub(crate) fn retire(&self, table: TableId) {
        for stats in &self.workers {
            stats.lock().retire(table);
        }
    }
}

/// What a worker did, read in steps: the worker waits for one of them at most. `between` is called after each, without
/// the lock.
///
/// Tables come first, which count a task's beginning and its end together; then the histograms, which may have more.
fn read(stats: &Mutex<WorkerStats>, mut between: impl FnMut()) -> WorkerCounts {
    let mut tables = Vec::new();
    // Room for more is made without the lock.
    let mut some = Vec::with_capacity(TABLES_AT_ONCE);
    loop {
        {
            let stats = stats.lock();
            let rows = stats.rows.iter().skip(tables.len());
            let counts = rows.map(|row| (row.table, row.served));
            some.extend(counts.take(TABLES_AT_ONCE));
        }
        between();
        let is_last = some.len() < TABLES_AT_ONCE;
        tables.append(&mut some);
        if is_last {
            break;
        }
    }
    let wait = stats.lock().wait.clone();
    between();
    let stats = stats.lock();
    WorkerCounts {
        tables,
        retired: stats.retired,
        steals: stats.steals,
        wait,
        service: stats.service.clone(),
        occupied: stats.occupied,
        busy: stats.busy,
    }
}

impl WorkerStats {
    pub(crate) fn started(&mut self, table: TableId, level: StealLevel, weight: u64) {
        self.of(table).served.started += weight;
        self.steals.count(level);
        self.occupied = true;
    }

    pub(crate) fn unit_started(&mut self, level: StealLevel) {
        self.steals.count(level);
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
    }

    fn of(&mut self, table: TableId) -> &mut TableStats {
        let rows = &mut self.rows;
        let place = *self.places.entry(table).or_insert_with(|| {
            rows.push(TableStats {
                table,
                served: Served::default(),
                used: Usage::default(),
                is_in_use: false,
            });
            rows.len() - 1
        });
        let stats = &mut rows[place];
        if !std::mem::replace(&mut stats.is_in_use, true) {
            self.in_use.push(table);
        }
        stats
    }

    /// What was used of `table` since this was last asked.
    fn take_used(&mut self, table: TableId) -> Option<(TableId, Usage)> {
        let stats = &mut self.rows[*self.places.get(&table)?];
        stats.is_in_use = false;
        Some((table, std::mem::take(&mut stats.used)))
    }

    fn retire(&mut self, table: TableId) {
        let Some(place) = self.places.remove(&table) else {
            return;
        };
        let gone = self.rows.swap_remove(place);
        self.retired.absorb(gone.served);
        if let Some(moved) = self.rows.get(place) {
            self.places.insert(moved.table, place);
        }
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
        stats.used += Usage { busy, bytes };
        self.time(entry, ends.ended(), wait, service);
        self.pause(busy);
    }

    /// A task that was not begun, because it came up too late to be answered: its table asked for it in vain.
    pub(crate) fn passed_over(&mut self, entry: &TableEntry, end: End, wait: Duration) {
        let stats = self.of(entry.id);
        stats.served.count(end);
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
        self.of(table).used += Usage { busy, bytes };
        self.pause(busy);
    }

    /// It is on no task any more, after it has been `busy` with one.
    fn pause(&mut self, busy: Duration) {
        self.occupied = false;
        self.busy += busy;
    }
}

// Not under a model checker: its locks belong to a running model.
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use super::*;

    fn table(slot: u32) -> TableId {
        let generation = 1;
        TableId { slot, generation }
    }

    fn stats(tables: u32) -> Stats {
        let stats = Stats::new([DomainId(0)].into_iter());
        let mut worker = stats.of(0).lock();
        (0..tables).for_each(|slot| worker.started(table(slot), StealLevel::Own, 1));
        drop(worker);
        stats
    }

    /// However many tables there are, a worker gets its statistics after each small step of a reader.
    #[test]
    fn a_reader_holds_a_worker_up_for_one_small_step_at_most() {
        let count = 10 * TABLES_AT_ONCE as u32 + 3;
        let stats = stats(count);
        let mut turns = 0;
        let counts = read(stats.of(0), || {
            // It would wait for ever if the reader held the lock. It goes on with tables read already, others, and new
            // ones.
            let mut worker = stats.of(0).lock();
            for slot in [0, count - 1, count + turns] {
                worker.found_ended(table(slot), End::Expired, 1);
            }
            turns += 1;
        });
        // Some tables were new; then there was a turn for one histogram.
        let steps = (counts.tables.len()).div_ceil(TABLES_AT_ONCE) as u32;
        assert!(
            (steps..=steps + 2).contains(&turns),
            "{turns} turns for {steps} steps"
        );
        assert!(counts.tables.len() >= count as usize);
        let mut seen: Vec<_> = counts.tables.iter().map(|(table, _)| table.slot).collect();
        seen.dedup();
        assert!(
            seen.is_sorted() && seen.len() == counts.tables.len(),
            "each once"
        );
        let of = |slot: usize| counts.tables[slot].1;
        assert_eq!(of(0).ended(), 0, "it was read before");
        assert!(of(count as usize - 1).ended() > 0, "it was read after");
    }

    #[test]
    fn use_is_drained_once_and_what_is_retired_stays_counted() {
        let count = 3 * TABLES_AT_ONCE as u32;
        let stats = stats(count);
        stats
            .of(0)
            .lock()
            .worked(table(1), 7, Duration::from_secs(1));
        let drain = || {
            let mut used = Vec::new();
            let worked = stats.drain_used(|_, table, usage| used.push((table.slot, usage.bytes)));
            (used, worked)
        };
        let (used, worked) = drain();
        assert_eq!(used.len(), count as usize);
        assert_eq!(used.iter().filter(|(_, bytes)| *bytes > 0).count(), 1);
        assert_eq!(worked, [(Duration::from_secs(1), 7)]);
        assert!(drain().0.is_empty());
        // The last takes the place of the first, and is found there.
        stats.retire(table(0));
        let last = table(count - 1);
        stats.of(0).lock().found_ended(last, End::Cancelled, 2);
        assert_eq!(drain().0, [(last.slot, 0)]);
        let counts = read(stats.of(0), || ());
        assert_eq!(counts.retired.started, 1);
        let of_last: Vec<_> = counts.tables.iter().filter(|(id, _)| *id == last).collect();
        assert_eq!(of_last.len(), 1);
        assert_eq!((of_last[0].1.started, of_last[0].1.cancelled), (1, 2));
        assert_eq!(counts.tables.len(), count as usize - 1);
    }
}
