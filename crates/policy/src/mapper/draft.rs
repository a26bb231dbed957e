//! A placement in the making: where each table is put, and the load that results.
//!
//! Invariant of a [`Draft`]: `load[d]` is the load of everything put on domain `d`, up to floating-point rounding, and
//! `tables[d]` the number of items with a spot there.

use super::item::Item;
use super::machine::Machine;
use crate::Homes;

/// Where an item is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spot {
    Nowhere,
    /// On its current homes, with their weights.
    AsNow,
    /// On each of these domains, with this much of its load.
    On(Vec<(usize, f64)>),
}

/// The spots of all items, and the load that they make.
pub(super) struct Draft<'a> {
    pub(super) items: &'a [Item<'a>],
    pub(super) machine: &'a Machine,
    pub(super) spots: Vec<Spot>,
    pub(super) load: Vec<f64>,
    tables: Vec<u32>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(items: &'a [Item<'a>], machine: &'a Machine) -> Self {
        Self {
            items,
            machine,
            spots: vec![Spot::Nowhere; items.len()],
            load: vec![0.0; machine.len()],
            tables: vec![0; machine.len()],
        }
    }

    /// Puts an item, which must be nowhere yet.
    pub(super) fn put(&mut self, index: usize, spot: Spot) {
        let item = &self.items[index];
        for (domain, load) in shares(item, &spot) {
            self.load[domain] += load;
            self.tables[domain] += 1;
        }
        self.spots[index] = spot;
    }

    /// Puts an item on these domains, with as much of its load on each.
    pub(super) fn put_on(&mut self, index: usize, homes: &[usize]) {
        let part = self.items[index].load / homes.len() as f64;
        let shares = homes.iter().map(|&domain| (domain, part));
        self.put(index, Spot::On(shares.collect()));
    }

    /// Takes an item out of its spot.
    pub(super) fn take_out(&mut self, index: usize) {
        let item = &self.items[index];
        let spot = std::mem::replace(&mut self.spots[index], Spot::Nowhere);
        for (domain, load) in shares(item, &spot) {
            // Rounding must not leave a load below zero.
            self.load[domain] = (self.load[domain] - load).max(0.0);
            self.tables[domain] -= 1;
        }
    }

    /// The domains that an item is on, and how much of its load each has.
    pub(super) fn shares(&self, index: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        shares(&self.items[index], &self.spots[index])
    }

    /// The items that are nowhere and of this kind, hottest first, ties by id (items are in id order).
    pub(super) fn open(&self, kind: impl Fn(&Item) -> bool) -> Vec<usize> {
        let is_open = |&index: &usize| self.spots[index] == Spot::Nowhere;
        let of_kind = |&index: &usize| kind(&self.items[index]);
        let open = (0..self.items.len()).filter(is_open).filter(of_kind);
        hottest_first(open.collect(), self.items)
    }

    /// Leaves the items of this kind where they are, if they may stay or have homes to choose from.
    pub(super) fn keep_at_home(&mut self, kind: impl Fn(&Item) -> bool) {
        for (index, item) in self.items.iter().enumerate() {
            if !kind(item) {
                continue;
            }
            if item.can_stay() {
                self.put(index, Spot::AsNow);
            } else if item.wanted == 1 || item.load == 0.0 {
                let homes = item.heaviest_homes();
                if homes.len() == item.wanted {
                    self.put_on(index, &homes);
                }
            }
        }
    }

    /// Tables per core of a domain, if it got one more.
    pub(super) fn crowd(&self, domain: usize) -> f64 {
        f64::from(self.tables[domain] + 1) / self.machine.cores(domain)
    }

    /// Load per core of a domain.
    pub(super) fn level(&self, domain: usize) -> f64 {
        self.load[domain] / self.machine.cores(domain)
    }

    /// The domain whose level is the least with all of an item, which should get it as a whole; the lowest of several.
    pub(super) fn receiver(&self, index: usize) -> usize {
        let level = |domain: usize| {
            (self.load[domain] + self.items[index].load) / self.machine.cores(domain)
        };
        self.machine.highest(|domain| -level(domain))
    }

    /// Load per core of the busiest domain.
    pub(super) fn peak(&self) -> f64 {
        self.machine.peak(&self.load)
    }

    /// The same once weights are rounded to what [`Homes`] can hold: the balance that a later look will find.
    pub(super) fn rounded_peak(&self) -> f64 {
        let mut load = vec![0.0; self.load.len()];
        for (item, spot) in self.items.iter().zip(&self.spots) {
            match spot {
                Spot::On(shares) if shares.len() > 1 => {
                    for home in &self.machine.homes(shares) {
                        if let Some(domain) = self.machine.index(home.domain) {
                            load[domain] += item.load * home.share();
                        }
                    }
                }
                spot => shares(item, spot).for_each(|(domain, part)| load[domain] += part),
            }
        }
        self.machine.peak(&load)
    }

    /// The homes of each item.
    pub(super) fn homes(&self) -> impl Iterator<Item = Homes> + '_ {
        let each = self.items.iter().zip(&self.spots);
        each.map(|(item, spot)| match (spot, item.current) {
            (Spot::AsNow, Some(current)) => current.clone(),
            (Spot::On(shares), _) => self.machine.homes(shares),
            (Spot::AsNow | Spot::Nowhere, _) => unreachable!("every item has been put"),
        })
    }
}

/// Positions of items, hottest first, ties by id.
pub(super) fn hottest_first(mut positions: Vec<usize>, items: &[Item]) -> Vec<usize> {
    positions.sort_by(|&a, &b| items[b].load.total_cmp(&items[a].load).then(a.cmp(&b)));
    positions
}

/// The domains that `spot` loads, and how much of the item's load each gets.
fn shares<'s>(item: &'s Item, spot: &'s Spot) -> impl Iterator<Item = (usize, f64)> + 's {
    let (parts, whole): (&[(usize, f64)], f64) = match spot {
        Spot::Nowhere => (&[], 0.0),
        Spot::AsNow => (&item.homes, item.load),
        Spot::On(shares) => (shares, 1.0),
    };
    parts
        .iter()
        .map(move |&(domain, part)| (domain, part * whole))
}
