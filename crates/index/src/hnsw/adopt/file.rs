//! Reading a file that nobody vouches for: no size in it is believed before that many bytes are known to be there.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// A file, read from its beginning to its end.
pub(super) struct Source {
    path: PathBuf,
    bytes: BufReader<File>,
    /// Bytes not yet read.
    left: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, BuildError> {
        let refused = |reason: String| BuildError::File {
            path: path.to_owned(),
            reason,
        };
        // Asked before it is opened, for to open a named pipe is to wait for whoever writes to it.
        let facts = path
            .metadata()
            .map_err(|error| refused(error.to_string()))?;
        if !facts.is_file() {
            return Err(refused("it is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            bytes: BufReader::with_capacity(1 << 20, file),
            left: facts.len(),
        })
    }

    /// The error that says what is wrong with the file.
    pub(super) fn damaged(&self, reason: impl Into<String>) -> BuildError {
        BuildError::File {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }

    /// The error that says so unless `fine`.
    pub(super) fn expect(
        &self,
        fine: bool,
        reason: impl FnOnce() -> String,
    ) -> Result<(), BuildError> {
        if fine {
            Ok(())
        } else {
            Err(self.damaged(reason()))
        }
    }

    /// `count` things of at least `bytes` bytes each are still to come: memory for them may be taken.
    pub(super) fn expect_room(
        &self,
        count: u64,
        bytes: u64,
        what: &str,
    ) -> Result<usize, BuildError> {
        let fits = count.checked_mul(bytes).is_some_and(|all| all <= self.left);
        self.expect(fits, || {
            let left = self.left;
            format!("it has {count} {what} of at least {bytes} bytes each, but only {left} bytes are left; it is cut or damaged")
        })?;
        Ok(count as usize)
    }

    pub(super) fn fill(&mut self, out: &mut [u8]) -> Result<(), BuildError> {
        self.expect_room(out.len() as u64, 1, "bytes")?;
        if let Err(error) = self.bytes.read_exact(out) {
            return Err(self.damaged(error.to_string()));
        }
        self.left -= out.len() as u64;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BuildError> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, BuildError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, BuildError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, BuildError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Appends `dim` values to `rows`; `bytes` is a buffer.
    pub(super) fn floats(
        &mut self,
        dim: usize,
        bytes: &mut Vec<u8>,
        rows: &mut Vec<f32>,
    ) -> Result<(), BuildError> {
        self.expect_room(dim as u64, 4, "components")?;
        bytes.resize(dim * 4, 0);
        self.fill(bytes)?;
        rows.extend(floats(bytes));
        Ok(())
    }

    /// Everything must have been read.
    pub(super) fn end(&self) -> Result<(), BuildError> {
        self.expect(self.left == 0, || {
            format!(
                "{} bytes are left behind its end; it is of another kind or damaged",
                self.left
            )
        })
    }
}

pub(super) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&value| f32::from_le_bytes(value))
}
