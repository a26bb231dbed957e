//! ann-benchmarks' HDF5 files: vectors, queries and the queries' exact neighbours in one file.
//!
//! [`write_output`](https://github.com/erikbern/ann-benchmarks/blob/main/ann_benchmarks/datasets.py) gives
//! the layout: datasets `train` and `test` (`[rows][dim]`), `neighbors` (`[queries][k]`, row numbers of
//! `train`, nearest first), `distances`, which is not read, and the attribute `distance`. What may be in
//! them is checked here; how HDF5 stores it is the concern of [`file`], which needs the feature `hdf5`.

#[cfg(feature = "hdf5")]
mod file;

use std::path::Path;

use super::error::DatasetError;
#[cfg(feature = "hdf5")]
use super::error::Problem;
use super::rows::{IdRows, VectorSet};
use crate::metric::Metric;

/// A benchmark's vectors, queries and true neighbours, in the metric that it is meant for.
///
/// ```no_run
/// use chiplet_workload::dataset::AnnBenchmark;
/// let sift = AnnBenchmark::read("sift-128-euclidean.hdf5")?;
/// assert_eq!(sift.test.dim(), sift.train.dim());
/// assert_eq!(sift.neighbors.len(), sift.test.len());
/// println!("{} vectors, {} queries, by {:?}", sift.train.len(), sift.test.len(), sift.metric);
/// # Ok::<(), chiplet_workload::dataset::DatasetError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AnnBenchmark {
    /// The vectors to search.
    pub train: VectorSet,
    /// The queries, of the same dimension. They are not among the vectors.
    pub test: VectorSet,
    /// For each query the rows of `train` that are nearest, nearest first, each below `train.len()`.
    /// Which of two equally near ones is named is up to whoever wrote the file, so for recall prefer
    /// [`Truth`](crate::truth::Truth), which counts ties.
    pub neighbors: IdRows,
    /// `euclidean` in the file is [`Metric::L2`], `angular` is [`Metric::Cosine`], and `dot`, which forks
    /// of ann-benchmarks write, is [`Metric::InnerProduct`].
    pub metric: Metric,
}

impl AnnBenchmark {
    /// Reads a whole file, whatever its extension. Values may be stored as `f32`, `f64` (rounded to the
    /// nearest `f32`), `u8` or `i8`; contiguous, compact, or in chunks, plain or compressed by gzip or LZF. Every file
    /// format up to that of HDF5 1.14 is known; what HDF5 2.0 writes when told to use its newest one, h5py's
    /// `libver="latest"`, is not.
    ///
    /// # Errors
    /// [`DatasetError`] if the file cannot be read, is no HDF5 file, lacks a part, if parts do not match,
    /// or if this crate was built without the feature `hdf5`. Files of bits and of sets (distances
    /// `hamming` and `jaccard`) hold no vectors and are refused.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        read(path.as_ref())
    }
}

#[cfg(feature = "hdf5")]
fn read(path: &Path) -> Result<AnnBenchmark, DatasetError> {
    let file = file::Hdf5::open(path)?;
    // First, because it says best what is wrong with a file of another kind.
    let metric = metric(&file)?;
    let train = file.vectors("train")?;
    let test = file.vectors("test")?;
    if test.dim() != train.dim() {
        let why = format!(
            "queries of {} dimensions for vectors of {}",
            test.dim(),
            train.dim()
        );
        return Err(file.dataset_error("test", Problem::Hdf5(why)));
    }
    let neighbors = file.ids("neighbors", train.len())?;
    if neighbors.len() != test.len() {
        let problem = Problem::CountMismatch {
            found: neighbors.len(),
            expected: test.len(),
            each: "the queries",
        };
        return Err(file.dataset_error("neighbors", problem));
    }
    Ok(AnnBenchmark {
        train,
        test,
        neighbors,
        metric,
    })
}

#[cfg(feature = "hdf5")]
fn metric(file: &file::Hdf5) -> Result<Metric, DatasetError> {
    let name = file.text_attribute("distance")?;
    match name.as_str() {
        "euclidean" => Ok(Metric::L2),
        "angular" => Ok(Metric::Cosine),
        "dot" => Ok(Metric::InnerProduct),
        _ => {
            let why = format!(
                "{name:?} is no distance between vectors known here; known are euclidean, angular and dot"
            );
            Err(file.error("attribute `distance`", Problem::Hdf5(why)))
        }
    }
}

/// `train` alone.
#[cfg(feature = "hdf5")]
pub(super) fn vectors(path: &Path) -> Result<VectorSet, DatasetError> {
    file::Hdf5::open(path)?.vectors("train")
}

#[cfg(not(feature = "hdf5"))]
fn read(path: &Path) -> Result<AnnBenchmark, DatasetError> {
    Err(DatasetError::without_hdf5(path))
}

#[cfg(not(feature = "hdf5"))]
pub(super) fn vectors(path: &Path) -> Result<VectorSet, DatasetError> {
    Err(DatasetError::without_hdf5(path))
}
