//! Which addresses a core's TLB does not hold.

use crate::cache::Lines;
use crate::machine::Pages;

/// A core's second-level TLB: how many pages of which tables it holds, the last used table last.
///
/// Which rows of a graph lie on one page is not known, so all pages of a table are taken to be read equally often. A
/// walk compares no row twice, so that errs little with small pages; a popular page of a small table is read more
/// often.
#[derive(Clone, Debug, Default)]
pub(super) struct Tlb {
    held: Vec<(u32, f64)>,
}

impl Tlb {
    /// A core reads from `reads` pages, each any of the table's `pages`. Returns for how many of them it has to walk.
    pub(super) fn read(&mut self, table: u32, pages: f64, reads: f64, entries: f64) -> f64 {
        let place = self.held.iter().position(|&(held, _)| held == table);
        let before = place.map_or(0.0, |place| self.held.remove(place).1);
        let not_read = (1.0 - 1.0 / pages.max(1.0)).powf(reads);
        let after = (pages - (pages - before) * not_read).min(entries);
        let mut room = entries - after;
        for (_, held) in self.held.iter_mut().rev() {
            *held = held.min(room);
            room -= *held;
        }
        self.held.retain(|&(_, held)| held > 0.0);
        self.held.push((table, after));
        // Pages that are new there; or as many as a full TLB misses.
        (after - before).max(reads * (1.0 - after / pages.max(1.0)))
    }
}

/// The page walks of a reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageWalks {
    /// How many, of all pages read.
    pub(super) part: f64,
    /// Nanoseconds of each.
    pub(super) wait: f64,
    /// Nanoseconds of all, as many at a time as a core has walkers.
    pub(super) took: f64,
    /// Lines of the page table that were not in an L2.
    pub(super) lines: Lines,
}

impl PageWalks {
    pub(super) fn new(
        pages: &Pages,
        count: f64,
        reads: f64,
        [l3, memory]: [f64; 2],
        [l3_ns, memory_ns]: [f64; 2],
    ) -> Self {
        let wait = pages.walk_ns + l3 * l3_ns + memory * memory_ns;
        Self {
            part: count / reads.max(1.0),
            wait,
            took: count * wait / pages.walkers,
            lines: Lines {
                l2: count * (1.0 - l3 - memory),
                l3: count * l3,
                memory: count * memory,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_within_reach_is_walked_for_once_and_a_large_one_always() {
        let mut tlb = Tlb::default();
        assert!((tlb.read(0, 100.0, 10_000.0, 3_072.0) - 100.0).abs() < 1e-6);
        assert!(tlb.read(0, 100.0, 10_000.0, 3_072.0) < 1e-6);
        // Fills all of it, and pushes the first out.
        let walks = tlb.read(1, 3e6, 50_000.0, 3_072.0);
        assert!((walks / 50_000.0 - 1.0).abs() < 2e-3, "{walks}");
        assert!((tlb.read(0, 100.0, 10_000.0, 3_072.0) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn tables_share_the_entries_and_the_one_used_longest_ago_loses_its_own() {
        let mut tlb = Tlb::default();
        for table in 0..3 {
            tlb.read(table, 40.0, 1_000.0, 100.0);
        }
        assert!(tlb.read(2, 40.0, 1_000.0, 100.0) < 1e-6);
        assert!(tlb.read(1, 40.0, 1_000.0, 100.0) < 1e-6);
        let walks = tlb.read(0, 40.0, 1_000.0, 100.0);
        assert!(
            (walks - 20.0).abs() < 1e-6,
            "half of them were left: {walks}"
        );
    }
}
