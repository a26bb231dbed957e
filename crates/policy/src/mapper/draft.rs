//! A placement in the making: where each table is put, and the load that results.
//!
//! Invariant of a [`Draft`]: `load[d]` is the load of everything put on domain `d`, up to floating-point rounding,
//! `tables[d]` the number of items with a spot there, and `budgets[d]` what those with load ask of its cache and link.

use std::cmp::Ordering;

use super::budget::Budget;
use super::item::Item;
use super::machine::Machine;

/// Where an item is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spot {
    Nowhere,
    /// On its current homes, with their weights.
    AsNow,
    One(usize),
    /// On each of these domains, with this much of its load.
    Several(Vec<(usize, f64)>),
}

/// The spots of all items, and the load that they make.
pub(super) struct Draft {
    pub(super) spots: Vec<Spot>,
    pub(super) load: Vec<f64>,
    pub(super) tables: Vec<u32>,
    pub(super) budgets: Vec<Budget>,
}

impl Draft {
    pub(super) fn new(items: usize, machine: &Machine) -> Self {
        Self {
            spots: vec![Spot::Nowhere; items],
            load: vec![0.0; machine.len()],
            tables: vec![0; machine.len()],
            budgets: machine.specs().iter().map(Budget::new).collect(),
        }
    }

    /// Puts `item`, number `index`, which must be nowhere yet.
    pub(super) fn put(&mut self, index: usize, item: &Item, spot: Spot) {
        for_each_share(item, &spot, |domain, load| {
            self.load[domain] += load;
            self.tables[domain] += 1;
            self.budgets[domain].take(item, load);
        });
        self.spots[index] = spot;
    }

    /// Takes `item`, number `index`, out of its spot.
    pub(super) fn take_out(&mut self, index: usize, item: &Item) -> Spot {
        let spot = std::mem::replace(&mut self.spots[index], Spot::Nowhere);
        for_each_share(item, &spot, |domain, load| {
            // Rounding must not leave a load below zero.
            self.load[domain] = (self.load[domain] - load).max(0.0);
            self.tables[domain] -= 1;
            self.budgets[domain].give_back(item, load);
        });
        spot
    }

    /// The domain that should get `item` as a whole: of those whose level with it is at most `near` above the least,
    /// and not above `most` unless all are, the one that the rules of `budget.rs` choose.
    pub(super) fn receiver(&self, item: &Item, machine: &Machine, near: f64, most: f64) -> usize {
        let least = machine.least_loaded(&self.load, item.load);
        if !machine.by_time() {
            return least;
        }
        let level = |domain: usize| (self.load[domain] + item.load) / machine.cores(domain);
        let highest = (level(least) + near).min(most).max(level(least));
        let rank = |domain: usize| self.budgets[domain].rank(item, machine, domain);
        let better = |a: usize, b: usize| {
            let (one, other) = (rank(a), rank(b));
            (one.0.cmp(&other.0))
                .then(one.1.total_cmp(&other.1))
                .then(level(a).total_cmp(&level(b)))
                == Ordering::Less
        };
        (0..machine.len())
            .filter(|&domain| level(domain) <= highest)
            .reduce(|best, domain| if better(domain, best) { domain } else { best })
            .unwrap_or(least)
    }

    /// Load per core of the busiest domain.
    pub(super) fn peak(&self, machine: &Machine) -> f64 {
        machine.peak(&self.load)
    }

    /// The same once weights are rounded to what [`Homes`] can hold: the balance that a later look will find.
    pub(super) fn rounded_peak(&self, items: &[Item], machine: &Machine) -> f64 {
        let mut load = vec![0.0; self.load.len()];
        for (item, spot) in items.iter().zip(&self.spots) {
            match spot {
                Spot::Several(shares) => {
                    for home in &machine.homes(shares) {
                        if let Some(domain) = machine.index(home.domain) {
                            load[domain] += item.load * home.share();
                        }
                    }
                }
                spot => for_each_share(item, spot, |domain, part| load[domain] += part),
            }
        }
        machine.peak(&load)
    }
}

/// Calls `with` for every domain that `spot` loads, and with how much of its load.
pub(super) fn for_each_share(item: &Item, spot: &Spot, mut with: impl FnMut(usize, f64)) {
    match spot {
        Spot::Nowhere => {}
        Spot::AsNow => {
            for &(domain, share) in item.homes() {
                with(domain, item.load * share);
            }
        }
        Spot::One(domain) => with(*domain, item.load),
        Spot::Several(shares) => {
            for &(domain, load) in shares {
                with(domain, load);
            }
        }
    }
}
