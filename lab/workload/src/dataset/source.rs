//! A file read front to back whose length is known before anything is allocated.
//!
//! Every reader first asks [`Source::expect_rest`] whether the announced size is exactly what the file
//! still holds. Only then does it allocate, so a damaged header cannot ask for more memory than the file
//! is long.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::error::{DatasetError, Problem};

/// Large enough to amortise a call, small enough to clear for every row of a `.fvecs` file. A multiple of
/// every value's width.
const CHUNK_BYTES: usize = 4 << 10;

pub(super) struct Source<R> {
    input: R,
    path: PathBuf,
    at: u64,
    len: u64,
}

/// A regular file and its length.
pub(super) fn open_file(path: &Path) -> Result<(File, u64), DatasetError> {
    // Asked before it is opened, for to open a named pipe is to wait for whoever writes to it.
    let opened = std::fs::metadata(path).and_then(|facts| {
        if !facts.is_file() {
            let why = "not a regular file, so its length cannot be known beforehand";
            return Err(std::io::Error::new(ErrorKind::InvalidInput, why));
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    });
    opened.map_err(|source| DatasetError::Open {
        path: path.to_owned(),
        source,
    })
}

impl Source<BufReader<File>> {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let (file, len) = open_file(path)?;
        Ok(Self {
            input: BufReader::new(file),
            path: path.to_owned(),
            at: 0,
            len,
        })
    }
}

impl<R: Read> Source<R> {
    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes not read yet.
    pub(super) fn left(&self) -> u64 {
        self.len - self.at
    }

    pub(super) fn malformed(&self, offset: u64, problem: Problem) -> DatasetError {
        DatasetError::Malformed {
            path: self.path.clone(),
            offset,
            problem,
        }
    }

    /// Errs unless exactly `rows` times `row_bytes` bytes are left.
    pub(super) fn expect_rest(&self, rows: u64, row_bytes: u64) -> Result<(), DatasetError> {
        let left = self.left();
        let problem = match rows.checked_mul(row_bytes) {
            None => Problem::TooLarge {
                rows,
                dim: row_bytes,
            },
            Some(needed) if needed > left => Problem::Truncated { needed, left },
            Some(needed) if needed < left => Problem::Trailing {
                extra: left - needed,
            },
            Some(_) => return Ok(()),
        };
        Err(self.malformed(self.at, problem))
    }

    /// The next `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DatasetError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `buffer` with the next bytes.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), DatasetError> {
        let (needed, left) = (buffer.len() as u64, self.left());
        if needed > left {
            return Err(self.malformed(self.at, Problem::Truncated { needed, left }));
        }
        self.input
            .read_exact(buffer)
            .map_err(|source| match source.kind() {
                // Someone cut the file after it was opened.
                ErrorKind::UnexpectedEof => {
                    self.malformed(self.at, Problem::Truncated { needed, left: 0 })
                }
                _ => DatasetError::Read {
                    path: self.path.clone(),
                    offset: self.at,
                    source,
                },
            })?;
        self.at += needed;
        Ok(())
    }

    /// Decodes the next `count` values of `W` bytes each and hands them to `take` in order.
    pub(super) fn values<const W: usize>(
        &mut self,
        count: usize,
        mut take: impl FnMut([u8; W]),
    ) -> Result<(), DatasetError> {
        let mut chunk = [0; CHUNK_BYTES];
        let mut left = count;
        while left > 0 {
            let now = left.min(CHUNK_BYTES / W);
            let bytes = &mut chunk[..now * W];
            self.fill(bytes)?;
            bytes
                .as_chunks::<W>()
                .0
                .iter()
                .for_each(|value| take(*value));
            left -= now;
        }
        Ok(())
    }

    /// All that is left, as text.
    pub(super) fn text(&mut self) -> Result<String, DatasetError> {
        let mut bytes = vec![0; self.left() as usize];
        let start = self.at;
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|e| {
            let valid = e.utf8_error().valid_up_to() as u64;
            self.malformed(start + valid, Problem::NotUtf8)
        })
    }
}
