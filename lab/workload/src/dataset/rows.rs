//! Vectors in memory, and rows of row numbers.

use std::ops::Range;

use super::error::{Problem, ShapeError};

/// Vectors of one length, row after row, with an optional label each.
///
/// ```
/// use chiplet_workload::dataset::VectorSet;
/// let set = VectorSet::new(vec![1.0, 0.0, 0.0, 2.0], 2)?
///     .with_labels(vec!["east".into(), "north".into()])?;
/// assert_eq!((set.len(), set.dim()), (2, 2));
/// assert_eq!(set.row(1), [0.0, 2.0]);
/// assert_eq!(set.find("north"), Some(1));
/// # Ok::<(), chiplet_workload::dataset::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSet {
    pub(super) rows: Vec<f32>,
    pub(super) dim: usize,
    pub(super) labels: Option<Vec<String>>,
}

impl VectorSet {
    /// A set over `rows`, which holds row after row, `dim` values each.
    ///
    /// # Errors
    /// [`ShapeError`] if `dim` is 0, if `rows` is no whole number of rows, or if a value is NaN or infinite.
    pub fn new(rows: Vec<f32>, dim: usize) -> Result<Self, ShapeError> {
        if dim == 0 {
            return Err(ShapeError::ZeroDim);
        }
        if !rows.len().is_multiple_of(dim) {
            return Err(ShapeError::Ragged {
                values: rows.len(),
                dim,
            });
        }
        if let Some(at) = first_not_finite(&rows) {
            return Err(ShapeError::NotFinite {
                row: at / dim,
                column: at % dim,
                value: rows[at],
            });
        }
        Ok(Self {
            rows,
            dim,
            labels: None,
        })
    }

    /// The same vectors with a label each, in row order.
    ///
    /// # Errors
    /// [`ShapeError::LabelCount`] unless there is exactly one label a row.
    pub fn with_labels(mut self, labels: Vec<String>) -> Result<Self, ShapeError> {
        if labels.len() != self.len() {
            return Err(ShapeError::LabelCount {
                labels: labels.len(),
                rows: self.len(),
            });
        }
        self.labels = Some(labels);
        Ok(self)
    }

    /// Number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() / self.dim
    }

    /// Whether there are no vectors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Values in a vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Vector `index`.
    ///
    /// # Panics
    /// If `index >= len()`.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        &self.rows[self.span(index)]
    }

    /// All vectors in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.rows.chunks_exact(self.dim)
    }

    /// All values, row after row: `[len][dim]`.
    #[must_use]
    pub fn as_slice(&self) -> &[f32] {
        &self.rows
    }

    /// Labels in row order, if the set has any.
    #[must_use]
    pub fn labels(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }

    /// The label of vector `index`; `None` also where there is no such vector.
    #[must_use]
    pub fn label(&self, index: usize) -> Option<&str> {
        Some(self.labels.as_ref()?.get(index)?)
    }

    /// The first vector that carries this label. Looks at one after the other.
    #[must_use]
    pub fn find(&self, label: &str) -> Option<usize> {
        self.labels.as_ref()?.iter().position(|l| l == label)
    }

    /// A new set of the vectors numbered in `indices`, in that order, labels included.
    ///
    /// # Panics
    /// If an index is not below `len()`.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let mut rows = Vec::with_capacity(indices.len() * self.dim);
        for &index in indices {
            rows.extend_from_slice(self.row(index));
        }
        let labels = self.labels.as_ref();
        let labels = labels.map(|l| indices.iter().map(|&i| l[i].clone()).collect());
        Self {
            rows,
            dim: self.dim,
            labels,
        }
    }

    /// Part `part` of `parts` that share the rows out in turn: rows `part`, `part + parts`, and so on. Row
    /// `i` of the part is row `part + i * parts` of the whole. Where rows are ordered by popularity, as in
    /// the GloVe sample, every part gets its share of popular ones.
    ///
    /// # Panics
    /// If `part >= parts`.
    #[must_use]
    pub fn interleaved(&self, part: usize, parts: usize) -> Self {
        assert!(part < parts, "part {part} of {parts}: parts count from 0");
        self.select(&(part..self.len()).step_by(parts).collect::<Vec<_>>())
    }

    /// All but `count` vectors, and those, to be asked for: evenly spread, so that they are like the rest whatever the
    /// order.
    ///
    /// # Panics
    /// If `count` is 0 or more than `len()`.
    #[must_use]
    pub fn hold_out(&self, count: usize) -> (Self, Self) {
        assert!(
            (1..=self.len()).contains(&count),
            "{count} of {}",
            self.len()
        );
        let step = self.len() / count;
        let (out, rest): (Vec<usize>, Vec<usize>) =
            (0..self.len()).partition(|row| row % step == 0 && row / step < count);
        (self.select(&rest), self.select(&out))
    }

    /// The same vectors scaled to length 1, so that inner product ranks them as cosine does. A vector of
    /// zeros stays as it is.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        for row in self.rows.chunks_exact_mut(self.dim) {
            let norm = row
                .iter()
                .map(|&v| f64::from(v).powi(2))
                .sum::<f64>()
                .sqrt();
            if norm > 0.0 {
                row.iter_mut()
                    .for_each(|v| *v = (f64::from(*v) / norm) as f32);
            }
        }
        self
    }

    fn span(&self, index: usize) -> Range<usize> {
        index * self.dim..(index + 1) * self.dim
    }
}

pub(super) fn first_not_finite(values: &[f32]) -> Option<usize> {
    values.iter().position(|v| !v.is_finite())
}

/// Row numbers, a fixed count for each query, usually nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRows {
    ids: Vec<u32>,
    width: usize,
}

impl IdRows {
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
