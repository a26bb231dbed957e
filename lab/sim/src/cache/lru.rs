//! A set of blocks of a bounded size, of which the least recently used goes first.

use rustc_hash::FxHashMap;

/// No slot.
const NONE: u32 = u32::MAX;

/// A fully associative cache of blocks that may differ in size.
pub(crate) struct Lru {
    slots: FxHashMap<u64, u32>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// The most and the least recently used.
    newest: u32,
    oldest: u32,
    used: u64,
    capacity: u64,
}

#[derive(Clone, Copy)]
struct Block {
    key: u64,
    bytes: u32,
    newer: u32,
    older: u32,
}

impl Lru {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            slots: FxHashMap::default(),
            blocks: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            used: 0,
            capacity,
        }
    }

    /// Reads a block, which is in the cache from then on, unless it is larger than that. Returns whether it was before.
    pub(crate) fn touch(&mut self, key: u64, bytes: u32) -> bool {
        if let Some(&slot) = self.slots.get(&key) {
            if slot != self.newest {
                self.unlink(slot);
                self.push(slot);
            }
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        self.used += u64::from(bytes);
        while self.used > self.capacity {
            self.evict();
        }
        let block = Block {
            key,
            bytes,
            newer: NONE,
            older: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.blocks[slot as usize] = block;
                slot
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        };
        self.slots.insert(key, slot);
        self.push(slot);
        false
    }

    /// Bytes of the blocks in the cache.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    fn evict(&mut self) {
        let slot = self.oldest;
        self.unlink(slot);
        let block = self.blocks[slot as usize];
        self.slots.remove(&block.key);
        self.used -= u64::from(block.bytes);
        self.free.push(slot);
    }

    fn push(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        let block = &mut self.blocks[slot as usize];
        (block.newer, block.older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.blocks[before as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Block { newer, older, .. } = self.blocks[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Lru::new(30);
        for key in 0..3 {
            assert!(!cache.touch(key, 10));
        }
        assert!(cache.touch(0, 10));
        assert!(!cache.touch(3, 10), "takes the place of 1");
        assert!(cache.touch(0, 10) && cache.touch(2, 10));
        assert!(!cache.touch(1, 10));
        assert_eq!(cache.used(), 30);
    }

    #[test]
    fn a_cycle_that_is_a_block_too_long_never_hits() {
        let mut cache = Lru::new(8);
        let hits = (0..900_u64).filter(|turn| cache.touch(turn % 9, 1)).count();
        assert_eq!(hits, 0);
        let mut cache = Lru::new(9);
        let hits = (0..900_u64).filter(|turn| cache.touch(turn % 9, 1)).count();
        assert_eq!(hits, 891);
    }

    #[test]
    fn a_block_larger_than_the_cache_leaves_it_alone() {
        let mut cache = Lru::new(8);
        cache.touch(1, 8);
        assert!(!cache.touch(2, 9));
        assert!(cache.touch(1, 8));
    }
}
