//! The complex model: `chiplet_ranking` over each table.

use std::path::Path;
use std::sync::Arc;

use chiplet_index::{AnyTable, KeyedRows, Pages};
use chiplet_ranking::{Network, Ranking, inputs};
use chiplet_table::Table;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

/// Features of a row: 32 values.
const FEATURE_BYTES: usize = 32 * size_of::<f32>();

/// Bytes of the features of so many rows: a key and a value each, and 1/32 for what finds them.
pub(super) fn bytes(rows: usize) -> u64 {
    let slots = rows * (size_of::<u64>() + FEATURE_BYTES);
    (slots + slots / 32) as u64
}

/// Writes made-up features of `rows` rows, the same for the same seed.
pub(super) fn save_features(path: &Path, rows: usize, seed: u64) -> anyhow::Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let values = rows * FEATURE_BYTES / size_of::<f32>();
    let bytes: Vec<u8> = (0..values)
        .flat_map(|_| random.random::<f32>().to_le_bytes())
        .collect();
    let keys: Vec<u64> = (0..rows as u64).collect();
    let features = KeyedRows::build(&keys, FEATURE_BYTES, |row| {
        &bytes[row * FEATURE_BYTES..][..FEATURE_BYTES]
    })?;
    Ok(features.save(path)?)
}

/// `inner`, whose answers are ranked by the features in this file.
pub(super) fn ranked(
    inner: AnyTable,
    features: &Path,
    seed: u64,
) -> anyhow::Result<Arc<dyn Table>> {
    let features = KeyedRows::load(features, Pages::default())?;
    let network = Network::random(inputs(inner.dim(), FEATURE_BYTES), seed);
    Ok(Arc::new(Ranking::new(inner, features, network)?))
}
