//! The best candidates of a walk, sorted, each marked once its links have been followed.
//!
//! One sorted array does the work of the two heaps of the original algorithm (arXiv 1603.09320, algorithm 2): a
//! candidate that drops out of the `ef` best would never be followed, because the walk ends at the first candidate that
//! is farther away than all of them.

/// A candidate as one number: distance, then node, then whether it has been followed. Numbers order as candidates do.
pub(super) type Key = u64;

const FOLLOWED: Key = 1;

/// Nodes are below this: 31 bits of a key.
pub(crate) const MAX_NODES: usize = 1 << 31;

pub(super) fn key(distance: f32, node: u32) -> Key {
    u64::from(ordered(distance)) << 32 | u64::from(node) << 1
}

/// A float's bits, changed so that they order as the float does.
fn ordered(x: f32) -> u32 {
    let bits = x.to_bits();
    bits ^ ((bits.cast_signed() >> 31).cast_unsigned() | 1 << 31)
}

fn unordered(bits: u32) -> f32 {
    let mask = ((bits.cast_signed() >> 31).cast_unsigned() ^ u32::MAX) | 1 << 31;
    f32::from_bits(bits ^ mask)
}

/// Up to `capacity` candidates, nearest first, of which the nearest `followable` are followed.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    keys: Vec<Key>,
    capacity: usize,
    followable: usize,
    /// All candidates before this one have been followed.
    next: usize,
    /// What a key must be below to enter.
    bound: Key,
}

impl Pool {
    /// Empties the pool, which then follows the nearest `followable` candidates and keeps `capacity`, at least as many
    /// and at least 1.
    pub(crate) fn reset(&mut self, followable: usize, capacity: usize) {
        self.keys.clear();
        self.keys.reserve(capacity + 1);
        (self.followable, self.capacity) = (followable, capacity);
        self.next = 0;
        self.bound = Key::MAX;
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a candidate would enter.
    #[inline]
    pub(super) fn admits(&self, key: Key) -> bool {
        key < self.bound
    }

    /// Adds a candidate that was not offered before, unless `capacity` others are nearer.
    #[inline]
    pub(super) fn offer(&mut self, key: Key) {
        if key >= self.bound {
            return;
        }
        let at = self.keys.partition_point(|&other| other < key);
        if self.keys.len() == self.capacity {
            self.keys.copy_within(at..self.capacity - 1, at + 1);
            self.keys[at] = key;
        } else {
            self.keys.insert(at, key);
        }
        if self.keys.len() == self.capacity {
            self.bound = self.keys[self.capacity - 1];
        }
        self.next = self.next.min(at);
    }

    /// The nearest candidate that has not been followed; it now is. None beyond those that are to be followed.
    #[inline]
    pub(crate) fn follow(&mut self) -> Option<u32> {
        if self.next >= self.followable {
            return None;
        }
        let key = self.keys.get_mut(self.next)?;
        let node = node(*key);
        *key |= FOLLOWED;
        let rest = &self.keys[self.next + 1..];
        let followed = rest.iter().position(|key| key & FOLLOWED == 0);
        self.next += 1 + followed.unwrap_or(rest.len());
        Some(node)
    }

    /// The candidates that [`Pool::follow`] would return, as far as is known now, the next one first.
    #[inline]
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = u32> {
        let end = self.followable.min(self.keys.len());
        let rest = self.keys.get(self.next..end).unwrap_or_default();
        let unfollowed = rest.iter().filter(|&key| key & FOLLOWED == 0);
        unfollowed.map(|&key| node(key))
    }

    /// How many of the nearest candidates have all been followed.
    #[inline]
    pub(crate) fn followed(&self) -> usize {
        self.next
    }

    /// All candidates, nearest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (f32, u32)> + Clone {
        let keys = self.keys.iter();
        keys.map(|&key| (distance(key), node(key)))
    }
}

pub(super) fn distance(key: Key) -> f32 {
    unordered((key >> 32) as u32)
}

pub(super) fn node(key: Key) -> u32 {
    key as u32 >> 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_the_nearest_and_follows_each_once(
            offers in proptest::collection::vec(-4i8..4, 0..60),
            capacity in 1usize..20,
            followable in 1usize..20,
            pace in 1usize..4,
        ) {
            let mut pool = Pool::default();
            let followable = capacity.min(followable);
            pool.reset(followable, capacity);
            let mut followed = Vec::new();
            for (node, &distance) in offers.iter().enumerate() {
                pool.offer(key(f32::from(distance), node as u32));
                if node % pace == 0 {
                    followed.extend(pool.follow());
                }
            }
            let mut sorted: Vec<(i8, u32)> =
                offers.iter().copied().zip(0..).collect();
            sorted.sort_unstable();
            sorted.truncate(capacity);
            let kept: Vec<(i8, u32)> = pool.iter().map(|(d, node)| (d as i8, node)).collect();
            prop_assert_eq!(&kept, &sorted);
            let upcoming: Vec<u32> = pool.upcoming().collect();
            let rest: Vec<u32> = std::iter::from_fn(|| pool.follow()).collect();
            prop_assert_eq!(&upcoming, &rest);
            followed.extend(rest);
            let mut unique = followed.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), followed.len());
            for &(_, node) in kept.iter().take(followable) {
                prop_assert!(followed.contains(&node));
            }
        }

        #[test]
        fn a_distance_comes_back_to_the_bit(x in any::<f32>()) {
            prop_assert_eq!(unordered(ordered(x)).to_bits(), x.to_bits());
        }

        #[test]
        fn bits_order_as_floats(a in -1e30f32..1e30, b in -1e30f32..1e30) {
            prop_assert_eq!(a < b, ordered(a) < ordered(b));
        }
    }
}
