//! On which sockets tables' memory should lie: near the workers that search it.
//!
//! Memory is never migrated page by page. It is copied, the copy is searched instead, and the original is given up, or
//! kept where the table has homes on both sockets and the memory budget allows two of it.
//!
//! A copy of `B` bytes is worth making when queries are expected to read more than [`EARNS`]` * B` bytes from another
//! socket within [`HORIZON`]: reading a line from there instead of from near memory costs about 90 ns more (110 and 199
//! ns, four misses under way), copying takes about 1.6 GB/s of a core, so `1.8 * B` bytes of misses pay for it; and of
//! the bytes that queries read, which is what is counted, caches have some. A copy is given up when less than
//! [`USED`]` * B` bytes of it were read within [`HORIZON`], for [`PATIENCE`] on end. Between the two thresholds nothing
//! changes, and a table's memory changes at most once in [`REST`].

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{DomainSpec, Homes, TableId, Time};

/// How far ahead a copy has to pay: as long as the slow window looks back.
const HORIZON: Duration = Duration::from_secs(60);

/// Bytes read from another socket within [`HORIZON`] for each byte copied.
const EARNS: f64 = 4.0;

/// The same for a copy that is there, below which it is not used.
const USED: f64 = 1.0;

/// How long a copy is kept that is not used.
const PATIENCE: Duration = Duration::from_secs(600);

/// Between two changes of a table's memory, also between one that failed and the next try.
const REST: Duration = Duration::from_secs(600);

/// What would bring a table's memory nearer to the workers that search it, or give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStep {
    /// The table.
    pub table: TableId,
    /// The package that gets the memory, or loses it.
    pub package: u32,
    /// What happens there.
    pub change: MemoryChange,
}

/// What happens with a table's memory on a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// It is copied there, and what there was elsewhere is given up.
    Move,
    /// It is copied there as well.
    Copy,
    /// What is there is given up. There is a copy elsewhere.
    Drop,
}

/// A table's memory.
#[derive(Clone, Debug, Default)]
struct Memory {
    size: u64,
    /// The packages that have the whole of it, and since when each has hardly been read; none if it is spread, or not
    /// known where it lies.
    packages: BTreeMap<u32, Option<Time>>,
    /// Not to be changed before.
    rests_until: Time,
}

/// The memory of all tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Memories(BTreeMap<TableId, Memory>);

impl Memories {
    /// A table's size, and the package that alone has its memory.
    pub(super) fn of(&self, table: TableId) -> (u64, Option<u32>) {
        let Some(memory) = self.0.get(&table) else {
            return (0, None);
        };
        (memory.size, memory.only())
    }

    /// Whether each of so many packages has its memory.
    pub(super) fn has_all(&self, table: TableId, packages: usize) -> bool {
        let held = self.0.get(&table).map_or(0, |memory| memory.packages.len());
        held > 1 && held >= packages
    }

    /// What copies take so that each of so many packages has its memory; `None` if none can begin by then: where it
    /// lies is not known, or it was moved, or could not be copied, a short time ago.
    pub(super) fn to_all(&self, table: TableId, packages: usize, by: Time) -> Option<u64> {
        let memory = self.0.get(&table)?;
        let is_known = !memory.packages.is_empty() && memory.size > 0;
        let can_begin = is_known && memory.rests_until <= by;
        let missing = packages.saturating_sub(memory.packages.len()) as u64;
        can_begin.then(|| memory.size.saturating_mul(missing))
    }

    /// What is left of a budget for copies beyond one of each table.
    pub(super) fn left_of(&self, budget: u64) -> u64 {
        match budget {
            0 => 0,
            _ => budget.saturating_sub(self.extra()),
        }
    }

    /// Sets both, without any copies; nothing changes before `rests_until`. Returns the size before.
    pub(super) fn set(
        &mut self,
        table: TableId,
        size: u64,
        package: Option<u32>,
        rests_until: Time,
    ) -> u64 {
        let memory = Memory {
            size,
            packages: package.into_iter().map(|package| (package, None)).collect(),
            rests_until,
        };
        let before = self.0.insert(table, memory);
        before.map_or(0, |before| before.size)
    }

    /// A table has grown or shrunk where it is. Returns the size before, if it is known at all.
    pub(super) fn resize(&mut self, table: TableId, size: u64) -> Option<u64> {
        let memory = self.0.get_mut(&table)?;
        Some(std::mem::replace(&mut memory.size, size))
    }

    /// Forgets a table. Returns its size.
    pub(super) fn remove(&mut self, table: TableId) -> u64 {
        self.0.remove(&table).map_or(0, |memory| memory.size)
    }

    /// The best next step of all tables, if any: the one that gains most for each byte copied, where copies beyond one
    /// of each table may take `budget` bytes. `rates` says how many bytes a second each package's workers read of a
    /// table.
    pub(super) fn next_step(
        &mut self,
        budget: u64,
        now: Time,
        rates: impl Fn(TableId) -> BTreeMap<u32, f64>,
    ) -> Option<MemoryStep> {
        let extra = self.left_of(budget);
        let steps = self.0.iter_mut().filter_map(|(&table, memory)| {
            let (package, change, gained) = memory.step(&rates(table), extra, now)?;
            let step = MemoryStep {
                table,
                package,
                change,
            };
            Some((step, gained))
        });
        let best = steps.max_by(|one, other| one.1.total_cmp(&other.1));
        best.map(|(step, _)| step)
    }

    /// A step was taken at `now`, or could not be.
    pub(super) fn took(&mut self, step: MemoryStep, done: bool, now: Time) {
        let Some(memory) = self.0.get_mut(&step.table) else {
            return;
        };
        memory.rests_until = now + REST;
        if done {
            memory.take(step.package, step.change);
        }
    }

    /// Bytes of all copies beyond one of each table.
    fn extra(&self) -> u64 {
        let extra = |memory: &Memory| memory.size * (memory.packages.len().max(1) as u64 - 1);
        self.0.values().map(extra).sum()
    }
}

impl Memory {
    /// The package that alone has it.
    fn only(&self) -> Option<u32> {
        let first = self.packages.keys().next().copied();
        first.filter(|_| self.packages.len() == 1)
    }

    /// Whether so many bytes a second are worth a copy, or keep one, at `least` bytes for each of its own.
    fn is_worth(&self, rate: f64, least: f64) -> bool {
        rate * HORIZON.as_secs_f64() > least * self.size as f64
    }

    /// The best step for this table of which each package's workers read so many bytes a second, if `extra` more bytes
    /// may be taken for copies; with how much is gained for each byte.
    fn step(
        &mut self,
        rates: &BTreeMap<u32, f64>,
        extra: u64,
        now: Time,
    ) -> Option<(u32, MemoryChange, f64)> {
        let rate = |package: u32| rates.get(&package).copied().unwrap_or(0.0);
        let mut packages = std::mem::take(&mut self.packages);
        for (&package, unused) in &mut packages {
            *unused = match self.is_worth(rate(package), USED) {
                true => None,
                false => unused.or(Some(now)),
            };
        }
        self.packages = packages;
        if self.packages.is_empty() || self.size == 0 || now < self.rests_until {
            return None;
        }
        if self.packages.len() > 1 {
            let waited = |since: &Option<Time>| since.is_some_and(|at| now.since(at) >= PATIENCE);
            let unused = self.packages.iter().find(|(_, since)| waited(since));
            if let Some((&package, _)) = unused {
                return Some((package, MemoryChange::Drop, f64::INFINITY));
            }
        }
        let far = rates
            .iter()
            .filter(|(package, _)| !self.packages.contains_key(package));
        let (&package, &most) = far.max_by(|one, other| one.1.total_cmp(other.1))?;
        let gained = |rate: f64| rate / self.size as f64;
        if let Some(here) = self.only()
            && self.is_worth(most - rate(here), EARNS)
            && !(self.is_worth(rate(here), EARNS) && extra >= self.size)
        {
            return Some((package, MemoryChange::Move, gained(most - rate(here))));
        }
        let copies = self.is_worth(most, EARNS) && extra >= self.size;
        copies.then_some((package, MemoryChange::Copy, gained(most)))
    }

    fn take(&mut self, package: u32, change: MemoryChange) {
        match change {
            MemoryChange::Move => self.packages = BTreeMap::from([(package, None)]),
            MemoryChange::Copy => _ = self.packages.insert(package, None),
            MemoryChange::Drop if self.packages.len() > 1 => _ = self.packages.remove(&package),
            MemoryChange::Drop => {}
        }
    }
}

/// So many bytes a second, as they are read by the workers of each package.
pub(super) fn by_package(homes: &Homes, domains: &[DomainSpec], bytes: f64) -> BTreeMap<u32, f64> {
    let mut rates = BTreeMap::new();
    for home in homes {
        if let Some(spec) = domains.iter().find(|spec| spec.id == home.domain) {
            *rates.entry(spec.package).or_insert(0.0) += bytes * home.share();
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 600;

    fn memory(packages: &[u32]) -> Memory {
        Memory {
            size: SIZE,
            packages: packages.iter().map(|&package| (package, None)).collect(),
            rests_until: Time::ZERO,
        }
    }

    fn step(
        memory: &mut Memory,
        rates: &[(u32, f64)],
        extra: u64,
        now: Time,
    ) -> Option<(u32, MemoryChange)> {
        let rates = rates.iter().copied().collect();
        let step = memory.step(&rates, extra, now);
        step.map(|(package, change, _)| (package, change))
    }

    #[test]
    fn memory_follows_who_reads_it() {
        let at = Time::from_secs(9);
        // 40 bytes a second are four times the table in a minute.
        let is = |rates: &[(u32, f64)], extra| step(&mut memory(&[0]), rates, extra, at);
        assert_eq!(is(&[(1, 40.0)], 0), None);
        assert_eq!(is(&[(1, 40.1)], 0), Some((1, MemoryChange::Move)));
        // What is read near it is lost.
        assert_eq!(is(&[(0, 10.0), (1, 50.0)], 0), None);
        assert_eq!(
            is(&[(0, 10.0), (1, 50.1)], SIZE),
            Some((1, MemoryChange::Move))
        );
        assert_eq!(is(&[(0, 100.0), (1, 100.0)], 0), None);
        assert_eq!(is(&[(0, 100.0), (1, 100.0)], SIZE - 1), None);
        assert_eq!(
            is(&[(0, 100.0), (1, 100.0)], SIZE),
            Some((1, MemoryChange::Copy))
        );
        // Most of it here, and enough there.
        assert_eq!(
            is(&[(0, 900.0), (1, 41.0)], SIZE),
            Some((1, MemoryChange::Copy))
        );
        // Where it lies is not known.
        assert_eq!(step(&mut memory(&[]), &[(1, 1e9)], SIZE, at), None);
    }

    #[test]
    fn a_copy_goes_when_it_was_not_used_for_ten_minutes() {
        let mut copied = memory(&[0, 1]);
        let mut at = |seconds, rates: &[(u32, f64)]| {
            step(&mut copied, rates, SIZE, Time::from_secs(seconds))
        };
        let little = [(0, 100.0), (1, 9.0)];
        assert_eq!(at(1, &little), None);
        assert_eq!(at(600, &little), None);
        assert_eq!(at(601, &[(0, 100.0), (1, 11.0)]), None);
        assert_eq!(at(700, &little), None);
        assert_eq!(at(1_300, &little), Some((1, MemoryChange::Drop)));
        // The original goes in the same way.
        let mut left = memory(&[0, 1]);
        assert_eq!(step(&mut left, &[(1, 100.0)], 0, Time::from_secs(1)), None);
        let drop = step(&mut left, &[(1, 100.0)], 0, Time::from_secs(601));
        assert_eq!(drop, Some((0, MemoryChange::Drop)));
        left.take(0, MemoryChange::Drop);
        assert_eq!(left.only(), Some(1));
        left.take(1, MemoryChange::Drop);
        assert_eq!(left.only(), Some(1), "the last is kept");
    }

    proptest! {
        /// Whatever is read, a step is possible, keeps to the budget, and once taken is not undone under the same load.
        #[test]
        fn steps_are_possible_and_final(
            rates in prop::collection::vec(0.0..200.0_f64, 3),
            held in prop::sample::subsequence(vec![0_u32, 1, 2], 1..=3),
            extra in prop_oneof![Just(0), 0..3 * SIZE],
        ) {
            let rates: Vec<(u32, f64)> = (0..).zip(rates).collect();
            let mut memory = memory(&held);
            let (mut extra, mut now, mut taken) = (extra, Time::from_secs(1), Vec::new());
            for _ in 0..40 {
                if let Some((package, change)) = step(&mut memory, &rates, extra, now) {
                    let is_held = memory.packages.contains_key(&package);
                    prop_assert_eq!(is_held, change == MemoryChange::Drop);
                    match change {
                        MemoryChange::Copy => {
                            prop_assert!(extra >= SIZE);
                            extra -= SIZE;
                        }
                        MemoryChange::Drop => extra += SIZE,
                        MemoryChange::Move => {}
                    }
                    memory.take(package, change);
                    prop_assert!(!memory.packages.is_empty());
                    taken.push((package, change));
                }
                now += PATIENCE;
            }
            // A copy and a drop for each package, or one move: nothing goes round in circles.
            prop_assert!(taken.len() <= 4, "{:?}", taken);
        }
    }
}
