//! Rows of row numbers: the exact neighbours that public data sets come with.

use std::path::Path;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::{bin, vecs};

/// Row numbers, a fixed count for each query, usually nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRows {
    ids: Vec<u32>,
    width: usize,
}

impl IdRows {
    /// Reads a `.ivecs` or `.ibin` file.
    ///
    /// # Errors
    /// [`DatasetError`] if the file cannot be read, has another extension, holds no rows, is not exactly
    /// what its format says, or has a negative id.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        let path = path.as_ref();
        let reader = match path.extension().and_then(|e| e.to_str()) {
            Some("ivecs") => vecs::table,
            Some("ibin") => bin::table,
            _ => return Err(DatasetError::unknown_id_format(path)),
        };
        let mut source = Source::open(path)?;
        reader(&mut source, i32::from_le_bytes)?.into_ids(&source)
    }

    /// Number of rows, one a query.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len() / self.width
    }

    /// Whether there are no rows. No reader returns such a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Ids in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The ids of row `index`.
    ///
    /// # Panics
    /// If `index >= len()`.
    #[must_use]
    pub fn row(&self, index: usize) -> &[u32] {
        &self.ids[index * self.width..(index + 1) * self.width]
    }

    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.ids.chunks_exact(self.width)
    }

    /// Takes ids that were checked, a whole number of rows of them.
    #[cfg(feature = "hdf5")]
    pub(super) fn of_rows(ids: Vec<u32>, width: usize) -> Self {
        Self { ids, width }
    }

    /// Takes ids as the files hold them; on a negative one, its position and what is wrong.
    pub(super) fn checked(ids: Vec<i32>, width: usize) -> Result<Self, (usize, Problem)> {
        if let Some(at) = ids.iter().position(|&id| id < 0) {
            return Err((
                at,
                Problem::NegativeId {
                    row: at / width,
                    id: ids[at].into(),
                },
            ));
        }
        // The sign bit is clear, so the cast keeps the value.
        let ids = ids.into_iter().map(|id| id as u32).collect();
        Ok(Self { ids, width })
    }
}
