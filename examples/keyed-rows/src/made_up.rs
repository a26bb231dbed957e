//! Keys and values to try the server with: those of Cube's report, 40 bytes for each of the keys from 0 on.

use chiplet_index::{BuildError, KeyedRows, Pages};

/// Bytes of a value: ten features of four bytes.
pub const VALUE: usize = 40;

/// The value of `key`.
pub fn value(key: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    for (part, at) in value.as_chunks_mut::<8>().0.iter_mut().zip(0..) {
        *part = key
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(at)
            .to_le_bytes();
    }
    value
}

/// Which of `shards` has `key`.
pub fn shard(key: u64, shards: usize) -> usize {
    // Lemire, "Fast random integer generation in an interval", 2019: the high half of a product.
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * shards as u128) >> 64) as usize
}

/// Those of the first `keys` keys that shard `own` of `shards` has.
///
/// # Errors
/// There is no memory.
pub fn rows(keys: u64, own: usize, shards: usize, pages: Pages) -> Result<KeyedRows, BuildError> {
    let keys: Vec<u64> = (0..keys).filter(|&key| shard(key, shards) == own).collect();
    let values: Vec<[u8; VALUE]> = keys.iter().map(|&key| value(key)).collect();
    KeyedRows::build_in(&keys, VALUE, |at| &values[at], pages)
}
