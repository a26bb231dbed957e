//! Usage in, placements out: windows, mapper and trigger as one value.
//!
//! Its owner records what tables used and calls [`tick`](Planner::tick) with the time, say once a second. Once some
//! domain would gain if the load of the fast window lay evenly, the mapper is asked for another placement. It becomes a
//! [`Remap`] if it is a gain. [`Trigger`] says when the next remap may come. What the mapper makes of all tables is
//! taken as a whole: with it, a table that has outgrown its homes gets more, and one that no longer needs several gives
//! them up.
//!
//! [`MapperConfig::placing`] says what a gain is:
//!
//! * *By time*: the [predicted wait](crate::predicted_wait) of the changed domains, weighted by load, falls by
//!   [`min_wait`](TriggerConfig::min_wait) service times.
//! * *By traffic* (arXiv 2605.10090): the busiest domain's traffic falls by the part
//!   [`min_gain`](TriggerConfig::min_gain).
//!
//! Invariants: each change raises the placement's version by one; it holds exactly the present tables, each with a
//! home.

mod candidate;
mod memory;
mod tallies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chiplet_topology::DomainId;

use crate::{
    Balance, Demand, DomainSpec, Homes, MapperConfig, Move, PlaceBy, Placement, Rates, RemapReason,
    TableId, Time, Trigger, TriggerConfig, Usage, UsageWindows, WindowConfig, assign_homes,
};
use candidate::{Candidate, Seen, could_gain, loads};
use memory::Memories;
pub use memory::{MemoryChange, MemoryStep};
use tallies::Tallies;

/// A table that asks for more than this part of a package's cores is spread over all packages, if its memory can be
/// copied there. What is left of its package's bandwidth would not do for the tables that have the other cores.
///
/// With a half instead, in the model of two sockets (results/lab/2026-11/simulation.md), tables that ask for 0.3 to 0.5
/// of a socket kept its memory full while the other socket's was used to seven tenths.
const LARGE: f64 = 0.3;

settings! {
    /// All thresholds of a [`Planner`].
    pub struct PlannerConfig {
        /// Lengths of the two windows.
        #[doc(hidden)]
        pub windows: WindowConfig = WindowConfig::new(),
        /// How tables are placed.
        #[doc(hidden)]
        pub mapper: MapperConfig = MapperConfig::new(),
        /// When they are placed anew.
        pub trigger: TriggerConfig = TriggerConfig::new(),
    }
}

/// A change of the placement.
#[derive(Clone, Debug)]
pub struct Remap {
    /// The new placement.
    pub placement: Arc<Placement>,
    /// The tables whose homes changed, in id order.
    pub moves: Vec<Move>,
    /// Why.
    pub reason: RemapReason,
    /// How many bytes, about, lie in the old homes' caches and have to be read anew.
    pub cold_bytes: u64,
}

/// Keeps track of load and decides where tables live.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::{DomainSpec, Planner, PlannerConfig, TableId, Time, Usage};
/// use chiplet_topology::DomainId;
///
/// let domains = (0..2).map(|id| DomainSpec::new(DomainId(id), 8)).collect();
/// let mut planner = Planner::new(PlannerConfig::default(), domains);
/// let tables: Vec<TableId> = (0..4).map(|slot| TableId { slot, generation: 0 }).collect();
/// for &table in &tables {
///     planner.add_table(table, 64 << 20);
/// }
/// // Tables 0 and 2 share domain 0 and turn out to be the busy ones.
/// let remap = (1..60).find_map(|second| {
///     let now = Time::from_secs(second);
///     // Each keeps four of the domain's eight cores busy.
///     let usage = Usage { busy: Duration::from_secs(4), bytes: 400 << 20 };
///     planner.record(tables[0], now, usage);
///     planner.record(tables[2], now, usage);
///     planner.tick(now)
/// });
/// let placement = remap.expect("two hot tables on one domain are pulled apart").placement;
/// assert_ne!(placement.homes(tables[0]), placement.homes(tables[2]));
/// ```
#[derive(Clone, Debug)]
pub struct Planner {
    config: PlannerConfig,
    domains: Vec<DomainSpec>,
    windows: UsageWindows,
    trigger: Trigger,
    /// Shared with whoever asked for it; copied only if it changes while they still hold it.
    placement: Arc<Placement>,
    /// The memory of the tables placed.
    memories: Memories,
    /// Bytes that copies of it may take beyond one of each table.
    memory_budget: u64,
    /// What each domain holds, for tables still to come.
    tallies: Tallies,
    /// Tables with several homes.
    several: BTreeSet<TableId>,
    /// Looks at all tables, as a test compares.
    #[cfg(test)]
    sees_all: bool,
    /// Load that a new table is expected to bring: that of the average table so far.
    expected: f64,
    latest: Time,
}

impl Planner {
    /// A planner for these domains, without tables.
    ///
    /// # Panics
    ///
    /// If `domains` is empty: tables need a domain to live on.
    pub fn new(config: PlannerConfig, domains: Vec<DomainSpec>) -> Self {
        assert!(!domains.is_empty(), "a planner needs at least one domain");
        let config = config.trigger(config.trigger.sane());
        let by_time = config.mapper.placing == PlaceBy::Time;
        let tallies = Tallies::new(&domains, by_time);
        Self {
            windows: UsageWindows::new(config.windows),
            trigger: Trigger::new(config.trigger),
            placement: Arc::default(),
            memories: Memories::default(),
            memory_budget: 0,
            tallies,
            several: BTreeSet::new(),
            #[cfg(test)]
            sees_all: false,
            expected: 0.0,
            latest: Time::ZERO,
            config,
            domains,
        }
    }

    /// Places a new table of `size_bytes` and returns its home: the domain with the least load, as
    /// [`assign_home`](crate::assign_home) chooses it, counting an average table's load for those that came since the
    /// last tick. The version rises by one. A table that is placed already keeps its homes and the version.
    pub fn add_table(&mut self, table: TableId, size_bytes: u64) -> Homes {
        self.add_table_on(table, size_bytes, None)
    }

    /// As [`Planner::add_table`], for a table whose memory is near `package`. Where tables are placed by time, its home
    /// is there, until a remap moves it.
    pub fn add_table_on(&mut self, table: TableId, size_bytes: u64, package: Option<u32>) -> Homes {
        if let Some(homes) = self.placement.homes(table) {
            return homes.clone();
        }
        let near = package.filter(|_| self.by_time());
        let homes = self.tallies.home(near);
        self.tallies.add(&homes, self.expected, size_bytes);
        self.note_memory(table, size_bytes, package);
        Arc::make_mut(&mut self.placement).insert(table, homes.clone());
        homes
    }

    /// The home that a new table would get now, wherever its memory was.
    #[must_use]
    pub fn home_for_new(&self) -> Homes {
        self.tallies.home(None)
    }

    /// Takes a table out and forgets its load. The version rises by one, unless it was not placed.
    pub fn remove_table(&mut self, table: TableId) {
        if self.placement.homes(table).is_none() {
            return;
        }
        let load = self.balanced(table, self.latest);
        if let Some(homes) = Arc::make_mut(&mut self.placement).remove(table) {
            self.tallies
                .remove(&homes, load.slow, self.memories.remove(table));
        }
        self.windows.forget(table);
        self.several.remove(&table);
    }

    /// `table` takes `size_bytes` near `package` from now on, and there are no copies of it. New tables are placed by
    /// that; the placement and its version stay. A table that is not placed is ignored: it may have been removed
    /// meanwhile.
    pub fn set_memory(&mut self, table: TableId, size_bytes: u64, package: Option<u32>) {
        let Some(homes) = self.placement.homes(table).cloned() else {
            return;
        };
        let before = self.note_memory(table, size_bytes, package);
        self.tallies.resize(&homes, before, size_bytes);
    }

    /// `table` takes `size_bytes` from now on, where its memory is. The next placement goes by that; this one and its
    /// version stay. A table that is not placed is ignored.
    pub fn set_size(&mut self, table: TableId, size_bytes: u64) {
        let Some(homes) = self.placement.homes(table).cloned() else {
            return;
        };
        if let Some(before) = self.memories.resize(table, size_bytes) {
            self.tallies.resize(&homes, before, size_bytes);
        }
    }

    /// As [`Memories::set`]. What is read of it is known once a fast window has passed.
    fn note_memory(&mut self, table: TableId, size_bytes: u64, package: Option<u32>) -> u64 {
        let known_at = self.latest + self.config.windows.fast;
        self.memories.set(table, size_bytes, package, known_at)
    }

    /// The bytes that copies of tables' memory may take, beyond the first of each table; 0 by default. A table that
    /// asks for more than three tenths of a package's cores, and of which each package can have a copy within what is
    /// left, gets homes on all packages.
    pub fn set_memory_budget(&mut self, bytes: u64) {
        self.memory_budget = bytes;
    }

    /// What should be done next about the tables' memory, if anything, as the load was at the last [`Planner::tick`]:
    /// of all tables the one that gains most for each byte copied. Copies keep to [`Planner::set_memory_budget`].
    ///
    /// Nothing where tables are placed by traffic. The same step is returned until [`Planner::took`] reports how it
    /// went.
    pub fn next_memory_step(&mut self) -> Option<MemoryStep> {
        if !self.by_time() {
            return None;
        }
        let now = self.latest;
        let (placement, windows, domains) = (&self.placement, &self.windows, &self.domains);
        self.memories.next_step(self.memory_budget, now, |table| {
            let bytes = windows.traffic(table, now).slow;
            let homes = placement.homes(table);
            homes.map_or_else(BTreeMap::new, |homes| {
                memory::by_package(homes, domains, bytes)
            })
        })
    }

    /// A step was taken, or could not be: then the table's memory stays where it is for some minutes.
    pub fn took(&mut self, step: MemoryStep, done: bool) {
        self.memories.took(step, done, self.latest);
    }

    /// Adds what `table` used at `now`. A table that is not placed is ignored: its last
    /// queries may end after it was removed.
    pub fn record(&mut self, table: TableId, now: Time, usage: Usage) {
        if self.placement.homes(table).is_some() {
            self.windows.record(table, now, usage);
        }
    }

    /// Decides whether the placement changes now, and if so, changes it. An earlier `now` counts as the latest one.
    pub fn tick(&mut self, now: Time) -> Option<Remap> {
        self.latest = self.latest.max(now);
        self.windows.forget_idle(self.latest);
        let seen = self.see(self.latest);
        self.tally_loads(&seen);
        let asked = loads(&seen.fast, &seen.homes, &self.domains);
        if self.latest < self.trigger.ready_at() || !could_gain(&asked, &self.config) {
            return None;
        }
        let chosen = self
            .candidate(&seen.fast, &seen)
            .filter(|chosen| chosen.change.gains(&self.config))?;
        let change = &chosen.change;
        let [before, after] = [change.before, change.after].map(|load| load.imbalance());
        self.trigger.remapped(self.latest);
        Some(self.take(chosen, RemapReason::Imbalance { before, after }, &seen))
    }

    /// Domain `i` (in the order given to [`Planner::new`]) has `cores[i]` cores from now on; missing entries stay as
    /// they are. Tables leave a domain that has none, whatever that costs; and if the new sizes make another placement
    /// worth its moves, as in [`Planner::tick`], it is taken at once.
    ///
    /// What moves here has nothing to do with load, so the trigger's brakes neither hold it up nor count it.
    pub fn resize(&mut self, now: Time, cores: &[u32]) -> Option<Remap> {
        self.latest = self.latest.max(now);
        let all = |domains: &[DomainSpec]| domains.iter().map(|spec| spec.cores).sum();
        let workers_before = all(&self.domains);
        for (spec, &cores) in self.domains.iter_mut().zip(cores) {
            spec.cores = cores;
        }
        // A table that asks for nothing may have to leave, too.
        let placed = self.placement.iter().map(|(table, _)| table);
        let seen = self.see_of(placed, self.latest);
        self.tally_loads(&seen);
        let gone: Vec<DomainId> = self
            .domains
            .iter()
            .filter(|spec| spec.cores == 0)
            .map(|spec| spec.id)
            .collect();
        let homeless = |homes: &Homes| gone.iter().any(|&domain| homes.contains(domain));
        let must = self.placement.iter().any(|(_, homes)| homeless(homes));
        let chosen = self
            .candidate(&seen.slow, &seen)
            .filter(|candidate| must || candidate.change.gains(&self.config))?;
        let reason = RemapReason::Resized {
            workers_before,
            workers_after: all(&self.domains),
        };
        Some(self.take(chosen, reason, &seen))
    }

    /// The placement now. The snapshot stays as it is; a later change makes a copy of what is still held.
    pub fn placement(&self) -> Arc<Placement> {
        Arc::clone(&self.placement)
    }

    /// Traffic of `table` at `now`, in bytes per second.
    pub fn traffic(&self, table: TableId, now: Time) -> Rates {
        self.windows.traffic(table, now)
    }

    /// Load of `table` at `now`, in core-seconds per second.
    pub fn load(&self, table: TableId, now: Time) -> Rates {
        self.windows.load(table, now)
    }

    /// How evenly what is balanced at `now` lies under the current placement: in the fast and in the slow
    /// window.
    pub fn balance(&self, now: Time) -> (Balance, Balance) {
        let seen = self.see(now.max(self.latest));
        (
            self.balance_of(&seen, &seen.fast),
            self.balance_of(&seen, &seen.slow),
        )
    }

    /// What those tables ask for at `now` that may be moved for it. All others ask for nothing and have one home, where
    /// they stay: so a look costs as much as the tables that are in use.
    fn see(&self, now: Time) -> Seen {
        let busy = self.windows.busy();
        let tables: BTreeSet<TableId> = busy.chain(self.several.iter().copied()).collect();
        #[cfg(test)]
        if self.sees_all {
            return self.see_of(self.placement.iter().map(|(table, _)| table), now);
        }
        self.see_of(tables, now)
    }

    fn see_of(&self, tables: impl IntoIterator<Item = TableId>, now: Time) -> Seen {
        let mut packages = BTreeMap::new();
        for spec in self.domains.iter().filter(|spec| spec.cores > 0) {
            *packages.entry(spec.package).or_insert(0.0) += spec.strength();
        }
        // No table's load counts for more than the whole machine can do. Clients that are refused and try again at once
        // can ask for any number of times that, and next to it no other table would count.
        let most = match self.by_time() {
            true => packages.values().sum(),
            false => f64::INFINITY,
        };
        let mut seen = Seen::default();
        for table in tables {
            let Some(homes) = self.placement.homes(table) else {
                continue;
            };
            seen.homes.push(homes.clone());
            let load = self.balanced(table, now);
            let (size, package) = self.memories.of(table);
            let demand = |load| Demand {
                size,
                package,
                everywhere: self.memories.has_all(table, packages.len()),
                ..Demand::new(table, most.min(load))
            };
            seen.fast.push(demand(load.fast));
            seen.slow.push(demand(load.slow));
        }
        if self.by_time() {
            let least = packages.values().copied().fold(f64::INFINITY, f64::min);
            let left = self.memories.left_of(self.memory_budget);
            let by = now + self.config.windows.fast;
            seen.spread(&self.memories, packages.len(), LARGE * least, (left, by));
        }
        seen
    }

    /// What is balanced of a table: its load or its traffic.
    fn balanced(&self, table: TableId, now: Time) -> Rates {
        match self.config.mapper.placing {
            PlaceBy::Time => self.windows.load(table, now),
            PlaceBy::Traffic => self.windows.traffic(table, now),
        }
    }

    fn by_time(&self) -> bool {
        self.config.mapper.placing == PlaceBy::Time
    }

    /// Makes the chosen placement the present one.
    fn take(&mut self, chosen: Candidate, reason: RemapReason, seen: &Seen) -> Remap {
        Arc::make_mut(&mut self.placement).make(&chosen.moves);
        for step in &chosen.moves {
            let (size, _) = self.memories.of(step.table);
            if let Some(from) = &step.from {
                self.tallies.remove(from, 0.0, size);
            }
            if let Some(to) = &step.to {
                self.tallies.add(to, 0.0, size);
                match to.len() {
                    1 => self.several.remove(&step.table),
                    _ => self.several.insert(step.table),
                };
            }
        }
        self.tally_loads(seen);
        Remap {
            placement: self.placement(),
            moves: chosen.moves,
            reason,
            cold_bytes: chosen.cold_bytes,
        }
    }

    /// What the mapper makes of these demands; `None` if that is what is there already.
    fn candidate(&self, demands: &[Demand], seen: &Seen) -> Option<Candidate> {
        let (current, mapper) = (Some(&*self.placement), &self.config.mapper);
        let homes = assign_homes(demands, &self.domains, current, mapper).homes;
        // Both are in id order.
        let homes: Vec<Homes> = homes.into_values().collect();
        Candidate::new(seen, &homes, demands, &self.domains)
    }

    fn balance_of(&self, seen: &Seen, demands: &[Demand]) -> Balance {
        loads(demands, &seen.homes, &self.domains).balance()
    }

    /// Counts anew what each domain is asked for, by the slow window.
    fn tally_loads(&mut self, seen: &Seen) {
        self.tallies.clear_loads(&self.domains);
        for demand in &seen.slow {
            if let Some(homes) = self.placement.homes(demand.table) {
                self.tallies.add_load(homes, demand.load);
            }
        }
        let all: f64 = seen.slow.iter().map(|demand| demand.load).sum();
        self.expected = all / self.placement.iter().len().max(1) as f64;
    }
}
