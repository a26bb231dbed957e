//! Which of several domains that are about equally busy gets a table, where tables are placed by time.
//!
//! Time comes first: only domains are compared whose level with the table is near the least. Of those the table goes to
//! the one
//!
//! 1. with the fewest *tables of low reuse* too many. Such a table exceeds the domain's cache, so each pass over it
//!    evicts what the others have there. One beside warm tables is borne; a second one makes the domain's cache
//!    useless. Where no table fits the cache, there is nothing to protect and any number may share it;
//! 2. whose cache is asked to hold the fewest *bytes more than it has*. A table asks for its size, at most for the
//!    whole cache. Where the size of a cache is not known, all bytes count. They count twice where the table's memory
//!    is that of another package, if that is known: what the cache does not hold comes from farther away, over a link
//!    with less bandwidth than the memory behind it;
//! 3. of the package of its *memory*, if that is known;
//! 4. that is *nearest* to the table's present home: the same node, then the same package;
//! 5. that is least busy, then with the lowest id.
//!
//! Where tables are placed by traffic none of this counts, and the least loaded domain is taken as in arXiv 2605.10090.

use super::input::DomainSpec;
use super::item::Item;
use super::machine::Machine;

/// What the tables with load on one domain ask of its cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Size of the cache; 0 if unknown.
    cache: u64,
    /// Bytes that the cache is asked to hold.
    held: u128,
    /// Tables that exceed the cache, and those that do not.
    streams: u32,
    warm: u32,
}

impl Budget {
    pub(super) fn new(spec: &DomainSpec) -> Self {
        Self {
            cache: spec.cache_bytes,
            ..Self::default()
        }
    }

    /// Counts `item` in, which has some of its load here.
    pub(super) fn take(&mut self, item: &Item) {
        if item.load == 0.0 {
            return;
        }
        self.held += u128::from(self.asked_by(item));
        *self.kind_of(item) += 1;
    }

    /// Counts it out.
    pub(super) fn give_back(&mut self, item: &Item) {
        if item.load == 0.0 {
            return;
        }
        self.held -= u128::from(self.asked_by(item));
        *self.kind_of(item) -= 1;
    }

    /// Bytes that `item` asks the cache to hold.
    fn asked_by(&self, item: &Item) -> u64 {
        match self.cache {
            0 => item.size,
            cache => item.size.min(cache),
        }
    }

    fn kind_of(&mut self, item: &Item) -> &mut u32 {
        match self.cache > 0 && item.size > self.cache {
            true => &mut self.streams,
            false => &mut self.warm,
        }
    }

    /// Tables of low reuse beyond the first, if there is a warm one.
    fn streams_too_many(&self) -> u32 {
        match self.warm {
            0 => 0,
            _ => self.streams.saturating_sub(1),
        }
    }

    /// Bytes asked for beyond what the cache holds.
    fn over(&self) -> u128 {
        self.held.saturating_sub(u128::from(self.cache))
    }

    /// How well the domain would do with `item`: the least is the best.
    pub(super) fn rank(
        mut self,
        item: &Item,
        machine: &Machine,
        domain: usize,
    ) -> (u32, u128, bool, u8) {
        self.take(item);
        let distance = item
            .main_home()
            .map_or(0, |home| machine.distance(home, domain));
        let remote = item.is_remote(machine.spec(domain));
        let missing = self.over().saturating_mul(1 + u128::from(remote));
        (self.streams_too_many(), missing, remote, distance)
    }
}
