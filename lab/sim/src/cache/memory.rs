//! The caches of a machine: an L2 for each core, and for each domain what its L3 and its L2s hold together.
//!
//! AMD's L3 is a victim of the L2s: what lies in an L2 need not lie in the L3, and the L3 knows which L2 has a line and
//! gets it from there. So a domain holds as many blocks as its L3 and all its L2s together, and a block that is not in
//! the core's own L2 costs an L3 hit if it is anywhere in the domain. Another domain's caches are no faster than memory
//! and never count.
//!
//! Blocks are what traces name: a graph's row or list of links, 64 KiB of an inverted list. Replacement is least
//! recently used, fully associative, unless the machine tells its sets. Of graphs only a sample of the nodes is kept,
//! by a hash of the node, in caches that are smaller by as much; miss ratios stay the same but for chance (SHARDS:
//! Waldspurger and others, FAST 2015).

use super::hits::Hits;
use super::{Lru, sets::SetCaches};
use crate::machine::Ways;

pub(crate) enum Caches {
    /// Fully associative.
    Whole {
        /// For each worker.
        l2: Vec<Lru>,
        /// For each domain.
        all: Vec<Lru>,
    },
    /// In sets.
    Sets(SetCaches),
}

impl Caches {
    /// Caches that stand for those of a machine at `sample` of their size: `domains` are bytes of L3 and cores.
    pub(crate) fn new(
        domains: impl IntoIterator<Item = (u64, usize)>,
        l2_bytes: u64,
        ways: Option<Ways>,
        sample: f64,
    ) -> Self {
        let sampled = |bytes: u64| (bytes as f64 * sample) as u64;
        if let Some(ways) = ways {
            let domains = domains.into_iter();
            let domains = domains.map(|(l3_bytes, cores)| (sampled(l3_bytes), cores));
            return Self::Sets(SetCaches::new(domains, sampled(l2_bytes), ways));
        }
        let sized = |bytes: u64| Lru::new(sampled(bytes));
        let (mut l2, mut all) = (Vec::new(), Vec::new());
        for (l3_bytes, cores) in domains {
            l2.extend((0..cores).map(|_| sized(l2_bytes)));
            all.push(sized(l3_bytes + cores as u64 * l2_bytes));
        }
        Self::Whole { l2, all }
    }

    /// A worker of `domain` reads a block.
    pub(crate) fn read(
        &mut self,
        worker: usize,
        domain: usize,
        key: u64,
        bytes: u32,
        hits: &mut Hits,
    ) {
        let (l2, all) = match self {
            Self::Whole { l2, all } => (l2, all),
            Self::Sets(caches) => return caches.read(worker, domain, key, bytes, hits),
        };
        let near = l2[worker].touch(key, bytes);
        let there = all[domain].touch(key, bytes);
        match (near, there) {
            (true, _) => hits.l2 += 1,
            (false, true) => hits.l3 += 1,
            (false, false) => hits.memory += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_what_one_has_read_and_other_domains_do_not() {
        let mut caches = Caches::new([(100, 2), (100, 2)], 10, None, 1.0);
        let mut read = |worker, key| {
            let mut hits = Hits::default();
            caches.read(worker, worker / 2, key, 10, &mut hits);
            hits
        };
        assert_eq!(read(0, 1).memory, 1);
        assert_eq!(read(0, 1).l2, 1);
        assert_eq!(read(1, 1).l3, 1);
        assert_eq!(read(2, 1).memory, 1);
        assert_eq!(read(0, 2).memory, 1);
        assert_eq!(read(0, 1).l3, 1, "pushed out of the L2 by the other block");
    }
}
