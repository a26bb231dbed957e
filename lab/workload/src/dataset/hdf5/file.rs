//! An HDF5 file as named tables of numbers, read by `hdf5-pure`.
//!
//! The file is not trusted. Before a table's values are read, [`Hdf5::extent`] makes certain that the file
//! stores as much as the table's shape announces, so what is allocated is bounded by the file's length:
//! times 4 for bytes that become `f32`, and times [`MAX_EXPANSION`] for what is compressed. A table of which
//! a part was never written is refused as well; HDF5 itself would fill in zeros.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hdf5_pure::{DType, Dataset, Layout, ReadSeekSource};

use super::super::error::{DatasetError, Problem, ShapeError};
use super::super::rows::{IdRows, VectorSet};
use super::super::source::open_file;

/// Bytes that one compressed byte can become: deflate's limit, see
/// [zlib's technical details](https://zlib.net/zlib_tech.html), and far above LZF's.
const MAX_EXPANSION: u64 = 1032;

pub(super) struct Hdf5 {
    file: hdf5_pure::File,
    path: PathBuf,
    /// The file's length in bytes.
    len: u64,
}

impl Hdf5 {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let (file, len) = open_file(path)?;
        let opened = ReadSeekSource::<BufReader<File>>::new(BufReader::new(file))
            .map_err(hdf5_pure::Error::from)
            .and_then(hdf5_pure::File::from_source);
        let file = opened.map_err(|why| DatasetError::Hdf5 {
            path: path.to_owned(),
            part: "the file".to_owned(),
            problem: told(why),
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            len,
        })
    }

    /// An attribute of the file that is one string.
    pub(super) fn text_attribute(&self, name: &str) -> Result<String, DatasetError> {
        let error = |problem| self.error(&format!("attribute `{name}`"), problem);
        let all = self.file.root().attrs().map_err(|why| error(told(why)))?;
        let text = all.get(name).and_then(|value| value.as_str());
        text.map(str::to_owned).ok_or_else(|| {
            let why = "missing, or not a string; the file is not one of ann-benchmarks";
            error(Problem::Hdf5(why.to_owned()))
        })
    }

    pub(super) fn vectors(&self, name: &str) -> Result<VectorSet, DatasetError> {
        let error = |problem| self.dataset_error(name, problem);
        let table = self.table(name).map_err(error)?;
        let element = match table.dtype().map_err(|why| error(told(why)))? {
            DType::F32 => 4,
            DType::F64 => 8,
            DType::U8 | DType::I8 => 1,
            other => return Err(error(wrong_type(&other, "f32, f64, u8 or i8"))),
        };
        let (rows, dim) = self.extent(&table, element).map_err(error)?;
        let values = table.read_f32().map_err(|why| error(told(why)))?;
        whole(&values, rows, dim).map_err(error)?;
        VectorSet::new(values, dim).map_err(|why| {
            error(match why {
                ShapeError::NotFinite { row, column, value } => {
                    Problem::NotFinite { row, column, value }
                }
                other => told(other),
            })
        })
    }

    /// Row numbers, each below `below`.
    pub(super) fn ids(&self, name: &str, below: usize) -> Result<IdRows, DatasetError> {
        let error = |problem| self.dataset_error(name, problem);
        let table = self.table(name).map_err(error)?;
        let element = match table.dtype().map_err(|why| error(told(why)))? {
            DType::I32 | DType::U32 => 4,
            DType::I64 => 8,
            other => return Err(error(wrong_type(&other, "i32, u32 or i64"))),
        };
        let (rows, width) = self.extent(&table, element).map_err(error)?;
        let ids = table.read_i64().map_err(|why| error(told(why)))?;
        whole(&ids, rows, width).map_err(error)?;
        let checked = ids.iter().enumerate().map(|(at, &id)| {
            let unsigned = u64::try_from(id).map_err(|_| Problem::NegativeId {
                row: at / width,
                id,
            })?;
            u32::try_from(unsigned)
                .ok()
                .filter(|_| unsigned < below as u64)
                .ok_or(Problem::IdTooLarge {
                    id: unsigned,
                    rows: below,
                })
        });
        let ids = checked.collect::<Result<_, _>>().map_err(error)?;
        Ok(IdRows::of_rows(ids, width))
    }

    pub(super) fn dataset_error(&self, name: &str, problem: Problem) -> DatasetError {
        self.error(&format!("dataset `{name}`"), problem)
    }

    pub(super) fn error(&self, part: &str, problem: Problem) -> DatasetError {
        DatasetError::Hdf5 {
            path: self.path.clone(),
            part: part.to_owned(),
            problem,
        }
    }

    fn table(&self, name: &str) -> Result<Dataset, Problem> {
        self.file.dataset(name).map_err(told)
    }

    /// Rows and values a row, once it is certain that the file stores that many of `element` bytes.
    fn extent(&self, table: &Dataset, element: u64) -> Result<(usize, usize), Problem> {
        let shape = table.shape().map_err(told)?;
        let &[rows, dim] = &shape[..] else {
            let found = shape.len();
            let why = format!("{found} dimensions; expected 2: rows and values a row");
            return Err(Problem::Hdf5(why));
        };
        if rows == 0 {
            return Err(Problem::Empty);
        }
        if dim == 0 {
            return Err(Problem::BadDim { dim: 0 });
        }
        let too_large = || Problem::TooLarge { rows, dim };
        let needed = product(&[rows, dim, element]).ok_or_else(too_large)?;
        match table.layout().map_err(told)? {
            Layout::Compact { size } => enough(needed, size)?,
            Layout::Contiguous {
                address: Some(address),
                size,
            } => enough(needed, size.min(self.len.saturating_sub(address)))?,
            Layout::Contiguous { address: None, .. } => return Err(unwritten(0, 1)),
            Layout::Chunked { chunk_shape, .. } => {
                let &[chunk_rows, chunk_dim] = &chunk_shape[..] else {
                    return Err(Problem::Hdf5("chunks of another rank than the data".into()));
                };
                let chunk_bytes = product(&[chunk_rows, chunk_dim, element]);
                let chunk_bytes = chunk_bytes
                    .filter(|&bytes| bytes > 0)
                    .ok_or_else(too_large)?;
                self.all_chunks(table, [rows, dim], [chunk_rows, chunk_dim], chunk_bytes)?;
            }
            _ => {
                let why = "stored in other files; copy it into one with h5repack";
                return Err(Problem::Hdf5(why.to_owned()));
            }
        }
        let (Ok(rows_here), Ok(dim_here)) = (rows.try_into(), dim.try_into()) else {
            return Err(too_large());
        };
        Ok((rows_here, dim_here))
    }

    /// Errs unless each chunk of a table of this shape is stored, once, in bytes of its own that can hold
    /// it.
    fn all_chunks(
        &self,
        table: &Dataset,
        shape: [u64; 2],
        chunk: [u64; 2],
        chunk_bytes: u64,
    ) -> Result<(), Problem> {
        let expected =
            shape[0].div_ceil(chunk[0]) as u128 * u128::from(shape[1].div_ceil(chunk[1]));
        // A chunk has a byte at the least, so what is listed next is bounded by the file's length.
        if expected > u128::from(self.len) {
            let why = format!("{expected} chunks in a file of {} bytes", self.len);
            return Err(Problem::Hdf5(why));
        }
        let chunks = table.chunks().map_err(told)?;
        let mut places: Vec<_> = chunks
            .iter()
            .filter_map(|stored| <[u64; 2]>::try_from(&stored.offset[..]).ok())
            .filter(|at| {
                (0..2).all(|axis| at[axis] < shape[axis] && at[axis].is_multiple_of(chunk[axis]))
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        if places.len() as u128 != expected || chunks.len() != places.len() {
            return Err(unwritten(places.len() as u64, expected as u64));
        }
        let stored: u128 = chunks.iter().map(|c| u128::from(c.storage_size)).sum();
        if stored > u128::from(self.len) {
            let why = format!("chunks of {stored} bytes in a file of {}", self.len);
            return Err(Problem::Hdf5(why));
        }
        let announced = expected * u128::from(chunk_bytes);
        if announced > stored * u128::from(MAX_EXPANSION) {
            let why = format!(
                "{announced} bytes are announced, but the {stored} that are stored can be no more than \
                 {MAX_EXPANSION} times as many; the header is damaged"
            );
            return Err(Problem::Hdf5(why));
        }
        Ok(())
    }
}

fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1_u64, |all, &f| all.checked_mul(f))
}

fn enough(needed: u64, left: u64) -> Result<(), Problem> {
    if needed > left {
        return Err(Problem::Truncated { needed, left });
    }
    Ok(())
}

/// Errs unless the reader returned as many values as the shape has.
fn whole<T>(values: &[T], rows: usize, dim: usize) -> Result<(), Problem> {
    if values.len() == rows * dim {
        return Ok(());
    }
    let found = values.len();
    let why = format!("{found} values where {rows} rows of {dim} belong");
    Err(Problem::Hdf5(why))
}

fn unwritten(stored: u64, expected: u64) -> Problem {
    Problem::Hdf5(format!(
        "{stored} of {expected} chunks are stored; whoever wrote the file did not finish"
    ))
}

fn wrong_type(found: &DType, expected: &str) -> Problem {
    Problem::Hdf5(format!("holds {found}; expected {expected}"))
}

fn told(why: impl Display) -> Problem {
    Problem::Hdf5(why.to_string())
}
