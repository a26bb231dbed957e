//! `Image`: one table's memory, cut into named sections, laid out as in its file.
//!
//! A [`Draft`] collects sections; [`Draft::allocate`] gives one zeroed region for all of them, which the table fills;
//! [`ImageMut::freeze`] makes it constant. From then on it is searched, saved, loaded and mapped without any
//! conversion.
//!
//! # The file
//!
//! Numbers are little-endian. Everything but the payload fits into memory many times over, so only the payload is read
//! late.
//!
//! | bytes | |
//! | --- | --- |
//! | 0..8 | [`MAGIC`](header::MAGIC) |
//! | 8..12 | [`VERSION`](header::VERSION) |
//! | 12..16 | `n`, bytes of the header |
//! | 16..24 | XXH3 of bytes 0..16 and of the header |
//! | 24..24+n | the header, JSON: `kind`, `meta`, and `sections` with `name`, `offset`, `bytes`, `xxh3` each |
//! | up to a multiple of 4096 | zeros |
//! | the rest | the payload: the sections in order, each from the next multiple of 64 bytes on, zeros between them |
//!
//! The file ends with its last section. There is one way to lay sections out, and a file that is laid out otherwise is
//! refused: so none overlaps another or lies outside, and every byte of a file is either checked against a sum or must
//! be zero. [XXH3](https://xxhash.com) finds damage, not forgery: a table must be safe to search whatever its sections
//! hold.
//!
//! The payload begins at a page so that it can be mapped; 64 bytes are a cache line and the widest vector register.

mod copy;
mod draft;
mod error;
mod file;
mod header;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use bytemuck::Pod;
use chiplet_memory::Region;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use draft::{Draft, ImageMut};
pub use error::FileError;

/// Where a section lies in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    start: usize,
    bytes: usize,
}

/// A table's memory, constant.
#[derive(Debug)]
pub(crate) struct Image {
    region: Region,
    kind: Box<str>,
    meta: Value,
    entries: Vec<Entry>,
    /// The file that it comes from.
    origin: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: Box<str>,
    section: Section,
    /// Of its content, as its file says; `None` if it comes from no file.
    sum: Option<u64>,
}

impl Section {
    fn end(self) -> usize {
        self.start + self.bytes
    }
}

impl Image {
    /// A section's values.
    ///
    /// # Panics
    /// If it is another image's and does not fit, or holds no whole number of `T`: see [`Image::find_values`].
    #[inline]
    pub(crate) fn section<T: Pod>(&self, section: Section) -> &[T] {
        bytemuck::cast_slice(&self.region.as_slice()[section.start..section.end()])
    }

    /// Says anew what the table is, for the file that is saved next.
    ///
    /// # Errors
    /// [`FileError::Description`] if `meta` is nothing that JSON can say.
    pub(crate) fn describe(&mut self, meta: &impl Serialize) -> Result<(), FileError> {
        self.meta = described(meta)?;
        Ok(())
    }

    /// The section of this name, whatever its size.
    ///
    /// # Errors
    /// [`FileError::Damaged`] if there is none.
    pub(crate) fn find(&self, name: &str) -> Result<Section, FileError> {
        let found = self.entries.iter().find(|entry| *entry.name == *name);
        let found = found.ok_or_else(|| self.damaged(format!("it has no section {name:?}")));
        Ok(found?.section)
    }

    /// The section of this name, which must hold exactly `values` of `T`: what a file says of its own sizes is not to
    /// be believed before.
    ///
    /// # Errors
    /// [`FileError::Damaged`] if there is none, or one of another size.
    pub(crate) fn find_values<T: Pod>(
        &self,
        name: &str,
        values: usize,
    ) -> Result<Section, FileError> {
        let found = self.find(name)?;
        if values.checked_mul(size_of::<T>()) != Some(found.bytes) {
            return Err(self.damaged(format!(
                "section {name:?} has {} bytes where {values} values of {} bytes should be",
                found.bytes,
                size_of::<T>()
            )));
        }
        Ok(found)
    }

    /// What [`ImageMut::freeze`] was told of the table.
    ///
    /// # Errors
    /// [`FileError::Damaged`] if it is of another form.
    pub(crate) fn meta<M: DeserializeOwned>(&self) -> Result<M, FileError> {
        M::deserialize(&self.meta)
            .map_err(|error| self.damaged(format!("its description of the table: {error}")))
    }

    /// Which kind of table this is.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Checks that this is a table of kind `wanted`.
    ///
    /// # Errors
    /// [`FileError::OtherKind`].
    pub(crate) fn expect_kind(&self, wanted: &'static str) -> Result<(), FileError> {
        if self.kind() == wanted {
            return Ok(());
        }
        Err(self.other_kind(wanted))
    }

    /// That this is no table of kind `wanted`.
    pub(crate) fn other_kind(&self, wanted: &'static str) -> FileError {
        FileError::OtherKind {
            path: self.path().to_owned(),
            found: self.kind().to_owned(),
            wanted,
        }
    }

    /// Bytes of all sections and what lies between them.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// The memory, to ask what was granted or to populate it.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// That the file is not what it must be, for what only the table itself can tell.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> FileError {
        FileError::Damaged {
            path: self.path().to_owned(),
            reason: reason.into(),
        }
    }

    fn path(&self) -> &Path {
        self.origin.as_deref().unwrap_or(Path::new("(not a file)"))
    }
}

/// A description as files have it.
fn described(meta: &impl Serialize) -> Result<Value, FileError> {
    serde_json::to_value(meta).map_err(|error| FileError::Description {
        reason: error.to_string(),
    })
}
