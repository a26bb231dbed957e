//! One domain's L3: a victim cache of its cores' L2s, which hands lines from one L2 to another.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::cache::Cache;

/// The L3 and what it knows of the L2s above it. A line is in the L3 after the last L2 has dropped it, and leaves it
/// when an L2 takes it. So what a domain holds is all L2s and the L3 together.
pub struct Domain(Mutex<Shelf>);

struct Shelf {
    cache: Cache,
    /// In how many L2s a line is: AMD's shadow tags.
    above: FxHashMap<u64, u16>,
}

impl Domain {
    /// An empty L3.
    #[must_use]
    pub fn new(bytes: u64, ways: usize) -> Self {
        Self(Mutex::new(Shelf {
            cache: Cache::of_bytes(bytes, ways),
            above: FxHashMap::default(),
        }))
    }

    /// An L2 takes `line` and drops `victim` for it. Tells whether the domain had the line.
    pub fn exchange(&self, line: u64, victim: Option<u64>) -> bool {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Shelf { cache, above } = &mut *guard;
        let holders = above.entry(line).or_default();
        *holders += 1;
        let had = *holders > 1 || cache.remove(spread(line));
        if let Some(victim) = victim
            && let Some(holders) = above.get_mut(&victim)
        {
            *holders -= 1;
            if *holders == 0 {
                above.remove(&victim);
                cache.insert(spread(victim), 0);
            }
        }
        had
    }
}

/// The L3's slices are chosen by a hash of the address, so strides do not pile up in few sets. Reversible.
fn spread(line: u64) -> u64 {
    line ^ (line >> 13 ^ line >> 26) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_from_a_siblings_l2_then_from_the_l3() {
        let domain = Domain::new(64 * 16, 16);
        assert!(!domain.exchange(1, None), "nobody has it");
        assert!(domain.exchange(1, None), "a sibling has it");
        domain.exchange(2, Some(1));
        assert!(domain.exchange(1, None), "one L2 still has it");
        domain.exchange(3, Some(1));
        domain.exchange(4, Some(1));
        assert!(domain.exchange(1, None), "the L3 has it");
        domain.exchange(5, Some(1));
        assert!(domain.exchange(1, None), "and again");
    }

    #[test]
    fn what_l2s_and_l3_have_no_room_for_is_gone() {
        let domain = Domain::new(64 * 2, 2);
        for line in 0..3 {
            domain.exchange(100 + line, None);
        }
        for line in 0..3 {
            domain.exchange(200 + line, Some(100 + line));
        }
        assert!(!domain.exchange(100, None), "two lines have come after it");
        assert!(domain.exchange(101, None) && domain.exchange(102, None));
    }

    #[test]
    fn no_two_lines_become_one() {
        let lines: std::collections::BTreeSet<u64> = (0..1 << 16).map(|n| spread(n << 7)).collect();
        assert_eq!(lines.len(), 1 << 16);
    }
}
