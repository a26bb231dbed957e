//! Sets of vectors in memory, and where they come from.
//!
//! A [`VectorSet`] is row-major `f32`, every value finite, every row of one length; labels, if any, are
//! one a row. All constructors keep that, so what is built from a set need not check it again.
//!
//! [`VectorSet::read`] picks the reader by the file's extension:
//!
//! | extension | layout (little-endian) | from |
//! | --- | --- | --- |
//! | `.fvecs`, `.bvecs`, `.ivecs` | per row: `dim` as `i32`, then `dim` values (`f32`, `u8`, `i32`) | [TEXMEX](http://corpus-texmex.irisa.fr/) |
//! | `.fbin`, `.u8bin`, `.ibin` | rows and `dim` as `u32`, then all values (`f32`, `u8`, `i32`) | [big-ann-benchmarks](https://big-ann-benchmarks.com/) |
//! | `.npy` | NumPy array of `<f4`, two dimensions, C or Fortran order | [NEP 1](https://numpy.org/neps/nep-0001-npy-format.html) |
//! | `.hdf5`, `.h5` | the dataset `train` of an HDF5 file; needs the feature `hdf5` | [ann-benchmarks](https://github.com/erikbern/ann-benchmarks#data-sets) |
//!
//! The files that hold row numbers (`.ivecs`, `.ibin`) are read by [`IdRows::read`], and all that is in an
//! HDF5 file by [`AnnBenchmark::read`].
//!
//! Readers never trust a file: what a header announces is held against the file's length before anything
//! is allocated, so memory is bounded by a small multiple of that length (4x for bytes, which become
//! `f32`; in HDF5, what its compression can make of it). Whatever is wrong is a [`DatasetError`] that names
//! file, place and cause.

mod bin;
mod error;
mod glove;
mod hdf5;
mod ids;
mod npy;
mod source;
mod synthetic;
mod table;
mod vecs;

use std::ops::Range;
use std::path::Path;

pub use error::{DatasetError, Problem, ShapeError};
pub use glove::GloveSample;
pub use hdf5::AnnBenchmark;
pub use ids::IdRows;
pub use synthetic::Clusters;

use source::Source;

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
    rows: Vec<f32>,
    dim: usize,
    labels: Option<Vec<String>>,
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

    /// Reads vectors from a file whose extension names its format; see the [module's table](self).
    ///
    /// # Errors
    /// [`DatasetError`] if the file cannot be read, has another extension, holds no vectors, or is not
    /// exactly what its format says.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        let path = path.as_ref();
        let reader: fn(&mut Source<_>) -> _ = match path.extension().and_then(|e| e.to_str()) {
            Some("fvecs") => |source| vecs::table(source, f32::from_le_bytes),
            Some("bvecs") => |source| vecs::table(source, table::byte),
            Some("fbin") => |source| bin::table(source, f32::from_le_bytes),
            Some("u8bin") => |source| bin::table(source, table::byte),
            Some("npy") => npy::table,
            Some("hdf5" | "h5") => return hdf5::vectors(path),
            _ => return Err(DatasetError::unknown_vector_format(path)),
        };
        let mut source = Source::open(path)?;
        reader(&mut source)?.into_vectors(&source)
    }

    /// The GloVe words that the repository carries: 30,000 rows of 50 dimensions, the word as label, in
    /// order of word frequency. `datasets` is the repository's folder of that name. For the queries and
    /// neighbours that go with them see [`GloveSample`].
    ///
    /// # Errors
    /// [`DatasetError`] if the sample is missing or damaged.
    pub fn glove_sample(datasets: impl AsRef<Path>) -> Result<Self, DatasetError> {
        glove::words(&datasets.as_ref().join(GloveSample::FOLDER))
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

fn first_not_finite(values: &[f32]) -> Option<usize> {
    values.iter().position(|v| !v.is_finite())
}
