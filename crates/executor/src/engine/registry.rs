//! The tables of an executor, found by id without a lock.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::{Homes, TableId};
use chiplet_topology::DomainId;

use super::timer::Timer;
use crate::latencies::{CompactLatencies, Latencies};
use crate::scheduler::Pace;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, Step, Swap, left_out};
use crate::table::Table;

/// A table and what the executor keeps for it. Tasks refer to it, so they end on the index that they were submitted to:
/// another index comes with another entry of the same id ([`Registry::replace`]).
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    pub(crate) name: Arc<str>,
    /// `None` for a table that only closures search.
    pub(crate) table: Option<Arc<dyn Table>>,
    /// What all entries of this id share.
    pub(crate) state: Arc<TableState>,
    /// The executor's. It is found here by tickets: a task refers to its entry already, and nobody counts references to
    /// the timer task by task.
    pub(crate) timer: Arc<Timer>,
}

/// What stays when a table gets another index. Homes that a remap stores are those of every entry at once.
pub(crate) struct TableState {
    pub(crate) homes: Swap<Homes>,
    turn: AtomicU32,
    /// Whether it asks for more than its share of its home's time. Written when that changes.
    over_share: AtomicBool,
    /// Workers that the last query that could be split had work for.
    pub(crate) last_units: AtomicU32,
    /// Made at the first answer, so that an idle table costs nothing.
    latencies: Mutex<Option<Box<TableLatencies>>>,
}

struct TableLatencies {
    wait: CompactLatencies,
    service: CompactLatencies,
}

impl TableEntry {
    /// Whether only the caller's reference is left, so that no task or submit of this index can come to anything yet.
    pub(crate) fn is_left(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// Whether no task or submit is left of any index that the table ever had.
    pub(crate) fn is_all_that_is_left(self: &Arc<Self>) -> bool {
        let others = Arc::strong_count(&self.state) > 1 && !left_out(Step::RetireWaitsForReplaced);
        self.is_left() && !others
    }
}

impl TableState {
    /// The home for the next task, and another one of a table that has several: the caller takes the one where it waits
    /// less. Homes take turns in proportion to their weights.
    pub(crate) fn next_homes(&self) -> (DomainId, Option<DomainId>) {
        let homes = self.homes.load();
        if homes.len() == 1 {
            return (homes.pick(0), None);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let first = homes.pick(turn);
        // The next turn's home mostly is another one: turns are spread over the weights.
        let second = homes.pick(turn.wrapping_add(1));
        (first, (second != first).then_some(second))
    }

    /// Takes note of how fast its tasks come.
    pub(crate) fn note(&self, pace: Pace) {
        let over_share = pace == Pace::OverShare;
        if self.is_over_share() != over_share {
            self.over_share.store(over_share, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_over_share(&self) -> bool {
        self.over_share.load(Ordering::Relaxed)
    }

    pub(crate) fn record(&self, wait: Duration, service: Duration, tasks: u64) {
        let mut latencies = self.latencies.lock();
        let latencies = latencies.get_or_insert_with(|| {
            Box::new(TableLatencies {
                wait: CompactLatencies::new(),
                service: CompactLatencies::new(),
            })
        });
        latencies.wait.record_many(wait, tasks);
        latencies.service.record_many(service, tasks);
    }

    /// Wait and service time.
    pub(crate) fn latencies(&self) -> (Latencies, Latencies) {
        match &*self.latencies.lock() {
            Some(latencies) => (latencies.wait.expand(), latencies.service.expand()),
            None => (
                CompactLatencies::new().expand(),
                CompactLatencies::new().expand(),
            ),
        }
    }
}

/// A generation that no table of this process has, from 1 on. After 2^32 - 1 tables it starts over: an id that old would
/// then have to be of the same slot to be taken for another table's. A plain static and not one of `crate::sync`: it
/// outlives every executor, and nothing waits for it.
fn next_generation() -> u32 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let tables = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    (tables % u64::from(u32::MAX)) as u32 + 1
}

type Slot = Swap<Option<Arc<TableEntry>>>;

/// Table entries by slot. Slots are reused; the generation in the id tells a table from its successor, and from the
/// tables of other executors.
pub(crate) struct Registry {
    slots: boxcar::Vec<Slot>,
    free: Mutex<Vec<u32>>,
    timer: Arc<Timer>,
}

impl Registry {
    pub(crate) fn new(timer: Arc<Timer>) -> Self {
        Self {
            slots: boxcar::Vec::new(),
            free: Mutex::new(Vec::new()),
            timer,
        }
    }

    /// Reserves an id. The entry is not found until [`Registry::publish`].
    pub(crate) fn reserve(&self) -> TableId {
        let freed = self.free.lock().pop();
        let slot = freed.unwrap_or_else(|| self.slots.push(Slot::new(None)) as u32);
        TableId {
            slot,
            generation: next_generation(),
        }
    }

    pub(crate) fn publish(
        &self,
        id: TableId,
        name: Arc<str>,
        table: Option<Arc<dyn Table>>,
        homes: Homes,
    ) {
        let entry = Arc::new(TableEntry {
            id,
            name,
            table,
            state: Arc::new(TableState {
                homes: Swap::new(homes),
                turn: AtomicU32::new(0),
                over_share: AtomicBool::new(false),
                last_units: AtomicU32::new(0),
                latencies: Mutex::new(None),
            }),
            timer: Arc::clone(&self.timer),
        });
        self.slots[id.slot as usize].store(Some(entry));
    }

    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableEntry>> {
        let slot = self.slots.get(id.slot as usize)?.load();
        slot.as_ref()
            .as_ref()
            .filter(|entry| entry.id == id)
            .cloned()
    }

    /// Puts another index behind an id. Returns the entry of the one before, which lives on in the tasks that refer to
    /// it; `None` if there is no such table or only closures search it.
    pub(crate) fn replace(&self, id: TableId, table: &Arc<dyn Table>) -> Option<Arc<TableEntry>> {
        // As in `remove`: an id that is removed meanwhile must not come back.
        let _changes = self.free.lock();
        let before = self.find(id)?;
        before.table.as_ref()?;
        let entry = Arc::new(TableEntry {
            id,
            name: Arc::clone(&before.name),
            table: Some(Arc::clone(table)),
            state: Arc::clone(&before.state),
            timer: Arc::clone(&before.timer),
        });
        self.slots[id.slot as usize].store(Some(entry));
        Some(before)
    }

    /// Takes a table out; its entry lives on in the tasks that refer to it.
    pub(crate) fn remove(&self, id: TableId) -> Option<Arc<TableEntry>> {
        // The free list's lock makes removals of one slot take turns.
        let mut free = self.free.lock();
        let entry = self.find(id)?;
        self.slots[id.slot as usize].store(None);
        free.push(id.slot);
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<TableEntry>> + '_ {
        self.slots
            .iter()
            .filter_map(|(_, slot)| slot.load().as_ref().clone())
    }
}
