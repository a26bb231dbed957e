//! Which domains are home to which tables: hot ones beside cold ones, several homes for the hottest, as few moves as
//! balance allows.
//!
//! [`assign_homes`] decides in four steps:
//!
//! 1. **How many homes** each table needs (`several`): one, unless it saturates a domain or has to have more.
//! 2. **The best balance**: from scratch, hottest first (`greedy`).
//! 3. **The least movement**: from the current placement, only what makes the busiest domain too busy is moved, to
//!    where there is room (`incremental`, `unload`).
//! 4. The third wins if its busiest domain is within [`MapperConfig::stay`] of the second's; otherwise the second does.
//!    So with unchanged load nothing moves.
//!
//! A table's *load* is balanced, per core: core-seconds per second, or bytes per second ([`PlaceBy`](crate::PlaceBy)).
//! In which package a table's memory is decides where several homes go, and those of idle tables. Else memory follows
//! load (`planner`).
//!
//! Everything is deterministic; ties go to the lowest id. The cost is `O(tables * (log tables + domains))` for tables
//! with one home, and `domains * log domains` for each with several, at most `domains` times if homes shift one at a
//! time.

mod draft;
mod greedy;
mod incremental;
mod input;
mod item;
mod machine;
mod newcomer;
mod several;
mod unload;

use std::collections::BTreeMap;

use crate::{Homes, Placement, TableId};
use draft::Draft;
use item::Item;
use machine::{Machine, clean};

pub use input::{Demand, DomainSpec, MapperConfig, PlaceBy};
pub use newcomer::{DomainTally, assign_home};

/// Homes for every table that was asked about, and the load that results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// Homes of each table; empty only if there are no domains.
    pub homes: BTreeMap<TableId, Homes>,
    /// Busiest domain and mean under these homes.
    pub balance: Balance,
}

/// How evenly load lies on the domains, per core. By time that is utilisation: 1 is a core that is asked for all of its
/// time. By traffic it is in bytes per second and core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Balance {
    /// Of the busiest domain.
    pub peak: f64,
    /// Of the whole machine.
    pub mean: f64,
}

impl Balance {
    /// How far the busiest domain is above the mean: `peak / mean - 1`, and 0 without load.
    pub fn imbalance(&self) -> f64 {
        if self.mean > 0.0 {
            (self.peak / self.mean - 1.0).max(0.0)
        } else {
            0.0
        }
    }
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
/// use chiplet_policy::{Demand, DomainSpec, MapperConfig, TableId, assign_homes};
/// use chiplet_topology::DomainId;
///
/// // One table that asks for 42 cores, and 40 that ask for 0.7 each, on twelve domains of 8 cores.
/// let domains: Vec<DomainSpec> = (0..12).map(|id| DomainSpec::new(DomainId(id), 8)).collect();
/// let demands: Vec<Demand> = (0..41)
///     .map(|slot| {
///         let load = if slot == 0 { 42.0 } else { 0.7 };
///         Demand::new(TableId { slot, generation: 0 }, load)
///     })
///     .collect();
/// let assignment = assign_homes(&demands, &domains, None, &MapperConfig::default());
/// assert_eq!(assignment.homes[&demands[0].table].len(), 8);
/// assert!(assignment.balance.imbalance() < 0.1);
/// ```
pub fn assign_homes(
    demands: &[Demand],
    domains: &[DomainSpec],
    current: Option<&Placement>,
    config: &MapperConfig,
) -> Assignment {
    let machine = Machine::new(domains, config.placing);
    if machine.is_empty() {
        return Assignment::default();
    }
    let config = config.sane();
    let total: f64 = demands.iter().map(|demand| clean(demand.load)).sum();
    let items = gather(demands, &machine, current, |item| {
        several::homes_wanted(item, total, &machine, &config)
    });
    let mut fresh = Draft::new(&items, &machine);
    greedy::put_open(&mut fresh, false);
    let goal = fresh.peak() * (1.0 + config.stay);
    let draft = incremental::from_current(&items, &machine, goal).unwrap_or_else(|| {
        several::put_idle(&mut fresh);
        fresh
    });
    finish(&draft)
}

/// How `demands` load the domains under the homes that `homes` names. Tables and homes that it does not
/// name, or that lie on no domain in `domains`, load none but count towards the mean.
pub fn balance<'a>(
    demands: impl IntoIterator<Item = Demand>,
    mut homes: impl FnMut(TableId) -> Option<&'a Homes>,
    domains: &[DomainSpec],
) -> Balance {
    let demands = demands.into_iter();
    let pairs = demands.map(|demand| (demand.load, homes(demand.table)));
    Loads::new(pairs, domains).balance()
}

/// The load of each domain.
pub(crate) struct Loads {
    machine: Machine,
    on: Vec<f64>,
    total: f64,
}

impl Loads {
    /// Of tables with these loads and homes.
    pub(crate) fn new<'a>(
        tables: impl IntoIterator<Item = (f64, Option<&'a Homes>)>,
        domains: &[DomainSpec],
    ) -> Self {
        // Whatever is balanced, it lies where it lies.
        let machine = Machine::new(domains, PlaceBy::Traffic);
        let (mut on, mut total) = (vec![0.0; machine.len()], 0.0);
        for (load, homes) in tables {
            let load = clean(load);
            total += load;
            for home in homes.into_iter().flatten() {
                if let Some(domain) = machine.index(home.domain) {
                    on[domain] += load * home.share();
                }
            }
        }
        Self { machine, on, total }
    }

    pub(crate) fn balance(&self) -> Balance {
        Balance {
            peak: self.machine.peak(&self.on),
            mean: self.machine.mean(self.total),
        }
    }

    /// The domains that have cores, with the load of each, in order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&DomainSpec, f64)> + '_ {
        self.machine.specs().iter().zip(self.on.iter().copied())
    }
}

/// The demands as items in id order, with the number of homes that each should get.
fn gather<'a>(
    demands: &[Demand],
    machine: &Machine,
    current: Option<&'a Placement>,
    wanted: impl Fn(&Item<'a>) -> usize,
) -> Vec<Item<'a>> {
    let items = demands.iter().map(|demand| {
        let homes = current.and_then(|placement| placement.homes(demand.table));
        let mut item = Item::new(demand, homes, machine);
        item.wanted = wanted(&item);
        item
    });
    let mut items: Vec<Item> = items.collect();
    items.sort_by_key(|item| item.table);
    items
}

/// The homes of a finished draft.
fn finish(draft: &Draft) -> Assignment {
    let (items, machine) = (draft.items, draft.machine);
    let tables = items.iter().map(|item| item.table);
    let homes: BTreeMap<TableId, Homes> = tables.zip(draft.homes()).collect();
    let demands = items.iter().map(|item| Demand::new(item.table, item.load));
    let balance = balance(demands, |table| homes.get(&table), machine.specs());
    Assignment { homes, balance }
}
