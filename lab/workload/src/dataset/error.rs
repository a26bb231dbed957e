//! What can be wrong with a set of vectors, in memory or in a file.

use std::io;
use std::path::{Path, PathBuf};

/// Values that do not make a [`VectorSet`](super::VectorSet).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Vectors without values.
    #[error("vectors of 0 dimensions; give the number of values in a vector")]
    ZeroDim,
    /// The last row is incomplete.
    #[error(
        "{values} values are no whole number of rows of {dim}; check the dimension, or drop the rest"
    )]
    Ragged {
        /// Values given.
        values: usize,
        /// Values a row.
        dim: usize,
    },
    /// A value that no distance can be computed with.
    #[error(
        "row {row}, column {column} is {value}; vectors must be finite, so drop or repair that row"
    )]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// Labels and rows do not match.
    #[error("{labels} labels for {rows} rows; give one a row")]
    LabelCount {
        /// Labels given.
        labels: usize,
        /// Rows in the set.
        rows: usize,
    },
}

/// Why a data set could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The file is missing, unreadable, or not a regular file.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system failed while reading.
    #[error("cannot read {} at byte {offset}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Bytes read before.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The extension names no format that can hold what was asked for.
    #[error("{} is in no known format; expected one of {expected}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The extensions that would do.
        expected: &'static str,
    },
    /// The file is not what its format says.
    #[error("{} at byte {offset}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes from its start.
        offset: u64,
        /// What is wrong there.
        problem: Problem,
    },
    /// A part of an HDF5 file is not what it should be.
    #[error("{}, {part}: {problem}", path.display())]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// A dataset or attribute, by name, or the file as a whole.
        part: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A format that this build cannot read.
    #[error(
        "cannot read {}: built without the feature `{feature}` of chiplet-workload; build with it, or convert the \
         file to .npy",
        path.display()
    )]
    WithoutFeature {
        /// The file.
        path: PathBuf,
        /// The feature to build with.
        feature: &'static str,
    },
}

impl DatasetError {
    pub(super) fn unknown_vector_format(path: &Path) -> Self {
        let expected = ".fvecs, .bvecs, .fbin, .u8bin, .npy, .hdf5, .h5";
        Self::UnknownFormat {
            path: path.to_owned(),
            expected,
        }
    }

    pub(super) fn unknown_id_format(path: &Path) -> Self {
        Self::UnknownFormat {
            path: path.to_owned(),
            expected: ".ivecs, .ibin",
        }
    }

    #[cfg(not(feature = "hdf5"))]
    pub(super) fn without_hdf5(path: &Path) -> Self {
        Self::WithoutFeature {
            path: path.to_owned(),
            feature: "hdf5",
        }
    }
}

/// What is wrong at some offset of a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file holds no row at all.
    #[error("the file holds no rows")]
    Empty,
    /// The file ends too early.
    #[error(
        "{needed} more bytes are announced but {left} are left; the file is cut short or not of this format"
    )]
    Truncated {
        /// Bytes that the header, or the row before, announces.
        needed: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// The file goes on after its last row.
    #[error(
        "{extra} bytes follow the last row; the file is not of this format, or was appended to"
    )]
    Trailing {
        /// Bytes too many.
        extra: u64,
    },
    /// The header announces more than a file can hold.
    #[error("{rows} rows of {dim} exceed any file; the header is damaged")]
    TooLarge {
        /// Rows announced.
        rows: u64,
        /// Values a row announced.
        dim: u64,
    },
    /// A dimension that is zero or negative.
    #[error("dimension {dim} is not positive")]
    BadDim {
        /// The dimension as read.
        dim: i64,
    },
    /// Rows of different lengths.
    #[error("row {row} has dimension {dim}, the rows before have {expected}")]
    DimChanged {
        /// Row, from 0.
        row: usize,
        /// Its dimension.
        dim: i64,
        /// The first row's.
        expected: usize,
    },
    /// A value that no distance can be computed with.
    #[error("row {row}, column {column} is {value}; vectors must be finite")]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// A row number below zero.
    #[error("row {row} holds the id {id}; ids are row numbers and start at 0")]
    NegativeId {
        /// Row, from 0.
        row: usize,
        /// The id as read.
        id: i64,
    },
    /// A row number beyond the set that it refers to.
    #[error("row number {id} is not below {rows}, the number of vectors")]
    IdTooLarge {
        /// The id as read.
        id: u64,
        /// Rows of the set.
        rows: usize,
    },
    /// Not a `.npy` file, or not one of vectors in `f32`.
    #[error("{0}")]
    Npy(String),
    /// Not an HDF5 file, or not one of ann-benchmarks.
    #[error("{0}")]
    Hdf5(String),
    /// Text that is not UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// A line that is no row number.
    #[error("line {line} reads {text:?}; expected a row number")]
    NotARowNumber {
        /// Line, from 1.
        line: usize,
        /// What it holds.
        text: String,
    },
    /// Files of one sample that do not match.
    #[error("{found} entries where {expected} belong, one for each of {each}")]
    CountMismatch {
        /// Entries in this file.
        found: usize,
        /// Entries that there should be.
        expected: usize,
        /// What each entry belongs to.
        each: &'static str,
    },
}
