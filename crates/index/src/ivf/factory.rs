//! From a part of a factory string to what Faiss trains of it. What a string can get wrong and `description` did not
//! refuse comes back as Faiss' own message.

use faiss::index::{Index, IndexImpl, index_factory};
use faiss::{MetricType, error};

use super::ffi;
use crate::error::BuildError;
use crate::metric::Metric;

/// The untrained index that Faiss makes of `factory`.
pub(super) fn by_name(factory: &str, dim: usize, metric: Metric) -> Result<IndexImpl, BuildError> {
    // Faiss counts dimensions in an int.
    let limit = i32::MAX as usize;
    if dim > limit {
        return Err(BuildError::DimensionTooLarge { dim, limit });
    }
    let metric = match metric {
        Metric::L2 => MetricType::L2,
        // Cosine is the inner product of rows and queries of length 1.
        Metric::Cosine | Metric::InnerProduct => MetricType::InnerProduct,
    };
    index_factory(dim as u32, factory, metric).map_err(|error| BuildError::Factory {
        factory: factory.to_owned(),
        reason: message(error),
    })
}

/// The map `factory` (`PCA32`, `OPQ8_64`) for rows of `dim`, trained on `rows`: how many components it takes, its
/// matrix, and what is added.
pub(super) fn linear(
    factory: &str,
    dim: usize,
    metric: Metric,
    rows: &[f32],
) -> Result<(usize, Vec<f32>, Vec<f32>), BuildError> {
    // An index that takes no training of its own.
    let mut index = by_name(&format!("{factory},Flat"), dim, metric)?;
    train(&mut index, rows)?;
    let (from, matrix, mut shift) = ffi::linear(&index).map_err(BuildError::Faiss)?;
    if metric != Metric::L2 {
        // Products of rows and queries that were moved by the same vector rank rows otherwise. (Words moved by 0.3 in
        // each of 50 components, 40 kept, re-ranked: cosine finds 0.986 of Flat's ten without the shift, 0.927 with it;
        // tests/it/ivf_mapped.rs.)
        shift.fill(0.0);
    }
    Ok((from, matrix, shift))
}

/// Trains `index` on `rows`.
pub(super) fn train(index: &mut IndexImpl, rows: &[f32]) -> Result<(), BuildError> {
    index
        .train(rows)
        .map_err(|error| BuildError::Faiss(message(error)))
}

/// Adds `rows` to `index` under the next ids.
pub(super) fn add(index: &mut IndexImpl, rows: &[f32]) -> Result<(), BuildError> {
    index
        .add(rows)
        .map_err(|error| BuildError::Faiss(message(error)))
}

fn message(error: error::Error) -> String {
    match error {
        error::Error::Native(native) => native.msg().to_owned(),
        other => other.to_string(),
    }
}
