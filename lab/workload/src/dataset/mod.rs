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
mod npy;
mod rows;
mod source;
mod synthetic;
mod table;
mod vecs;

use std::path::Path;

pub use error::{DatasetError, Problem, ShapeError};
pub use glove::GloveSample;
pub use hdf5::AnnBenchmark;
pub use rows::{IdRows, VectorSet};
pub use synthetic::{Clusters, about};

use source::Source;

impl VectorSet {
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
}
