//! Page walks: where the page table's entries are, and what waiting for them takes.

use super::tlb::PageWalks;
use super::{BLOCK, Hardware, LINE, Reader, entry_key, list_key};
use crate::cache::Hits;
use chiplet_recipes::mix;

impl Hardware<'_> {
    /// The page walks of a part of a graph's walk that reads so many pages of a table of `bytes`, in which it reads
    /// these blocks of the sample.
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

    /// The page walks of a block of a list, of a table of so many `bytes`. A scan waits for the entries of each page;
    /// those of a cache line come together.
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
