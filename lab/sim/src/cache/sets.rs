//! Caches of lines in sets, and an L3 that holds what its L2s have dropped.
//!
//! As on AMD's parts: a line that an L2 takes from the L3 leaves a place empty there, until a line that an L2 of the
//! domain drops comes to the same set. A line is dropped by its set, not by the cache.

use rustc_hash::FxHashMap;

use super::hits::Hits;
use crate::machine::Ways;
use chiplet_recipes::mix;

const LINE: u64 = 64;

/// A place that holds no line.
const EMPTY: u64 = u64::MAX;

/// A cache of lines, of whose sets each drops what was used longest ago.
struct Sets {
    sets: u64,
    ways: usize,
    /// Those of a set side by side, last used first.
    lines: Vec<u64>,
}

impl Sets {
    fn new(bytes: u64, ways: u32) -> Self {
        let sets = bytes / LINE / u64::from(ways);
        let ways = ways as usize;
        Self {
            sets,
            ways,
            lines: vec![EMPTY; sets as usize * ways],
        }
    }

    /// The set of a line. There is one.
    fn set(&mut self, line: u64) -> &mut [u64] {
        let at = (line % self.sets) as usize * self.ways;
        &mut self.lines[at..at + self.ways]
    }

    fn find(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let at = set.iter().position(|&held| held == line);
        if let Some(at) = at {
            set[..=at].rotate_right(1);
        }
        at.is_some()
    }

    /// Takes a line in that is not there; returns the one that had to go.
    fn insert(&mut self, line: u64) -> Option<u64> {
        let set = self.set(line);
        set.rotate_right(1);
        let gone = std::mem::replace(&mut set[0], line);
        (gone != EMPTY).then_some(gone)
    }

    /// Takes a line out; returns whether it was there.
    fn remove(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let at = set.iter().position(|&held| held == line);
        if let Some(at) = at {
            set[at..].rotate_left(1);
            set[set.len() - 1] = EMPTY;
        }
        at.is_some()
    }
}

/// A domain's L3, and in how many of its L2s each line is.
struct Shelf {
    l3: Sets,
    above: FxHashMap<u64, u32>,
}

pub(crate) struct SetCaches {
    /// For each worker.
    l2: Vec<Sets>,
    /// For each domain.
    shelves: Vec<Shelf>,
}

impl SetCaches {
    pub(super) fn new(
        domains: impl IntoIterator<Item = (u64, usize)>,
        l2_bytes: u64,
        ways: Ways,
    ) -> Self {
        let mut caches = Self {
            l2: Vec::new(),
            shelves: Vec::new(),
        };
        for (l3_bytes, cores) in domains {
            let l2 = (0..cores).map(|_| Sets::new(l2_bytes, ways.l2));
            caches.l2.extend(l2);
            caches.shelves.push(Shelf {
                l3: Sets::new(l3_bytes.max(LINE * u64::from(ways.l3)), ways.l3),
                above: FxHashMap::default(),
            });
        }
        caches
    }

    /// A worker of `domain` reads a block: its lines lie side by side, and count each. Blocks whose keys differ in the
    /// last 20 bits alone, as the nodes of a graph, lie one after the other.
    pub(super) fn read(
        &mut self,
        worker: usize,
        domain: usize,
        key: u64,
        bytes: u32,
        hits: &mut Hits,
    ) {
        let lines = u64::from(bytes).div_ceil(LINE);
        let (array, at) = (mix(key >> 20) >> 1, key & 0xf_ffff);
        let first = array + at * lines;
        let (l2, shelf) = (&mut self.l2[worker], &mut self.shelves[domain]);
        for line in first..first + lines {
            if l2.sets == 0 {
                match shelf.l3.find(line) {
                    true => hits.l3 += 1,
                    false => {
                        shelf.l3.insert(line);
                        hits.memory += 1;
                    }
                }
                continue;
            }
            if l2.find(line) {
                hits.l2 += 1;
                continue;
            }
            let holders = shelf.above.entry(line).or_default();
            *holders += 1;
            match *holders > 1 || shelf.l3.remove(line) {
                true => hits.l3 += 1,
                false => hits.memory += 1,
            }
            let Some(dropped) = l2.insert(line) else {
                continue;
            };
            let holders = shelf.above.get_mut(&dropped);
            let holders = holders.expect("a line that an L2 drops was in one");
            *holders -= 1;
            if *holders == 0 {
                shelf.above.remove(&dropped);
                shelf.l3.insert(dropped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Ways = Ways { l2: 2, l3: 2 };

    fn reader(l3_lines: u64, l2_lines: u64) -> impl FnMut(usize, u64) -> Hits {
        let mut caches = SetCaches::new([(l3_lines * LINE, 2)], l2_lines * LINE, WAYS);
        move |worker, key| {
            let mut hits = Hits::default();
            caches.read(worker, 0, key, LINE as u32, &mut hits);
            hits
        }
    }

    #[test]
    fn an_l3_has_what_l2s_have_dropped_and_what_siblings_hold() {
        // One set each.
        let mut read = reader(2, 2);
        for key in 0..4 {
            assert_eq!(read(0, key).memory, 1);
        }
        assert_eq!(read(0, 3).l2, 1);
        assert_eq!(read(1, 3).l3, 1, "in the sibling's L2");
        assert_eq!(read(0, 0).l3, 1, "dropped by the L2, held by the L3");
        // It left a place empty.
        assert_eq!(read(0, 1).l3, 1);
        assert_eq!(read(0, 9).memory, 1);
    }

    #[test]
    fn without_an_l2_it_is_one_cache_in_sets() {
        let mut read = reader(2, 0);
        let mut hits = |keys: std::ops::Range<u64>| -> u64 {
            let keys = keys.clone().chain(keys);
            keys.map(|key| read(0, key).l3).sum()
        };
        assert_eq!(hits(0..2), 2);
        assert_eq!(hits(10..13), 0, "a line more than there is room for");
    }

    #[test]
    fn a_block_is_as_many_lines_as_it_has() {
        let mut caches = SetCaches::new([(64 * LINE, 1)], 16 * LINE, WAYS);
        let mut hits = Hits::default();
        caches.read(0, 0, 1, 200, &mut hits);
        caches.read(0, 0, 1, 200, &mut hits);
        assert_eq!((hits.memory, hits.l2), (4, 4));
    }
}
