//! Which slot a key has: a perfect hash, of 2.7 bits a key.
//!
//! As PTHash and PtrHash do it (arXiv 2104.10402, 2502.15539). A key's hash names a *part* of the slots and in it a
//! *bucket* of some three keys. Each bucket has a *pilot*, a byte that was searched for when the table was built, so
//! that the keys of all buckets of a part have different slots:
//!
//! ```text
//! slot = start of the part + hash of (key, pilot), as a share of the part's slots
//! ```
//!
//! A part has its own 32,768 keys or so, so that the search for its pilots stays in a core's own cache. Of 100 slots 98
//! are used. The crate `ptr_hash` uses 99 of 100 and a table for the rest; its pilots cannot lie in a table's file, and
//! it reads them unchecked, which a damaged file must not cause.

use serde::{Deserialize, Serialize};

/// Keys of a part, about.
const PART: usize = 1 << 15;

/// Keys of a bucket, on average.
const BUCKET: usize = 3;

/// The most keys: slots are counted in 32 bits.
pub(super) const MAX_KEYS: usize = 4_000_000_000;

/// Slots of a part with so many keys.
pub(super) fn slots_of(keys: usize) -> usize {
    keys + keys.div_ceil(49)
}

/// How keys are spread over parts and buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) parts: usize,
    /// Of each part.
    pub(super) buckets: usize,
}

/// A key's hash. Different keys have different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hash(u64);

impl Shape {
    pub(super) fn of(keys: usize, seed: u64) -> Self {
        let parts = keys.div_ceil(PART).max(1);
        Self {
            seed,
            parts,
            buckets: keys.div_ceil(parts * BUCKET).max(1),
        }
    }

    /// Pilots of all parts; `None` if no memory holds so many.
    pub(super) fn pilots(&self) -> Option<usize> {
        self.parts.checked_mul(self.buckets)
    }

    /// The finalizer of MurmurHash3, which maps no two numbers to one.
    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> Hash {
        let mut x = key ^ self.seed;
        x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        Hash(x ^ x >> 33)
    }

    /// The part of a hash, and the bucket in it.
    #[inline(always)]
    pub(super) fn bucket(&self, Hash(hash): Hash) -> (usize, usize) {
        let (part, rest) = share(hash, self.parts);
        (part, share(rest, self.buckets).0)
    }
}

impl Hash {
    /// The slot, of so many.
    #[inline(always)]
    pub(super) fn slot(self, pilot: u8, slots: usize) -> usize {
        let turned = self.0 ^ (u64::from(pilot) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        share(turned.wrapping_mul(0xd6e8_feb8_6659_fd93), slots).0
    }
}

/// `hash` as a share of `of` (Lemire's reduction, arXiv 1805.10941), and what it leaves.
#[inline(always)]
fn share(hash: u64, of: usize) -> (usize, u64) {
    let product = u128::from(hash) * of as u128;
    ((product >> 64) as usize, product as u64)
}
