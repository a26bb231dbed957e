//! Page walks: which addresses a core's TLB does not hold, where the page table's entries are, and what that takes.

use super::{BLOCK, Hardware, LINE, Reader, entry_key, list_key};
use crate::cache::{Hits, Lines};
use crate::machine::Pages;
use crate::trace::mix;

/// A core's second-level TLB: how many pages of which tables it holds, the last used table last.
///
/// Which rows of a graph lie on one page is not known, so all pages of a table are taken to be read equally often. A walk
/// compares no row twice, so that errs little with small pages; a popular page of a small table is read more often.
#[derive(Clone, Debug, Default)]
pub(super) struct Tlb {
    held: Vec<(u32, f64)>,
}

impl Tlb {
    /// A core reads from `reads` pages, each any of the table's `pages`. Returns for how many of them it has to walk.
    fn read(&mut self, table: u32, pages: f64, reads: f64, entries: f64) -> f64 {
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
    fn new(
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

impl Hardware<'_> {
    /// The page walks of a part of a graph's walk that reads so many pages of a table of `bytes`, in which it reads these
    /// blocks of the sample.
    pub(super) fn walk_pages(
        &mut self,
        by: Reader,
        (table, bytes): (u32, f64),
        reads: f64,
        blocks: &[u64],
        latency: f64,
    ) -> PageWalks {
        let costs = &self.machine.costs;
        let Some(pages) = costs.pages else {
            return PageWalks::default();
        };
        let all = (bytes / pages.bytes as f64).max(1.0);
        let count = self.tlbs[by.worker].read(table, all, reads, f64::from(pages.entries));
        let part = count / reads.max(1.0);
        // A sample of the page table's lines, to each of which as many nodes belong as do.
        let lines = bytes / pages.a_line() as f64 * self.prepared.sampling.sample;
        let lines = (lines as u64).max(1);
        let mut hits = Hits::default();
        let mut walked = 0.0;
        for &block in blocks {
            walked += part;
            if walked >= 1.0 {
                walked -= 1.0;
                let key = entry_key(table, mix(block) % lines);
                self.caches
                    .read(by.worker, by.domain, key, LINE as u32, &mut hits);
            }
        }
        let known = &mut self.found[by.worker].entries;
        *known = hits.parts().unwrap_or(*known);
        PageWalks::new(&pages, count, reads, *known, [costs.l3_ns, latency])
    }

    /// The page walks of a block of a list, of a table of so many `bytes`. A scan waits for the entries of each page; those
    /// of a cache line come together.
    pub(super) fn scan_pages(
        &mut self,
        by: Reader,
        (table, bytes): (u32, f64),
        (list, at): (u64, u64),
        block: f64,
        latency: f64,
    ) -> PageWalks {
        let costs = &self.machine.costs;
        let Some(pages) = costs.pages else {
            return PageWalks::default();
        };
        let all = (bytes / pages.bytes as f64).max(1.0);
        let reads = block / pages.bytes as f64;
        let count = self.tlbs[by.worker].read(table, all, reads, f64::from(pages.entries));
        let part = count / reads;
        let lines = block / pages.a_line() as f64;
        let key = list_key(table, list, (1 << 23) | (at / pages.a_line().max(BLOCK)));
        let kept = (lines.max(1.0) * LINE * self.prepared.sampling.sample) as u32;
        let mut hits = Hits::default();
        self.caches
            .read(by.worker, by.domain, key, kept.max(1), &mut hits);
        let found = hits.parts().unwrap_or_default();
        let waits = [costs.l3_ns, latency];
        let of_lines = PageWalks::new(&pages, lines * part, reads, found, waits);
        PageWalks {
            took: count * pages.walk_ns + lines * part * (of_lines.wait - pages.walk_ns),
            ..of_lines
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
