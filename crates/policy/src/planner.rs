//! Traffic in, placements out: windows, mapper and trigger as one value.
//!
//! The planner has no clock: whoever owns it records what tables pulled, calls
//! [`tick`](Planner::tick) every now and then (once a second is plenty) and passes the time in. In each
//! tick it looks, in this order, for
//!
//! 1. a table that has outgrown its homes, by the fast window;
//! 2. imbalance in the fast window;
//! 3. imbalance in the slow window;
//! 4. a table that needs its several homes no longer, by both windows.
//!
//! The first for which the mapper finds a placement that is worth its moves becomes a [`Remap`]. What it
//! must be worth: for 1 and 2, `min_gain` in the fast window, and in the slow one too if it undoes an
//! earlier remap; for 3, `min_gain` in the slow window and no loss in the fast one, so that old traffic
//! never overrules new; for 4, no new imbalance. [`Trigger`] says when the next remap may come.
//!
//! Invariants: each change of the placement raises its version by one; the placement holds exactly the
//! tables that were added and not removed, each with a home; time never runs backwards (an earlier `now`
//! counts as the latest one).

mod candidate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chiplet_topology::DomainId;

use crate::{
    Balance, Demand, DomainSpec, DomainTally, Homes, MapperConfig, Move, Placement, Rates,
    RemapReason, TableId, TrafficWindows, Trigger, TriggerConfig, WindowConfig, homes_wanted,
    place, place_new,
};
use candidate::{Candidate, Seen, total, under};

/// All thresholds of a [`Planner`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlannerConfig {
    /// Lengths of the two windows.
    pub windows: WindowConfig,
    /// How tables are placed.
    pub mapper: MapperConfig,
    /// When they are placed anew.
    pub trigger: TriggerConfig,
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
}

/// Keeps track of traffic and decides where tables live. The crate's front page has an example.
#[derive(Clone, Debug)]
pub struct Planner {
    config: PlannerConfig,
    domains: Vec<DomainSpec>,
    windows: TrafficWindows,
    trigger: Trigger,
    /// Shared with whoever asked for it; copied only if it changes while they still hold it.
    placement: Arc<Placement>,
    /// Sizes in bytes of the tables placed.
    sizes: BTreeMap<TableId, u64>,
    /// What each domain holds, for tables still to come; sorted by id.
    tallies: Vec<DomainTally>,
    /// Traffic that a new table is expected to bring: that of the average table so far.
    expected: f64,
    latest: Duration,
    /// When the mapper may next be asked; it is not asked again before the fast window has moved on.
    next_look: Duration,
}

impl Planner {
    /// A planner for these domains, without tables.
    ///
    /// # Panics
    ///
    /// If `domains` is empty: tables need a domain to live on.
    pub fn new(config: PlannerConfig, domains: Vec<DomainSpec>) -> Self {
        assert!(!domains.is_empty(), "a planner needs at least one domain");
        let config = PlannerConfig {
            trigger: config.trigger.sane(),
            ..config
        };
        let tallies = empty_tallies(&domains);
        Self {
            windows: TrafficWindows::new(config.windows),
            trigger: Trigger::new(config.trigger),
            placement: Arc::default(),
            sizes: BTreeMap::new(),
            tallies,
            expected: 0.0,
            latest: Duration::ZERO,
            next_look: Duration::ZERO,
            config,
            domains,
        }
    }

    /// Places a new table of `size_bytes` and returns its home: the domain with the least traffic, as
    /// [`place_new`] chooses it, counting an average table's traffic for those that came since the last
    /// tick. The version rises by one. A table that is placed already keeps its homes and the version.
    pub fn add_table(&mut self, table: TableId, size_bytes: u64) -> Homes {
        if let Some(homes) = self.placement.homes(table) {
            return homes.clone();
        }
        let homes = place_new(&self.tallies);
        self.tally(&homes, self.expected, size_bytes, Change::Added);
        self.sizes.insert(table, size_bytes);
        Arc::make_mut(&mut self.placement).insert(table, homes.clone());
        homes
    }

    /// Takes a table out and forgets its traffic. The version rises by one, unless it was not placed.
    pub fn remove_table(&mut self, table: TableId) {
        if self.placement.homes(table).is_none() {
            return;
        }
        let rates = self.windows.rates(table, self.latest);
        if let Some(homes) = Arc::make_mut(&mut self.placement).remove(table) {
            let size = self.sizes.remove(&table).unwrap_or(0);
            self.tally(&homes, rates.slow, size, Change::Removed);
        }
        self.windows.forget(table);
        self.trigger.forget(table);
    }

    /// `table` takes `size_bytes` from now on. New tables are placed by that; the placement and its version stay. A
    /// table that is not placed is ignored: it may have been removed meanwhile.
    pub fn set_size(&mut self, table: TableId, size_bytes: u64) {
        let Some(homes) = self.placement.homes(table).cloned() else {
            return;
        };
        let before = self.sizes.insert(table, size_bytes).unwrap_or(0);
        for home in &homes {
            let tally = self.tally_of(home.domain);
            tally.bytes += size_bytes as f64 - before as f64;
        }
    }

    /// Adds `bytes` that `table` pulled at `now`. A table that is not placed is ignored: its last
    /// queries may end after it was removed.
    pub fn record(&mut self, table: TableId, now: Duration, bytes: u64) {
        if self.placement.homes(table).is_some() {
            self.windows.record(table, now, bytes);
        }
    }

    /// Decides whether the placement changes now, and if so, changes it.
    ///
    /// `capacities[i]` is what domain `i` (in the order given to [`Planner::new`]) pulls in bytes per
    /// second when all its cores are busy, as far as that is known by now; missing entries are unknown.
    pub fn tick(&mut self, now: Duration, capacities: &[Option<f64>]) -> Option<Remap> {
        self.latest = self.latest.max(now);
        for (position, spec) in self.domains.iter_mut().enumerate() {
            spec.capacity = capacities.get(position).copied().flatten();
        }
        let seen = Seen::new(&self.placement, &self.windows, self.latest);
        self.tally_all(&seen);
        if self.latest < self.trigger.ready_at() || self.latest < self.next_look {
            return None;
        }
        let (chosen, reason) = self.look(&seen)?;
        self.trigger.remapped(&chosen.moves, self.latest);
        self.placement = Arc::new(chosen.placement);
        self.tally_all(&seen);
        Some(Remap {
            placement: self.placement(),
            moves: chosen.moves,
            reason,
        })
    }

    /// Domain `i` (in the order given to [`Planner::new`]) has `cores[i]` cores from now on; missing entries stay as they
    /// are. Tables leave a domain that has none, whatever that costs; and if the new sizes make another placement worth
    /// its moves, as in [`Planner::tick`], it is taken at once.
    ///
    /// What moves here has nothing to do with traffic, so the trigger's brakes neither hold it up nor count it.
    pub fn resize(&mut self, now: Duration, cores: &[u32]) -> Option<Remap> {
        self.latest = self.latest.max(now);
        let all = |domains: &[DomainSpec]| domains.iter().map(|spec| spec.cores).sum();
        let workers_before = all(&self.domains);
        for (spec, &cores) in self.domains.iter_mut().zip(cores) {
            spec.cores = cores;
        }
        let seen = Seen::new(&self.placement, &self.windows, self.latest);
        self.tally_all(&seen);
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
            .filter(|candidate| must || candidate.pays_in_time(self.config.trigger.min_gain))?;
        self.placement = Arc::new(chosen.placement);
        self.tally_all(&seen);
        Some(Remap {
            placement: self.placement(),
            moves: chosen.moves,
            reason: RemapReason::Resized {
                workers_before,
                workers_after: all(&self.domains),
            },
        })
    }

    /// The placement now. The snapshot stays as it is; a later change makes a copy of what is still held.
    pub fn placement(&self) -> Arc<Placement> {
        Arc::clone(&self.placement)
    }

    /// Traffic of `table` at `now`.
    pub fn traffic(&self, table: TableId, now: Duration) -> Rates {
        self.windows.rates(table, now)
    }

    /// How evenly the traffic at `now` lies under the current placement: in the fast and in the slow
    /// window.
    pub fn balance(&self, now: Duration) -> (Balance, Balance) {
        let seen = Seen::new(&self.placement, &self.windows, now.max(self.latest));
        (
            self.under_present(&seen.fast),
            self.under_present(&seen.slow),
        )
    }

    /// The first placement that is worth its moves, and why it is.
    fn look(&mut self, seen: &Seen) -> Option<(Candidate, RemapReason)> {
        let least = self.config.trigger.min_traffic;
        let (mut fast, mut slow) = (None, None);
        if total(&seen.fast) >= least {
            fast = self.look_at_fast(seen);
        }
        if fast.is_none() && total(&seen.slow) >= least {
            slow = self.look_at_slow(seen);
        }
        fast.or(slow).or_else(|| self.look_for_relaxed(seen))
    }

    fn look_at_fast(&mut self, seen: &Seen) -> Option<(Candidate, RemapReason)> {
        let trigger = self.config.trigger;
        let outgrown = self.misfits(&seen.fast, |wanted, has| wanted > has);
        let lopsided = self.under_present(&seen.fast).imbalance() > trigger.fast_threshold;
        if outgrown.is_empty() && !lopsided {
            return None;
        }
        let candidate = self
            .candidate(&seen.fast, seen)
            .filter(|candidate| candidate.pays_quickly(trigger.min_gain))?;
        let reason = match outgrown.first() {
            Some(&table) => {
                let (homes_before, homes_after) = self.homes_of(table, &candidate);
                RemapReason::Saturated {
                    table,
                    homes_before,
                    homes_after,
                }
            }
            None => RemapReason::FastImbalance {
                before: candidate.fast.before.imbalance(),
                after: candidate.fast.after.imbalance(),
            },
        };
        Some((candidate, reason))
    }

    fn look_at_slow(&mut self, seen: &Seen) -> Option<(Candidate, RemapReason)> {
        let trigger = self.config.trigger;
        if self.under_present(&seen.slow).imbalance() <= trigger.slow_threshold {
            return None;
        }
        let candidate = self
            .candidate(&seen.slow, seen)
            .filter(|candidate| candidate.pays_in_time(trigger.min_gain))?;
        let reason = RemapReason::SlowImbalance {
            before: candidate.slow.before.imbalance(),
            after: candidate.slow.after.imbalance(),
        };
        Some((candidate, reason))
    }

    fn look_for_relaxed(&mut self, seen: &Seen) -> Option<(Candidate, RemapReason)> {
        let trigger = self.config.trigger;
        let too_many = |wanted, has| wanted < has;
        let quickly = self.misfits(&seen.fast, too_many);
        let table = self
            .misfits(&seen.slow, too_many)
            .into_iter()
            .find(|table| quickly.contains(table))?;
        let candidate = self.candidate(&seen.slow, seen).filter(|candidate| {
            candidate.harms_nothing(trigger.fast_threshold, trigger.slow_threshold)
        })?;
        let (homes_before, homes_after) = self.homes_of(table, &candidate);
        let reason = RemapReason::Relaxed {
            table,
            homes_before,
            homes_after,
        };
        Some((candidate, reason))
    }

    /// What the mapper makes of these demands; `None` if that is what is there already.
    fn candidate(&mut self, demands: &[Demand], seen: &Seen) -> Option<Candidate> {
        self.next_look = seen.now + self.config.windows.fast_bucket();
        let present = &self.placement;
        let assignment = place(demands, &self.domains, Some(present), &self.config.mapper);
        Candidate::new(present, assignment, &self.domains, seen, &self.trigger)
    }

    /// The tables whose number of homes is wrong in the sense of `misfit(wanted, has)`, hottest first.
    fn misfits(&self, demands: &[Demand], misfit: impl Fn(usize, usize) -> bool) -> Vec<TableId> {
        let current = |demand: &Demand| self.placement.homes(demand.table);
        let wanted = homes_wanted(demands, current, &self.domains, &self.config.mapper);
        let mut misfits: Vec<&Demand> = demands
            .iter()
            .zip(wanted)
            .filter(|&(demand, wanted)| {
                current(demand).is_some_and(|homes| misfit(wanted, homes.len()))
            })
            .map(|(demand, _)| demand)
            .collect();
        misfits.sort_by(|a, b| b.traffic.total_cmp(&a.traffic).then(a.table.cmp(&b.table)));
        misfits.into_iter().map(|demand| demand.table).collect()
    }

    /// How many homes a placed table has, and would have under the candidate.
    fn homes_of(&self, table: TableId, candidate: &Candidate) -> (usize, usize) {
        let count = |placement: &Placement| placement.homes(table).map_or(0, Homes::len);
        (count(&self.placement), count(&candidate.placement))
    }

    fn under_present(&self, demands: &[Demand]) -> Balance {
        under(&self.placement, demands, &self.domains)
    }

    /// Counts what each domain holds anew, with the slow window's traffic.
    fn tally_all(&mut self, seen: &Seen) {
        self.tallies = empty_tallies(&self.domains);
        let placement = self.placement();
        for (demand, (_, homes)) in seen.slow.iter().zip(placement.iter()) {
            let size = self.sizes.get(&demand.table).copied().unwrap_or(0);
            self.tally(homes, demand.traffic, size, Change::Added);
        }
        self.expected = total(&seen.slow) / placement.len().max(1) as f64;
    }

    fn tally_of(&mut self, domain: DomainId) -> &mut DomainTally {
        let position = self.tallies.binary_search_by_key(&domain, |tally| tally.id);
        &mut self.tallies[position.expect("homes are among the planner's domains")]
    }

    /// Counts one table on (or off) its homes.
    fn tally(&mut self, homes: &Homes, traffic: f64, size_bytes: u64, change: Change) {
        let sign = if change == Change::Added { 1.0 } else { -1.0 };
        for home in homes {
            let tally = self.tally_of(home.domain);
            tally.traffic += sign * traffic * home.share();
            tally.bytes += sign * size_bytes as f64;
            match change {
                Change::Added => tally.tables += 1,
                Change::Removed => {
                    tally.tables -= 1;
                    if tally.traffic < NO_TRAFFIC {
                        tally.traffic = 0.0;
                    }
                }
            }
        }
    }
}

/// Less than this, in bytes per second, is what rounding leaves of a domain's traffic when a hot table is taken off.
/// It must not make an empty domain look busier than one that is full of idle tables.
const NO_TRAFFIC: f64 = 1.0;

/// Whether a table came or went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Removed,
}

/// A tally for each domain, sorted by id.
fn empty_tallies(domains: &[DomainSpec]) -> Vec<DomainTally> {
    let mut tallies: Vec<DomainTally> = domains
        .iter()
        .map(|spec| DomainTally {
            id: spec.id,
            cores: spec.cores,
            traffic: 0.0,
            bytes: 0.0,
            tables: 0,
        })
        .collect();
    tallies.sort_by_key(|tally| tally.id);
    tallies.dedup_by_key(|tally| tally.id);
    tallies
}
