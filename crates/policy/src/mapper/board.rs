//! A board of seats for tables.
//!
//! Invariant of a [`Board`]: `load[d]` is the load of everything seated on domain `d`, up to floating-point rounding,
//! `tables[d]` the number of items with a seat there, and `budgets[d]` what those with load ask of its cache and link.

use std::cmp::Ordering;

use super::budget::Budget;
use super::item::Item;
use super::machine::Machine;

/// Where an item sits.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seat {
    Nowhere,
    /// On its current homes, with their weights.
    AsNow,
    One(usize),
    /// On each of these domains, with this much of its load.
    Several(Vec<(usize, f64)>),
}

/// All seats, and the load they make.
pub(super) struct Board {
    pub(super) seats: Vec<Seat>,
    pub(super) load: Vec<f64>,
    pub(super) tables: Vec<u32>,
    pub(super) budgets: Vec<Budget>,
}

impl Board {
    pub(super) fn new(items: usize, machine: &Machine) -> Self {
        Self {
            seats: vec![Seat::Nowhere; items],
            load: vec![0.0; machine.len()],
            tables: vec![0; machine.len()],
            budgets: machine.specs().iter().map(Budget::new).collect(),
        }
    }

    /// Seats `item`, number `index`, which must sit nowhere yet.
    pub(super) fn sit(&mut self, index: usize, item: &Item, seat: Seat) {
        for_each_share(item, &seat, |domain, load| {
            self.load[domain] += load;
            self.tables[domain] += 1;
            self.budgets[domain].take(item, load);
        });
        self.seats[index] = seat;
    }

    /// Takes `item`, number `index`, off its seat.
    pub(super) fn rise(&mut self, index: usize, item: &Item) -> Seat {
        let seat = std::mem::replace(&mut self.seats[index], Seat::Nowhere);
        for_each_share(item, &seat, |domain, load| {
            // Rounding must not leave a load below zero.
            self.load[domain] = (self.load[domain] - load).max(0.0);
            self.tables[domain] -= 1;
            self.budgets[domain].give_back(item, load);
        });
        seat
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
        for (item, seat) in items.iter().zip(&self.seats) {
            match seat {
                Seat::Several(shares) => {
                    for home in &machine.homes(shares) {
                        if let Some(domain) = machine.index(home.domain) {
                            load[domain] += item.load * home.share();
                        }
                    }
                }
                seat => for_each_share(item, seat, |domain, part| load[domain] += part),
            }
        }
        machine.peak(&load)
    }
}

/// Calls `with` for every domain that `seat` loads, and with how much of its load.
pub(super) fn for_each_share(item: &Item, seat: &Seat, mut with: impl FnMut(usize, f64)) {
    match seat {
        Seat::Nowhere => {}
        Seat::AsNow => {
            for &(domain, share) in item.homes() {
                with(domain, item.load * share);
            }
        }
        Seat::One(domain) => with(*domain, item.load),
        Seat::Several(shares) => {
            for &(domain, load) in shares {
                with(domain, load);
            }
        }
    }
}
