//! Keyed rows that are vectors.

use std::sync::Arc;

use chiplet_table::{Context, SearchError};

use super::KeyedRows;
use crate::error::BuildError;
use crate::exact::{ExactRows, no_row};
use crate::metric::{self, Metric};
use crate::poll;

/// Vectors in [`KeyedRows`], each as `f32` in little-endian order, for [`Refined`](crate::Refined): the ids of its
/// coarse table are the keys. Under [`Metric::Cosine`] they may have any length.
#[derive(Clone, Debug)]
pub struct KeyedVectors {
    rows: Arc<KeyedRows>,
    metric: Metric,
}

/// Rows that are compared at once, if they are short.
const AT_ONCE: usize = 64;

impl KeyedVectors {
    /// Takes the values of `rows` for vectors.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a value is no whole number of components, or none.
    pub fn new(rows: Arc<KeyedRows>, metric: Metric) -> Result<Self, BuildError> {
        let bytes = rows.value_bytes();
        if bytes == 0 || !bytes.is_multiple_of(size_of::<f32>()) {
            return Err(BuildError::Setting {
                setting: "value_bytes",
                value: bytes.to_string(),
                accepted: "4 for each component, as vectors have",
            });
        }
        Ok(Self { rows, metric })
    }
}

impl ExactRows for KeyedVectors {
    fn dim(&self) -> usize {
        self.rows.value_bytes() / size_of::<f32>()
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    fn size_bytes(&self) -> u64 {
        self.rows.size_bytes()
    }

    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        let (dim, bytes) = (ExactRows::dim(self), self.rows.value_bytes());
        let (block, _) = poll::blocks(bytes);
        let block = block.min(AT_ONCE);
        let mut rows = vec![0.0_f32; block.min(ids.len()) * dim];
        let mut found = [false; AT_ONCE];
        for (ids, distances) in ids.chunks(block).zip(distances.chunks_mut(block)) {
            poll::read(context, (ids.len() * bytes) as u64)?;
            let (rows, found) = (&mut rows[..ids.len() * dim], &mut found[..ids.len()]);
            self.rows
                .get_many(ids, bytemuck::cast_slice_mut(rows), found);
            for ((row, found), id) in rows.chunks_exact_mut(dim).zip(&*found).zip(ids) {
                if !found {
                    return Err(no_row(format_args!("{id} is no key")));
                }
                if !row.iter().all(|x| x.is_finite()) {
                    return Err(SearchError::Backend(format!(
                        "the row of key {id} has a component that is not finite"
                    )));
                }
                if self.metric == Metric::Cosine {
                    metric::normalize(row);
                }
            }
            self.metric.distances_to(query, rows, distances);
        }
        Ok(())
    }
}
