//! Tables as items, and a board of seats.
//!
//! Invariant of a [`Board`]: `load[d]` is the load of everything seated on domain `d`, up to floating-point rounding,
//! `tables[d]` the number of items with a seat there, and `budgets[d]` what those with load ask of its cache and link.

use super::budget::Budget;
use super::input::{Demand, DomainSpec};
use super::machine::{Machine, clean};
use crate::{Homes, TableId};

/// A table to be seated.
pub(super) struct Item<'a> {
    pub(super) table: TableId,
    /// Clean, in the unit of what is balanced.
    pub(super) load: f64,
    /// Clean bytes per second over the links, and size in bytes; 0 unless tables are placed by time.
    pub(super) traffic: f64,
    pub(super) size: u64,
    /// NUMA node and package of its memory, if tables are placed by time and it is known.
    memory: Option<(u32, u32)>,
    /// Its homes in the current placement.
    pub(super) current: Option<&'a Homes>,
    /// Those of them that exist on the machine, with their parts of 1, which may sum to less.
    homes: CurrentHomes,
    /// How many homes it should get; more than 1 only with load.
    pub(super) wanted: usize,
}

/// Most tables have one home and should not cost an allocation.
enum CurrentHomes {
    None,
    One([(usize, f64); 1]),
    Several(Vec<(usize, f64)>),
}

impl<'a> Item<'a> {
    pub(super) fn new(demand: &Demand, current: Option<&'a Homes>, machine: &Machine) -> Self {
        let place = |home: &crate::Home| Some((machine.index(home.domain)?, home.share()));
        let homes = match current.map(Homes::as_slice) {
            None => CurrentHomes::None,
            Some([home]) => place(home).map_or(CurrentHomes::None, |at| CurrentHomes::One([at])),
            Some(several) => CurrentHomes::Several(several.iter().filter_map(place).collect()),
        };
        let by_time = machine.by_time();
        Self {
            table: demand.table,
            load: clean(demand.load),
            traffic: if by_time { clean(demand.traffic) } else { 0.0 },
            size: if by_time { demand.size } else { 0 },
            memory: demand.node.and_then(|node| machine.memory(node)),
            current,
            homes,
            wanted: 1,
        }
    }

    /// Current homes on this machine, with their parts of 1, sorted by position.
    pub(super) fn homes(&self) -> &[(usize, f64)] {
        match &self.homes {
            CurrentHomes::None => &[],
            CurrentHomes::One(home) => home,
            CurrentHomes::Several(homes) => homes,
        }
    }

    /// Whether its memory lies in another package than `domain`.
    pub(super) fn is_remote(&self, domain: &DomainSpec) -> bool {
        let far = |(node, package)| domain.node != node && domain.package != package;
        self.memory.is_some_and(far)
    }

    /// Whether none of its current homes has vanished from the machine.
    pub(super) fn all_homes_exist(&self) -> bool {
        self.current
            .is_some_and(|homes| homes.len() == self.homes().len())
    }
}

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

    /// Seats the items without load that sit nowhere: at home if they have one, since nothing is
    /// gained by moving them, else where the fewest tables per core are.
    pub(super) fn seat_idle(&mut self, items: &[Item], machine: &Machine) {
        let idle = |board: &Self, index: usize| {
            items[index].load == 0.0 && board.seats[index] == Seat::Nowhere
        };
        for (index, item) in items.iter().enumerate() {
            if idle(self, index)
                && let Some(home) = main_home(item)
            {
                self.sit(index, item, Seat::One(home));
            }
        }
        for (index, item) in items.iter().enumerate() {
            if idle(self, index) {
                let tables: Vec<f64> = self.tables.iter().map(|&count| f64::from(count)).collect();
                let domain = machine.least_loaded(&tables, 1.0);
                self.sit(index, item, Seat::One(domain));
            }
        }
    }
}

/// The current home with the largest weight, the lowest of several.
pub(super) fn main_home(item: &Item) -> Option<usize> {
    item.homes()
        .iter()
        .copied()
        .reduce(|best, home| if home.1 > best.1 { home } else { best })
        .map(|(domain, _)| domain)
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

/// Positions of the items with load, hottest first, ties by id (items are in id order).
pub(super) fn hottest_first(items: &[Item]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len())
        .filter(|&index| items[index].load > 0.0)
        .collect();
    order.sort_by(|&a, &b| items[b].load.total_cmp(&items[a].load).then(a.cmp(&b)));
    order
}
