//! The search for pilots.
//!
//! The largest buckets of a part come first. A bucket takes the first pilot that gives its keys free slots. If there is
//! none, it takes the slots of as few and as small other buckets as there can be, which are then searched for again
//! (PtrHash, arXiv 2502.15539, section 3).

use std::collections::BinaryHeap;

use super::hash::{Hash, Shape, slots_of};

const FREE: u32 = u32::MAX;

/// A bucket of more keys has no pilots: they have some three. Keys that were chosen to meet in one shall not cost a
/// comparison of each with each.
const LARGE: usize = 64;

/// Buckets that were placed last, whose slots are not taken again.
const RECENT: usize = 16;

/// Why there are no pilots.
#[derive(Debug, PartialEq)]
pub(super) enum Unplaced {
    /// Two keys are equal: these, by number.
    Twice(u32, u32),
    /// No search is worth it with this seed.
    Seed,
}

/// The keys of one part, bucket by bucket.
struct Part<'a> {
    /// Of all keys, ordered by bucket.
    hashes: &'a [Hash],
    /// Where each bucket begins in them, and their number.
    starts: &'a [u32],
    slots: usize,
}

/// Keys by part and bucket.
pub(super) struct Sorted {
    /// The numbers of the keys.
    pub(super) keys: Vec<u32>,
    hashes: Vec<Hash>,
    /// Where each bucket of all parts begins, and the number of keys.
    starts: Vec<u32>,
}

impl Sorted {
    pub(super) fn new(shape: Shape, keys: &[u64]) -> Self {
        let bucket = |key: u64| {
            let (part, bucket) = shape.bucket(shape.hash(key));
            part * shape.buckets + bucket
        };
        let buckets = shape.parts * shape.buckets;
        let mut starts = vec![0_u32; buckets + 1];
        keys.iter().for_each(|&key| starts[bucket(key) + 1] += 1);
        for at in 0..buckets {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; keys.len()];
        for (&key, number) in keys.iter().zip(0..) {
            let next = &mut next[bucket(key)];
            numbers[*next as usize] = number;
            *next += 1;
        }
        let hashes = numbers
            .iter()
            .map(|&number| shape.hash(keys[number as usize]));
        Self {
            hashes: hashes.collect(),
            keys: numbers,
            starts,
        }
    }

    /// The keys of part `part`.
    pub(super) fn part(&self, shape: Shape, part: usize) -> std::ops::Range<usize> {
        let [from, to] = [part, part + 1].map(|part| self.starts[part * shape.buckets] as usize);
        from..to
    }

    /// Finds the pilots of part `part`.
    pub(super) fn place(
        &self,
        shape: Shape,
        part: usize,
        pilots: &mut [u8],
    ) -> Result<(), Unplaced> {
        let starts = &self.starts[part * shape.buckets..][..=shape.buckets];
        let part = Part {
            hashes: &self.hashes,
            starts,
            slots: slots_of(self.part(shape, part).len()),
        };
        part.check(&self.keys)?;
        part.place(pilots)
    }
}

impl Part<'_> {
    fn bucket(&self, bucket: u32) -> &[Hash] {
        let [from, to] = [0, 1].map(|next| self.starts[bucket as usize + next] as usize);
        &self.hashes[from..to]
    }

    /// Equal keys are in one bucket.
    fn check(&self, keys: &[u32]) -> Result<(), Unplaced> {
        for range in self.starts.windows(2) {
            let [from, to] = [range[0], range[1]].map(|at| at as usize);
            if to - from > LARGE {
                let mut sorted: Vec<usize> = (from..to).collect();
                sorted.sort_unstable_by_key(|&at| self.hashes[at]);
                let mut pairs = sorted.windows(2);
                let equal = pairs.find(|pair| self.hashes[pair[0]] == self.hashes[pair[1]]);
                return Err(match equal {
                    Some(pair) => Unplaced::Twice(keys[pair[0]], keys[pair[1]]),
                    None => Unplaced::Seed,
                });
            }
            for one in from..to {
                if let Some(other) =
                    (from..one).find(|&other| self.hashes[other] == self.hashes[one])
                {
                    return Err(Unplaced::Twice(keys[other], keys[one]));
                }
            }
        }
        Ok(())
    }

    fn place(&self, pilots: &mut [u8]) -> Result<(), Unplaced> {
        let mut taken = vec![FREE; self.slots];
        let buckets = 0..self.starts.len() as u32 - 1;
        let filled = buckets.map(|bucket| (self.bucket(bucket).len(), bucket));
        let mut waiting: BinaryHeap<(usize, u32)> = filled.filter(|&(keys, _)| keys > 0).collect();
        let mut recent = [FREE; RECENT];
        let mut left = 20 * waiting.len() + 1_000;
        while let Some((_, bucket)) = waiting.pop() {
            if left == 0 {
                return Err(Unplaced::Seed);
            }
            left -= 1;
            let hashes = self.bucket(bucket);
            // From another pilot each time, or two buckets could take each other's slots for ever.
            let first = (left as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            let tries = (0..=u8::MAX).map(|pilot| pilot.wrapping_add(first as u8));
            let free = |&pilot: &u8| {
                let slots = hashes.iter().map(|hash| hash.slot(pilot, self.slots));
                slots.clone().all(|slot| taken[slot] == FREE) && self.distinct(hashes, pilot)
            };
            let pilot = match tries.clone().find(free) {
                Some(pilot) => pilot,
                None => {
                    let cost = |pilot: u8| self.cost(hashes, pilot, &taken, &recent);
                    let cheapest = tries.filter_map(|pilot| Some((cost(pilot)?, pilot))).min();
                    let (_, pilot) = cheapest.ok_or(Unplaced::Seed)?;
                    for hash in hashes {
                        let other = taken[hash.slot(pilot, self.slots)];
                        if other != FREE {
                            let evicted = self.bucket(other);
                            for hash in evicted {
                                taken[hash.slot(pilots[other as usize], self.slots)] = FREE;
                            }
                            waiting.push((evicted.len(), other));
                        }
                    }
                    pilot
                }
            };
            for hash in hashes {
                taken[hash.slot(pilot, self.slots)] = bucket;
            }
            pilots[bucket as usize] = pilot;
            recent[left % RECENT] = bucket;
        }
        Ok(())
    }

    fn distinct(&self, hashes: &[Hash], pilot: u8) -> bool {
        let slot = |hash: &Hash| hash.slot(pilot, self.slots);
        let earlier = |at: usize| {
            hashes[..at]
                .iter()
                .all(|other| slot(other) != slot(&hashes[at]))
        };
        (1..hashes.len()).all(earlier)
    }

    /// What would have to be placed again: large buckets are the hardest. `None` if `pilot` cannot be taken.
    fn cost(&self, hashes: &[Hash], pilot: u8, taken: &[u32], recent: &[u32]) -> Option<usize> {
        if !self.distinct(hashes, pilot) {
            return None;
        }
        let others = hashes
            .iter()
            .map(|hash| taken[hash.slot(pilot, self.slots)]);
        let mut cost = 0;
        for other in others.filter(|&other| other != FREE) {
            if recent.contains(&other) {
                return None;
            }
            cost += self.bucket(other).len().pow(2);
        }
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that somebody has chosen to meet in one bucket cost no comparison of each with each, and another seed parts
    /// them.
    #[test]
    fn a_bucket_of_many_keys_is_left_to_another_seed() {
        let shape = Shape::of(3_000, 0);
        let meet = |key: &u64| shape.bucket(shape.hash(*key)) == (0, 0);
        let mut keys: Vec<u64> = (0..u64::MAX).filter(meet).take(LARGE + 36).collect();
        let place = |keys: &[u64], shape: Shape| {
            let mut pilots = vec![0; shape.buckets];
            Sorted::new(shape, keys).place(shape, 0, &mut pilots)
        };
        assert_eq!(place(&keys, shape), Err(Unplaced::Seed));
        assert_eq!(place(&keys, Shape { seed: 1, ..shape }), Ok(()));
        keys[7] = keys[90];
        let Err(Unplaced::Twice(one, other)) = place(&keys, shape) else {
            panic!("two keys are equal");
        };
        assert_eq!((one.min(other), one.max(other)), (7, 90));
    }
}
