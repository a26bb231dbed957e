//! The working values of the mapper: a machine by position, tables as items, and a board of seats.
//!
//! Invariant of a [`Board`]: `load[d]` is the traffic of everything seated on domain `d`, up to
//! floating-point rounding, and `tables[d]` the number of items with a seat there.

use chiplet_topology::DomainId;

use super::DomainSpec;
use crate::{Homes, TableId};

/// More traffic than any machine has; keeps sums of clean values finite.
const MOST_TRAFFIC: f64 = 1e18;

/// A traffic that can be computed with and ordered: finite and not negative, and no -0.0, which an empty sum is.
pub(super) fn clean(traffic: f64) -> f64 {
    if traffic.is_finite() {
        traffic.clamp(0.0, MOST_TRAFFIC) + 0.0
    } else {
        0.0
    }
}

/// The domains that can be home to tables, sorted by id, each once; named by their position.
pub(super) struct Machine {
    domains: Vec<DomainSpec>,
    total_cores: f64,
    /// Of the capacities that are known.
    mean_capacity: Option<f64>,
}

impl Machine {
    pub(super) fn new(domains: &[DomainSpec]) -> Self {
        let mut domains = domains.to_vec();
        domains.sort_by_key(|spec| spec.id);
        domains.dedup_by_key(|spec| spec.id);
        if domains.iter().any(|spec| spec.cores > 0) {
            domains.retain(|spec| spec.cores > 0);
        }
        for spec in &mut domains {
            spec.cores = spec.cores.max(1);
            spec.capacity = spec.capacity.map(clean).filter(|&capacity| capacity > 0.0);
        }
        let total_cores = domains.iter().map(|spec| f64::from(spec.cores)).sum();
        let known: Vec<f64> = domains.iter().filter_map(|spec| spec.capacity).collect();
        let mean_capacity =
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        Self {
            domains,
            total_cores,
            mean_capacity,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.domains.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    pub(super) fn specs(&self) -> &[DomainSpec] {
        &self.domains
    }

    pub(super) fn id(&self, domain: usize) -> DomainId {
        self.domains[domain].id
    }

    pub(super) fn index(&self, id: DomainId) -> Option<usize> {
        self.domains.binary_search_by_key(&id, |spec| spec.id).ok()
    }

    /// Homes with weights in proportion to these parts of a table's traffic.
    pub(super) fn homes(&self, shares: &[(usize, f64)]) -> Homes {
        let shares = shares
            .iter()
            .map(|&(domain, share)| (self.id(domain), share));
        Homes::from_shares(shares).expect("a table with several homes has traffic")
    }

    pub(super) fn cores(&self, domain: usize) -> f64 {
        f64::from(self.domains[domain].cores)
    }

    pub(super) fn capacity(&self, domain: usize) -> Option<f64> {
        self.domains[domain].capacity
    }

    /// Mean of the capacities that are known.
    pub(super) fn mean_capacity(&self) -> Option<f64> {
        self.mean_capacity
    }

    /// Traffic per core if `total` lay evenly.
    pub(super) fn mean(&self, total: f64) -> f64 {
        if self.is_empty() {
            0.0
        } else {
            total / self.total_cores
        }
    }

    /// Traffic per core of the busiest domain.
    pub(super) fn peak(&self, load: &[f64]) -> f64 {
        load.iter()
            .enumerate()
            .map(|(domain, load)| load / self.cores(domain))
            .fold(0.0, f64::max)
    }

    /// The domain that would be least loaded, per core, with `extra` added to it; the lowest of several.
    pub(super) fn least_loaded(&self, load: &[f64], extra: f64) -> usize {
        let with_extra = |domain: usize| (load[domain] + extra) / self.cores(domain);
        (1..self.len()).fold(0, |best, domain| {
            if with_extra(domain) < with_extra(best) {
                domain
            } else {
                best
            }
        })
    }
}

/// A table to be seated.
pub(super) struct Item<'a> {
    pub(super) table: TableId,
    /// Clean bytes per second.
    pub(super) traffic: f64,
    /// Its homes in the current placement.
    pub(super) current: Option<&'a Homes>,
    /// Those of them that exist on the machine, with their parts of 1, which may sum to less.
    homes: CurrentHomes,
    /// How many homes it should get; more than 1 only with traffic.
    pub(super) wanted: usize,
}

/// Most tables have one home and should not cost an allocation.
enum CurrentHomes {
    None,
    One([(usize, f64); 1]),
    Several(Vec<(usize, f64)>),
}

impl<'a> Item<'a> {
    pub(super) fn new(
        table: TableId,
        traffic: f64,
        current: Option<&'a Homes>,
        machine: &Machine,
    ) -> Self {
        let place = |home: &crate::Home| Some((machine.index(home.domain)?, home.share()));
        let homes = match current.map(Homes::as_slice) {
            None => CurrentHomes::None,
            Some([home]) => place(home).map_or(CurrentHomes::None, |at| CurrentHomes::One([at])),
            Some(several) => CurrentHomes::Several(several.iter().filter_map(place).collect()),
        };
        Self {
            table,
            traffic,
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
    /// On each of these domains, with this much of its traffic in bytes per second.
    Several(Vec<(usize, f64)>),
}

/// All seats, and the load they make.
pub(super) struct Board {
    pub(super) seats: Vec<Seat>,
    pub(super) load: Vec<f64>,
    pub(super) tables: Vec<u32>,
}

impl Board {
    pub(super) fn new(items: usize, machine: &Machine) -> Self {
        Self {
            seats: vec![Seat::Nowhere; items],
            load: vec![0.0; machine.len()],
            tables: vec![0; machine.len()],
        }
    }

    /// Seats `item`, number `index`, which must sit nowhere yet.
    pub(super) fn sit(&mut self, index: usize, item: &Item, seat: Seat) {
        for_each_share(item, &seat, |domain, traffic| {
            self.load[domain] += traffic;
            self.tables[domain] += 1;
        });
        self.seats[index] = seat;
    }

    /// Takes `item`, number `index`, off its seat.
    pub(super) fn rise(&mut self, index: usize, item: &Item) -> Seat {
        let seat = std::mem::replace(&mut self.seats[index], Seat::Nowhere);
        for_each_share(item, &seat, |domain, traffic| {
            // Rounding must not leave a load below zero.
            self.load[domain] = (self.load[domain] - traffic).max(0.0);
            self.tables[domain] -= 1;
        });
        seat
    }

    /// Traffic per core of the busiest domain.
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
                            load[domain] += item.traffic * home.share();
                        }
                    }
                }
                seat => for_each_share(item, seat, |domain, traffic| load[domain] += traffic),
            }
        }
        machine.peak(&load)
    }

    /// Seats the items without traffic that sit nowhere: at home if they have one, since nothing is
    /// gained by moving them, else where the fewest tables per core are.
    pub(super) fn seat_idle(&mut self, items: &[Item], machine: &Machine) {
        let idle = |board: &Self, index: usize| {
            items[index].traffic == 0.0 && board.seats[index] == Seat::Nowhere
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

/// Calls `with` for every domain that `seat` loads, and by how many bytes per second.
pub(super) fn for_each_share(item: &Item, seat: &Seat, mut with: impl FnMut(usize, f64)) {
    match seat {
        Seat::Nowhere => {}
        Seat::AsNow => {
            for &(domain, share) in item.homes() {
                with(domain, item.traffic * share);
            }
        }
        Seat::One(domain) => with(*domain, item.traffic),
        Seat::Several(shares) => {
            for &(domain, traffic) in shares {
                with(domain, traffic);
            }
        }
    }
}

/// Positions of the items with traffic, hottest first, ties by id (items are in id order).
pub(super) fn hottest_first(items: &[Item]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len())
        .filter(|&index| items[index].traffic > 0.0)
        .collect();
    order.sort_by(|&a, &b| {
        items[b]
            .traffic
            .total_cmp(&items[a].traffic)
            .then(a.cmp(&b))
    });
    order
}
