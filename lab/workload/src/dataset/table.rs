//! A reader's result before it is checked: values row after row, and where in the file each of them is.
//!
//! Formats differ in how they find the values and where they keep them. What values may be is the same for
//! all, so it is checked here: vectors are finite, ids are not negative.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::rows::{IdRows, VectorSet, first_not_finite};
use super::source::Source;

pub(super) struct Table<T> {
    /// Row after row, `dim` each.
    pub(super) values: Vec<T>,
    pub(super) dim: usize,
    /// Byte in the file of the value with this index in `values`. Asked only for an error's message.
    pub(super) offset: Box<dyn Fn(usize) -> u64>,
}

impl Table<f32> {
    pub(super) fn into_vectors(
        self,
        source: &Source<impl Read>,
    ) -> Result<VectorSet, DatasetError> {
        let Self { values, dim, .. } = self;
        if let Some(at) = first_not_finite(&values) {
            let problem = Problem::NotFinite {
                row: at / dim,
                column: at % dim,
                value: values[at],
            };
            return Err(source.malformed((self.offset)(at), problem));
        }
        Ok(VectorSet {
            rows: values,
            dim,
            labels: None,
        })
    }
}

impl Table<i32> {
    pub(super) fn into_ids(self, source: &Source<impl Read>) -> Result<IdRows, DatasetError> {
        IdRows::checked(self.values, self.dim)
            .map_err(|(at, problem)| source.malformed((self.offset)(at), problem))
    }
}

/// A byte as a vector's value.
pub(super) fn byte([byte]: [u8; 1]) -> f32 {
    f32::from(byte)
}
