//! The tables of an executor, found by id without a lock.
//!
//! Nothing here is written by every query of a table from wherever it is: tasks count their references in shares
//! ([`EntryRef`]).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Homes, MemoryChange, MemoryStep, TableId, Time};
use chiplet_topology::DomainId;

use chiplet_table::Table;
use chiplet_table::host::contain;

use super::current;
use super::deadline::Timer;
use crate::error::TableError;
use crate::options::{KeptOptions, TableOptions};
use crate::scheduler::{FreeCores, Pace};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, OnceLock, Step, Swap, left_out};

/// Shares of a table's references, at most. Each takes two cache lines.
const SHARES: usize = 8;

/// A table and what the executor keeps for it. Tasks refer to it, so they end on the index that they were submitted to:
/// another index comes with another entry of the same id ([`Registry::replace`]).
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    pub(crate) name: Arc<str>,
    pub(crate) index: Index,
    /// What all entries of this id share.
    pub(crate) state: Arc<TableState>,
    /// Found here by tickets: a task refers to its entry already, and nobody counts references to the executor's parts
    /// task by task.
    pub(crate) common: Arc<Common>,
}

/// What all tasks of an executor know of it.
pub(crate) struct Common {
    pub(crate) executor: u64,
    pub(crate) timer: Arc<Timer>,
    pub(crate) cores: Arc<FreeCores>,
    /// Deadlines are counted from here, by the system's clock.
    pub(crate) began: Instant,
    /// Domains of the machine.
    pub(crate) domains: usize,
}

impl Common {
    /// A deadline as a task keeps it, in half of an [`Instant`]'s bytes; the end of all time for none.
    #[inline]
    pub(crate) fn expiry(&self, deadline: Option<Instant>) -> Time {
        deadline.map_or(Time::MAX, |at| {
            Time::ZERO + at.saturating_duration_since(self.began)
        })
    }
}

impl Drop for TableEntry {
    /// The index's destructor is the caller's code. Whoever lets go of the table last, be it the executor that goes
    /// with many of them, gets no panic of it.
    fn drop(&mut self) {
        let Index { main, copies } = std::mem::take(&mut self.index);
        for placed in main.into_iter().chain(copies) {
            contain(|| drop(placed));
        }
    }
}

/// A table's index and the copies of it, which answer alike; none for a table that only closures search.
#[derive(Clone, Default)]
pub(crate) struct Index {
    main: Option<Placed>,
    /// Where the table has homes on several sockets.
    copies: Vec<Placed>,
}

/// An index in its memory.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) table: Arc<dyn Table>,
    /// Its size.
    pub(crate) bytes: u64,
    /// The NUMA nodes that hold it, each with how many bytes, where nodes matter.
    pub(crate) residence: Vec<(u32, u64)>,
    /// The package that is near these.
    pub(crate) package: Option<u32>,
}

impl Index {
    /// One, without copies.
    pub(crate) fn new(placed: Placed) -> Self {
        Self {
            main: Some(placed),
            copies: Vec::new(),
        }
    }

    /// The one that copies are made of.
    pub(crate) fn main(&self) -> Option<&Placed> {
        self.main.as_ref()
    }

    /// Whether `main` is its main one.
    pub(crate) fn is_of(&self, main: &Placed) -> bool {
        self.main()
            .is_some_and(|own| Arc::ptr_eq(&own.table, &main.table))
    }

    /// The one that workers of `package` search.
    #[inline]
    pub(crate) fn nearest(&self, package: u32) -> Option<&Arc<dyn Table>> {
        let near = match self.copies.is_empty() {
            true => None,
            false => self.iter().find(|placed| placed.package == Some(package)),
        };
        near.or(self.main()).map(|placed| &placed.table)
    }

    /// All of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Placed> {
        self.main.iter().chain(&self.copies)
    }

    /// Bytes on each NUMA node, all copies together.
    pub(crate) fn residence(&self) -> Vec<(u32, u64)> {
        let mut all = BTreeMap::new();
        for &(node, bytes) in self.iter().flat_map(|placed| &placed.residence) {
            *all.entry(node).or_insert(0) += bytes;
        }
        all.into_iter().collect()
    }

    /// What it is after `step`, for which `copy` was made if it needs one; `None` if the step is not possible any more.
    pub(crate) fn after(&self, step: MemoryStep, copy: Option<Placed>) -> Option<Self> {
        let stays = |placed: &&Placed| match step.change {
            MemoryChange::Move => false,
            MemoryChange::Copy => true,
            MemoryChange::Drop => placed.package != Some(step.package),
        };
        let mut all = self.iter().filter(stays).cloned().chain(copy);
        Some(Self {
            main: Some(all.next()?),
            copies: all.collect(),
        })
    }
}

/// What stays when a table gets another index. Homes that a remap stores are those of every entry at once.
pub(crate) struct TableState {
    pub(crate) homes: KeptHomes,
    /// Whether it is backlogged at home. Written when that changes.
    is_backlogged: AtomicBool,
    pub(crate) options: KeptOptions,
    /// Workers that the last query that could be split had work for.
    pub(crate) last_units: AtomicU32,
    /// A home's group, and where that one's queue keeps the table, each in half of the bits; or [`UNPLACED`].
    place: AtomicU64,
}

/// No queue has told yet where it keeps a table.
const UNPLACED: u64 = u64::MAX;

/// Where a table lives: read with every submit, written by a remap.
pub(crate) struct KeptHomes {
    all: Swap<Homes>,
    /// The one domain, or [`SEVERAL`]. Tables mostly have one, and it is read in a fraction of the time.
    only: AtomicU32,
}

/// No domain has this number.
const SEVERAL: u32 = u32::MAX;

impl KeptHomes {
    fn new(homes: Homes) -> Self {
        Self {
            only: AtomicU32::new(Self::only_of(&homes)),
            all: Swap::new(homes),
        }
    }

    fn only_of(homes: &Homes) -> u32 {
        match homes.len() {
            1 => homes.main().domain.0,
            _ => SEVERAL,
        }
    }

    /// A submit that comes meanwhile goes to an old home or to a new one.
    pub(crate) fn store(&self, homes: Homes) {
        let only = Self::only_of(&homes);
        self.all.store(homes);
        self.only.store(only, Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> Homes {
        Homes::clone(&self.all.load())
    }

    pub(crate) fn contains(&self, domain: DomainId) -> bool {
        self.all.load().contains(domain)
    }
}

/// A task's reference to its table.
///
/// Counting references in one place would be a line that each submit and each answer of the table writes, from every
/// core there is. So the threads that submit count in several shares, at first in one.
#[derive(Clone)]
pub(crate) struct EntryRef(Arc<Share>);

/// Aligned to a cache line, so that its count of references shares none.
#[repr(align(64))]
struct Share(Arc<TableEntry>);

impl Deref for EntryRef {
    type Target = TableEntry;

    fn deref(&self) -> &TableEntry {
        &self.0.0
    }
}

/// An entry as the registry lists it, with all references to it.
pub(crate) struct Listing {
    pub(crate) entry: Arc<TableEntry>,
    first: Arc<Share>,
    /// The others, once the table is in use. Not made by a submit, which could not say that memory is short.
    others: OnceLock<Box<[Arc<Share>]>>,
}

impl Listing {
    fn new(entry: TableEntry) -> Arc<Self> {
        let entry = Arc::new(entry);
        Arc::new(Self {
            first: Arc::new(Share(Arc::clone(&entry))),
            others: OnceLock::new(),
            entry,
        })
    }

    /// A reference for a task, counted in the calling thread's share.
    #[inline]
    fn refer(&self) -> EntryRef {
        let others = self.others.get().map_or(&[][..], |others| others);
        let share = match others.len() {
            0 => None,
            others_len => others.get(current::number() % (others_len + 1)),
        };
        EntryRef(Arc::clone(share.unwrap_or(&self.first)))
    }

    /// The table is in use: from now on there are as many shares as domains, at most [`SHARES`].
    fn use_more_shares(&self) {
        let shares = self.entry.common.domains.clamp(1, SHARES);
        let share = |_| Arc::new(Share(Arc::clone(&self.entry)));
        self.others.get_or_init(|| (1..shares).map(share).collect());
    }

    /// Whether only the caller's reference is left, so that no task or submit of this index can come to anything yet.
    /// The listing must have been taken out of its slot.
    pub(crate) fn has_no_users(self: &Arc<Self>) -> bool {
        // Whoever looks into the slot holds the listing until it has counted its task.
        let others = self.others.get().into_iter().flatten();
        let mut shares = others.chain([&self.first]);
        let left =
            Arc::strong_count(self) == 1 && shares.all(|share| Arc::strong_count(share) == 1);
        // What those who have let go did before is to be seen by the caller.
        fence(Ordering::Acquire);
        left
    }

    /// Whether no task or submit is left of any index that the table ever had.
    pub(crate) fn has_no_users_and_is_the_last(self: &Arc<Self>) -> bool {
        let state = &self.entry.state;
        let others = Arc::strong_count(state) > 1 && !left_out(Step::RetireWaitsForReplaced);
        self.has_no_users() && !others
    }
}

impl TableState {
    /// The home for the next task, and another one of a table that has several: the caller takes the one where it waits
    /// less. Homes are chosen by `draw`, a number as good as random, in proportion to their weights.
    #[inline]
    pub(crate) fn next_homes(&self, draw: u32) -> (DomainId, Option<DomainId>) {
        let only = self.homes.only.load(Ordering::Relaxed);
        if only != SEVERAL {
            return (DomainId(only), None);
        }
        let homes = self.homes.all.load();
        let first = homes.pick(draw);
        // The next number's home mostly is another one: numbers are spread over the weights.
        let second = homes.pick(draw.wrapping_add(1));
        (first, (second != first).then_some(second))
    }

    /// Where the queue of `group` keeps the table, if that is known here.
    #[inline]
    pub(crate) fn place_in(&self, group: usize) -> Option<u32> {
        let place = self.place.load(Ordering::Relaxed);
        (place >> 32 == group as u64 && place != UNPLACED).then_some(place as u32)
    }

    /// Takes note of where the queue of `group` keeps the table. Of several homes one is known: `is_home` says which
    /// groups are homes.
    #[cold]
    pub(crate) fn keep_place(&self, group: usize, place: u32, is_home: impl Fn(usize) -> bool) {
        let known = self.place.load(Ordering::Relaxed);
        if known == UNPLACED || !is_home((known >> 32) as usize) {
            let place = (group as u64) << 32 | u64::from(place);
            self.place.store(place, Ordering::Relaxed);
        }
    }

    /// Takes note of how fast its tasks come.
    pub(crate) fn note(&self, pace: Pace) {
        if self.pace() != pace {
            let is_backlogged = pace == Pace::Backlogged;
            self.is_backlogged.store(is_backlogged, Ordering::Relaxed);
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        match self.is_backlogged.load(Ordering::Relaxed) {
            true => Pace::Backlogged,
            false => Pace::Within,
        }
    }
}

/// A generation that no table of this process has, from 1 on. After 2^32 - 1 tables it starts over: an id that old
/// would then have to be of the same slot to be taken for another table's. A plain static and not one of `crate::sync`:
/// it outlives every executor, and nothing waits for it.
fn next_generation() -> u32 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let tables = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    (tables % u64::from(u32::MAX)) as u32 + 1
}

type Slot = Swap<Option<Arc<Listing>>>;

/// Table entries by slot. Slots are reused; the generation in the id tells a table from its successor, and from the
/// tables of other executors.
pub(crate) struct Registry {
    slots: boxcar::Vec<Slot>,
    free: Mutex<Vec<u32>>,
    common: Arc<Common>,
}

impl Registry {
    pub(crate) fn new(common: Common) -> Self {
        Self {
            common: Arc::new(common),
            slots: boxcar::Vec::new(),
            free: Mutex::new(Vec::new()),
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
        index: Index,
        options: TableOptions,
        homes: Homes,
    ) {
        let state = TableState {
            homes: KeptHomes::new(homes),
            is_backlogged: AtomicBool::new(false),
            options: KeptOptions::new(options),
            last_units: AtomicU32::new(0),
            place: AtomicU64::new(UNPLACED),
        };
        self.list(id, name, index, Arc::new(state));
    }

    fn list(&self, id: TableId, name: Arc<str>, index: Index, state: Arc<TableState>) {
        let listing = Listing::new(TableEntry {
            id,
            name,
            index,
            state,
            common: Arc::clone(&self.common),
        });
        self.slots[id.slot as usize].store(Some(listing));
    }

    /// A task's reference to a table.
    #[inline]
    pub(crate) fn refer(&self, id: TableId) -> Option<EntryRef> {
        self.look(id, |listing| listing.refer())
    }

    /// A table is in use.
    pub(crate) fn use_more_shares(&self, id: TableId) {
        self.look(id, |listing| listing.use_more_shares());
    }

    /// A table, for whoever looks at it now and then.
    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableEntry>> {
        self.look(id, |listing| Arc::clone(&listing.entry))
    }

    #[inline(always)]
    fn look<R>(&self, id: TableId, with: impl FnOnce(&Arc<Listing>) -> R) -> Option<R> {
        let slot = self.slots.get(id.slot as usize)?.load();
        let listing = slot.as_ref().as_ref();
        listing.filter(|listing| listing.entry.id == id).map(with)
    }

    /// Puts another index behind an id, as `change` makes it of the one before. Returns the listing of that, which
    /// lives on in the tasks that refer to it.
    pub(crate) fn replace(
        &self,
        id: TableId,
        change: impl FnOnce(&Index) -> Result<Index, TableError>,
    ) -> Result<Arc<Listing>, TableError> {
        // As in `remove`: an id that is removed meanwhile must not come back.
        let _changes = self.free.lock();
        let before = self.look(id, Arc::clone).ok_or(TableError::Unknown)?;
        let entry = &before.entry;
        let index = change(&entry.index)?;
        self.list(id, Arc::clone(&entry.name), index, Arc::clone(&entry.state));
        Ok(before)
    }

    /// Takes a table out; its listing lives on in the tasks that refer to it.
    pub(crate) fn remove(&self, id: TableId) -> Option<Arc<Listing>> {
        // The free list's lock makes removals of one slot take turns.
        let _changes = self.free.lock();
        let listing = self.look(id, Arc::clone)?;
        self.slots[id.slot as usize].store(None);
        Some(listing)
    }

    /// Nothing counts a removed table any more: another one may have its slot.
    pub(crate) fn release(&self, id: TableId) {
        self.free.lock().push(id.slot);
    }
}
