//! A link to memory: so many bytes a second, and who comes when it is busy waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// Length of a slot, in picoseconds. Threads of one moment may ask in any order, so the link keeps a calendar of slots
/// and not the time at which it is free again.
const SLOT: u64 = 500_000;
const SLOTS: usize = 4096;
/// Low bits of a slot's word count lines, the others say which slot it is.
const COUNT_BITS: u32 = 20;

/// What a domain's cores, or a socket's domains, share on the way to memory.
pub struct Link {
    /// Lines that one slot carries.
    capacity: u64,
    slots: Box<[AtomicU64]>,
}

impl Link {
    /// A link of so many gigabytes (10^9 bytes) a second.
    #[must_use]
    pub fn new(gb_per_second: f64) -> Self {
        let capacity = (gb_per_second * 1e9 / 64.0 * SLOT as f64 * 1e-12).round() as u64;
        Self {
            capacity: capacity.max(1),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A line is asked for at `now`; returns how long it waits for its turn, in picoseconds.
    pub fn pass(&self, now: u64) -> u64 {
        let first = now / SLOT;
        for number in first..first + SLOTS as u64 / 2 {
            if let Some(before) = self.take(number) {
                if number > first {
                    return number * SLOT - now;
                }
                // M/D/1: with a share `use` of the slot taken, a line waits use / (2 (1 - use)) times its own time.
                let used = before as f64 / self.capacity as f64;
                let own = SLOT as f64 / self.capacity as f64;
                return (own * (used / (2.0 * (1.0 - used)))).min(SLOT as f64) as u64;
            }
        }
        SLOT * SLOTS as u64 / 2
    }

    /// Books a line in a slot; tells how many were there, unless it is full.
    fn take(&self, number: u64) -> Option<u64> {
        let slot = &self.slots[(number % SLOTS as u64) as usize];
        let mask = (1 << COUNT_BITS) - 1;
        let mut word = slot.load(Ordering::Relaxed);
        loop {
            // A slot that a later time has taken over is long past; nothing is known of it any more.
            let count = match (word >> COUNT_BITS).cmp(&number) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => word & mask,
                std::cmp::Ordering::Greater => return Some(0),
            };
            if count >= self.capacity {
                return None;
            }
            let next = number << COUNT_BITS | (count + 1);
            match slot.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(count),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_link_makes_nobody_wait() {
        let link = Link::new(64.0);
        assert_eq!(link.pass(0), 0);
        assert_eq!(link.pass(7 * SLOT), 0);
    }

    #[test]
    fn more_than_the_link_carries_waits_as_long_as_carrying_it_takes() {
        // 64 GB/s is a line a nanosecond.
        let link = Link::new(64.0);
        let waits: Vec<u64> = (0..10_000).map(|_| link.pass(0)).collect();
        let last = waits[9_999] as f64;
        assert!((9.0e6..10.0e6).contains(&last), "{last}");
        assert!(waits[0] < waits[9_999]);
    }

    #[test]
    fn half_used_costs_half_a_lines_time() {
        let link = Link::new(64.0);
        let waits: Vec<u64> = (0..251).map(|_| link.pass(0)).collect();
        assert_eq!(waits[250], 500, "0.5 / (2 * 0.5) of 1 ns");
    }
}
