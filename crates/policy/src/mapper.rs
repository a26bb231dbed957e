//! Which domains are home to which tables: the hot-cold greedy, several homes for a table that is too
//! hot for one, and as few moves as balance allows.
//!
//! [`place`] decides in four steps:
//!
//! 1. **How many homes** each table needs (`several`): one, unless it saturates a domain.
//! 2. **The best balance**: from scratch, the two-ended greedy or hottest first, whichever ends lower (`greedy`),
//!    its bins given to the domains where most of their traffic lives already (`relabel`).
//! 3. **The least movement**: from the current placement, only what makes the busiest domain too busy is
//!    moved, to where there is room (`incremental`).
//! 4. The third wins if its busiest domain is within [`MapperConfig::stay`] of the second's; otherwise
//!    the second does. So with unchanged traffic nothing moves.
//!
//! Domains may differ in size: all loads are compared per core. Everything is deterministic; ties go to
//! the lowest id. The cost is `O(tables * (log tables + domains))`.

mod greedy;
mod incremental;
mod machine;
mod relabel;
mod several;

use std::collections::BTreeMap;

use chiplet_topology::DomainId;

use crate::{Homes, Placement, TableId};
use machine::{Board, Item, Machine, Seat, clean};

/// A domain as the mapper sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DomainSpec {
    /// Its id in the topology.
    pub id: DomainId,
    /// Cores (workers) that serve its tables: the measure of its size. A domain with 0 gets no tables
    /// unless all have 0.
    pub cores: u32,
    /// Bytes per second that it pulls when all its cores are busy, if that has been measured.
    pub capacity: Option<f64>,
}

impl DomainSpec {
    /// A domain whose capacity is not known.
    pub fn new(id: DomainId, cores: u32) -> Self {
        Self {
            id,
            cores,
            capacity: None,
        }
    }
}

/// What a table asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The table. If it is named several times, its demands are added up.
    pub table: TableId,
    /// Its traffic in bytes per second. NaN, infinite and negative values count as 0, those above
    /// 1e18 as 1e18.
    pub traffic: f64,
}

/// Thresholds of [`place`]. A value that is NaN or out of its range is replaced by its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapperConfig {
    /// A table gets several homes when its traffic exceeds this part of the capacity of its home.
    ///
    /// Default 0.7: by Erlang's C formula, queries wait 0.1 service times for one of the 8 cores of a CCD
    /// at 70 % use, 0.9 at 90 % and 2.1 at 95 %; running on a cold cache costs about one. So the table is
    /// split before waiting costs more than a second cold cache does.
    pub saturation: f64,
    /// It goes back to fewer homes only below this part; never above `saturation`.
    ///
    /// Default 0.4: `relax / saturation` must stay near a half, or the table would saturate the one home
    /// that it goes back to when its traffic next wavers.
    pub relax: f64,
    /// A table gets several homes only if it has at least this many times one domain's fair share of
    /// the total (total / domains). At least 1.
    ///
    /// Default 1.1: below it, splitting lowers the busiest domain by less than 9 %, and spends a second
    /// copy of the table's hot data in cache for it.
    pub oversize: f64,
    /// The same where no capacity has been measured, so that saturation is not known. At least 1.
    ///
    /// Default 1.5: without evidence of saturation, the imbalance that no whole-table placement can mend
    /// has to reach the default threshold of the fast window ([`TriggerConfig`](crate::TriggerConfig)).
    pub hot_share: f64,
    /// A placement that moves less is taken if its busiest domain is at most this part above the best
    /// that the greedy finds. 0 or more.
    ///
    /// Default 0.1: a tenth of a domain's time is about what refilling one evicted working set costs in
    /// each fast window when traffic keeps shifting, so a better balance would not be earned back.
    pub stay: f64,
}

impl Default for MapperConfig {
    fn default() -> Self {
        Self {
            saturation: 0.7,
            relax: 0.4,
            oversize: 1.1,
            hot_share: 1.5,
            stay: 0.1,
        }
    }
}

impl MapperConfig {
    /// This configuration with every senseless value replaced by its default.
    fn sane(&self) -> Self {
        let or = |value: f64, fallback: f64, lowest: f64| {
            if value.is_finite() && value >= lowest {
                value
            } else {
                fallback
            }
        };
        let default = Self::default();
        let saturation = or(self.saturation, default.saturation, f64::MIN_POSITIVE);
        Self {
            saturation,
            relax: or(self.relax, default.relax, f64::MIN_POSITIVE).min(saturation),
            oversize: or(self.oversize, default.oversize, 1.0),
            hot_share: or(self.hot_share, default.hot_share, 1.0),
            stay: or(self.stay, default.stay, 0.0),
        }
    }
}

/// Homes for every table that was asked about, and the load that results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// Homes of each table; empty only if there are no domains.
    pub homes: BTreeMap<TableId, Homes>,
    /// Busiest domain and mean under these homes.
    pub balance: Balance,
}

/// How evenly traffic lies on the domains, in bytes per second and core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Balance {
    /// Of the busiest domain.
    pub peak: f64,
    /// Of the whole machine.
    pub mean: f64,
}

impl Balance {
    /// How far the busiest domain is above the mean: `peak / mean - 1`, and 0 without traffic.
    pub fn imbalance(&self) -> f64 {
        if self.mean > 0.0 {
            (self.peak / self.mean - 1.0).max(0.0)
        } else {
            0.0
        }
    }
}

/// The two-ended hot-cold greedy of arXiv 2605.10090, whole tables from scratch.
///
/// Tables are sorted by traffic. The hottest goes to the domain that is least loaded with it; then, if
/// it fits under that domain's fair share, the coldest goes to the same domain; and so on with the next
/// hottest. Tables without traffic go where the fewest are. On `m` domains of equal size the busiest ends
/// at no more than `3/2 - 1/(2m)` times the optimum, and there are traffics for which it does.
///
/// ```
/// use chiplet_policy::{Demand, DomainSpec, TableId, hot_cold};
/// use chiplet_topology::DomainId;
///
/// let demands: Vec<Demand> = [90.0, 80.0, 20.0, 10.0]
///     .into_iter()
///     .zip(0..)
///     .map(|(traffic, slot)| Demand { table: TableId { slot, generation: 0 }, traffic })
///     .collect();
/// let domains = [DomainSpec::new(DomainId(0), 8), DomainSpec::new(DomainId(1), 8)];
/// let assignment = hot_cold(&demands, &domains);
/// // The hottest with the coldest, the two in the middle together: 100 and 100.
/// assert_eq!(assignment.homes[&demands[0].table], assignment.homes[&demands[3].table]);
/// assert_eq!(assignment.balance.imbalance(), 0.0);
/// ```
pub fn hot_cold(demands: &[Demand], domains: &[DomainSpec]) -> Assignment {
    let machine = Machine::new(domains);
    if machine.is_empty() {
        return Assignment::default();
    }
    let items = gather(demands, &machine, None, |_| 1);
    let mut board = greedy::two_ended(&items, &machine);
    board.seat_idle(&items, &machine);
    finish(&items, board, &machine)
}

/// Homes for all tables in `demands`, as near to `current` as balance allows; see the module's steps.
///
/// Tables of `current` that are not in `demands` are left out, and its homes on domains that are not in
/// `domains` are void. With equal arguments, and with the result as `current`, the result is the same.
/// Without domains the assignment is empty.
///
/// With whole tables on `m` domains, the busiest ends at no more than `4/3 - 1/(3m)` times the optimum if they are
/// equal and `2 - 2/(m + 1)` if they are not, times `1 + stay` if there is a current placement.
///
/// ```
/// use chiplet_policy::{Demand, DomainSpec, MapperConfig, TableId, place};
/// use chiplet_topology::DomainId;
///
/// // One table with 60 % of all traffic, on twelve domains that pull at most 10 GB/s each.
/// let domains: Vec<DomainSpec> = (0..12)
///     .map(|id| DomainSpec { capacity: Some(10e9), ..DomainSpec::new(DomainId(id), 8) })
///     .collect();
/// let demands: Vec<Demand> = (0..41)
///     .map(|slot| Demand {
///         table: TableId { slot, generation: 0 },
///         traffic: if slot == 0 { 36e9 } else { 0.6e9 },
///     })
///     .collect();
/// let assignment = place(&demands, &domains, None, &MapperConfig::default());
/// assert_eq!(assignment.homes[&demands[0].table].len(), 8);
/// assert!(assignment.balance.imbalance() < 0.1);
/// ```
pub fn place(
    demands: &[Demand],
    domains: &[DomainSpec],
    current: Option<&Placement>,
    config: &MapperConfig,
) -> Assignment {
    let machine = Machine::new(domains);
    if machine.is_empty() {
        return Assignment::default();
    }
    let config = config.sane();
    let total: f64 = demands.iter().map(|demand| clean(demand.traffic)).sum();
    let items = gather(demands, &machine, current, |item| {
        several::homes_wanted(item, total, &machine, &config)
    });
    let mut fresh = greedy::from_scratch(&items, &machine);
    let goal = fresh.peak(&machine) * (1.0 + config.stay);
    let board = match incremental::from_current(&items, &machine, goal) {
        Some(board) => board,
        None => {
            relabel::keep_most_at_home(&mut fresh, &items, &machine);
            fresh.seat_idle(&items, &machine);
            fresh
        }
    };
    finish(&items, board, &machine)
}

/// How many homes each table should have, in the order of `demands`, given the homes that `current`
/// says it has now. At least 1, at most the number of domains.
///
/// A table with one home gets more when it saturates it: when its traffic exceeds
/// [`saturation`](MapperConfig::saturation) of the home's capacity and
/// [`oversize`](MapperConfig::oversize) fair shares of the total; or, where no capacity is known,
/// [`hot_share`](MapperConfig::hot_share) fair shares. It then gets as many as it has fair shares,
/// rounded up, and at least two. The share of the total decides and not `traffic / capacity`, because
/// the traffic of a saturated table is capped by what its home can serve.
///
/// Going back has hysteresis: every threshold is `relax / saturation` times lower on the way down.
pub fn homes_wanted<'a>(
    demands: &[Demand],
    current: impl Fn(&Demand) -> Option<&'a Homes>,
    domains: &[DomainSpec],
    config: &MapperConfig,
) -> Vec<usize> {
    let machine = Machine::new(domains);
    let config = config.sane();
    let total: f64 = demands.iter().map(|demand| clean(demand.traffic)).sum();
    demands
        .iter()
        .map(|demand| {
            let item = Item::new(
                demand.table,
                clean(demand.traffic),
                current(demand),
                &machine,
            );
            several::homes_wanted(&item, total, &machine, &config)
        })
        .collect()
}

/// How `demands` load the domains under the homes that `homes` names. Tables and homes that it does not
/// name, or that lie on no domain in `domains`, load none but count towards the mean.
pub fn balance<'a>(
    demands: impl IntoIterator<Item = Demand>,
    mut homes: impl FnMut(TableId) -> Option<&'a Homes>,
    domains: &[DomainSpec],
) -> Balance {
    let machine = Machine::new(domains);
    let mut load = vec![0.0; machine.len()];
    let mut total = 0.0;
    for demand in demands {
        let traffic = clean(demand.traffic);
        total += traffic;
        for home in homes(demand.table).into_iter().flatten() {
            if let Some(domain) = machine.index(home.domain) {
                load[domain] += traffic * home.share();
            }
        }
    }
    Balance {
        peak: machine.peak(&load),
        mean: machine.mean(total),
    }
}

/// What a domain holds already, for [`place_new`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DomainTally {
    /// The domain.
    pub id: DomainId,
    /// Its cores.
    pub cores: u32,
    /// Bytes per second that its tables pull, measured or expected.
    pub traffic: f64,
    /// Bytes of the tables that have it as home.
    pub bytes: f64,
    /// Number of tables that have it as home.
    pub tables: u32,
}

/// A home for a table that has no traffic yet: the domain with the least traffic per core, of those the
/// one with the fewest table bytes per core (size is the best guess at the traffic to come), then with
/// the fewest tables, then with the lowest id.
///
/// Domains without cores are passed over unless all are.
///
/// # Panics
///
/// If `tallies` is empty: a table needs a domain to live on.
pub fn place_new(tallies: &[DomainTally]) -> Homes {
    let coreless = tallies.iter().all(|tally| tally.cores == 0);
    let per_core = |amount: f64, tally: &DomainTally| clean(amount) / f64::from(tally.cores.max(1));
    let best = tallies
        .iter()
        .filter(|tally| coreless || tally.cores > 0)
        .min_by(|a, b| {
            per_core(a.traffic, a)
                .total_cmp(&per_core(b.traffic, b))
                .then_with(|| per_core(a.bytes, a).total_cmp(&per_core(b.bytes, b)))
                .then(a.tables.cmp(&b.tables))
                .then(a.id.cmp(&b.id))
        });
    Homes::single(
        best.expect("a table needs at least one domain to live on")
            .id,
    )
}

/// The demands as items in id order, each table once, with the number of homes that it should get.
fn gather<'a>(
    demands: &[Demand],
    machine: &Machine,
    current: Option<&'a Placement>,
    wanted: impl Fn(&Item<'a>) -> usize,
) -> Vec<Item<'a>> {
    let mut sorted: Vec<(TableId, f64)> = demands
        .iter()
        .map(|demand| (demand.table, clean(demand.traffic)))
        .collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    sorted.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 += later.1;
        }
        same
    });
    sorted
        .into_iter()
        .map(|(table, traffic)| {
            let homes = current.and_then(|placement| placement.homes(table));
            let mut item = Item::new(table, traffic, homes, machine);
            item.wanted = wanted(&item);
            item
        })
        .collect()
}

/// The board as homes.
fn finish(items: &[Item], board: Board, machine: &Machine) -> Assignment {
    let mut homes = BTreeMap::new();
    for (item, seat) in items.iter().zip(board.seats) {
        let chosen = match (seat, item.current) {
            (Seat::AsNow, Some(current)) => current.clone(),
            (Seat::One(domain), _) => Homes::single(machine.id(domain)),
            (Seat::Several(shares), _) => machine.homes(&shares),
            (Seat::AsNow | Seat::Nowhere, _) => unreachable!("every item has been seated"),
        };
        homes.insert(item.table, chosen);
    }
    let demands = items.iter().map(|item| Demand {
        table: item.table,
        traffic: item.traffic,
    });
    let balance = balance(demands, |table| homes.get(&table), machine.specs());
    Assignment { homes, balance }
}
