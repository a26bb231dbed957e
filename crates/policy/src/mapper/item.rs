//! Tables as the mapper places them.

use super::input::{Demand, DomainSpec};
use super::machine::{Machine, clean};
use crate::{Homes, TableId};

/// A table to be placed.
pub(super) struct Item<'a> {
    pub(super) table: TableId,
    /// Clean, in the unit of what is balanced.
    pub(super) load: f64,
    /// Size in bytes; 0 unless tables are placed by time.
    pub(super) size: u64,
    /// The package of its memory, if tables are placed by time and it is known.
    memory: Option<u32>,
    /// Whether each package may have its memory.
    pub(super) everywhere: bool,
    /// Its homes in the current placement.
    pub(super) current: Option<&'a Homes>,
    /// Those of them that exist on the machine, sorted by position, with their parts of 1, which may sum to less.
    pub(super) homes: Vec<(usize, f64)>,
    /// How many homes it has to have, from 1 to the number of domains, whatever its load.
    pub(super) least_homes: usize,
    /// How many homes it should get.
    pub(super) wanted: usize,
}

impl<'a> Item<'a> {
    pub(super) fn new(demand: &Demand, current: Option<&'a Homes>, machine: &Machine) -> Self {
        let homes = current.into_iter().flatten();
        let by_time = machine.by_time();
        Self {
            table: demand.table,
            load: clean(demand.load),
            size: if by_time { demand.size } else { 0 },
            memory: demand.package.filter(|_| by_time && !demand.everywhere),
            everywhere: by_time && demand.everywhere,
            current,
            homes: homes
                .filter_map(|home| Some((machine.index(home.domain)?, home.share())))
                .collect(),
            least_homes: (demand.least_homes as usize).clamp(1, machine.len().max(1)),
            wanted: 1,
        }
    }

    /// Whether its memory lies in another package than `domain`.
    pub(super) fn is_remote(&self, domain: &DomainSpec) -> bool {
        self.memory.is_some_and(|package| package != domain.package)
    }

    /// Whether it may stay as it is: it has as many homes as it should, and none of them has vanished from the machine.
    pub(super) fn can_stay(&self) -> bool {
        let has = |homes: &Homes| homes.len() == self.wanted;
        self.homes.len() == self.wanted && self.current.is_some_and(has)
    }

    /// The current homes with the largest weights, no more than it wants; of equal ones the lowest.
    pub(super) fn heaviest_homes(&self) -> Vec<usize> {
        let mut homes = self.homes.clone();
        homes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let heaviest = homes.into_iter().take(self.wanted);
        heaviest.map(|(domain, _)| domain).collect()
    }

    /// The current home with the largest weight, the lowest of several.
    pub(super) fn main_home(&self) -> Option<usize> {
        let homes = self.homes.iter().copied();
        let heaviest = homes.reduce(|best, home| if home.1 > best.1 { home } else { best });
        heaviest.map(|(domain, _)| domain)
    }
}
