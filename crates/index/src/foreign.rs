//! Reading what another library wrote and nobody vouches for: no size in it is believed before that many bytes are
//! known to be there.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use bytemuck::Pod;

use crate::error::BuildError;
use crate::reserve;

/// What errors call bytes that come from no file.
const IN_MEMORY: &str = "<bytes>";

/// A file or bytes in memory, read from beginning to end.
pub(crate) struct Source<'a> {
    path: PathBuf,
    bytes: Bytes<'a>,
    /// Bytes not yet read.
    left: u64,
}

enum Bytes<'a> {
    File(BufReader<File>),
    Memory(&'a [u8]),
}

impl Source<'static> {
    pub(crate) fn open(path: &Path) -> Result<Self, BuildError> {
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
            bytes: Bytes::File(BufReader::with_capacity(1 << 20, file)),
            left: facts.len(),
        })
    }
}

impl<'a> Source<'a> {
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        Self {
            path: IN_MEMORY.into(),
            bytes: Bytes::Memory(bytes),
            left: bytes.len() as u64,
        }
    }

    /// The error that says what is wrong with the file.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> BuildError {
        BuildError::File {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }

    /// The error that says so unless `fine`.
    pub(crate) fn expect(
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
    pub(crate) fn expect_room(
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

    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Result<(), BuildError> {
        self.expect_room(out.len() as u64, 1, "bytes")?;
        let read = match &mut self.bytes {
            Bytes::File(file) => file.read_exact(out),
            Bytes::Memory(bytes) => bytes.read_exact(out),
        };
        if let Err(error) = read {
            return Err(self.damaged(error.to_string()));
        }
        self.left -= out.len() as u64;
        Ok(())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BuildError> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, BuildError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BuildError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BuildError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, BuildError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, BuildError> {
        self.array().map(i32::from_le_bytes)
    }

    /// The next `count` values.
    pub(crate) fn values<T: Little>(
        &mut self,
        count: u64,
        what: &str,
    ) -> Result<Vec<T>, BuildError> {
        let count = self.expect_room(count, size_of::<T>() as u64, what)?;
        let mut values = reserve::filled(count, T::zeroed)?;
        self.fill(bytemuck::cast_slice_mut(&mut values))?;
        if cfg!(target_endian = "big") {
            values.iter_mut().for_each(|value| *value = value.little());
        }
        Ok(values)
    }

    /// Passes over `count` values of `bytes` bytes each.
    pub(crate) fn skip(&mut self, count: u64, bytes: u64, what: &str) -> Result<(), BuildError> {
        let mut left = self.expect_room(count, bytes, what)? * bytes as usize;
        let mut some = [0; 4096];
        while left > 0 {
            let some = &mut some[..left.min(4096)];
            self.fill(some)?;
            left -= some.len();
        }
        Ok(())
    }

    /// Appends `dim` values to `rows`; `bytes` is a buffer.
    pub(crate) fn floats(
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
    pub(crate) fn end(&self) -> Result<(), BuildError> {
        self.expect(self.left == 0, || {
            format!(
                "{} bytes are left behind its end; it is of another kind or damaged",
                self.left
            )
        })
    }
}

/// A number that is read as its bytes, in little-endian order.
pub(crate) trait Little: Pod {
    /// The number whose bytes were read as if this machine were little-endian.
    fn little(self) -> Self;
}

macro_rules! little {
    ($($number:ty)*) => {$(
        impl Little for $number {
            fn little(self) -> Self {
                Self::from_le_bytes(self.to_ne_bytes())
            }
        }
    )*};
}

little!(u8 i32 i64 u64 f32);

pub(crate) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&value| f32::from_le_bytes(value))
}
