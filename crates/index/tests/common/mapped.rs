//! Tables out of files that belong to one test.
#![expect(unsafe_code, reason = "files of one test alone")]

use std::path::Path;

use chiplet_index::{AnyTable, FileError, FlatTable, HnswTable, IvfTable, KeyedRows};

pub fn hnsw(path: impl AsRef<Path>) -> Result<HnswTable, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { HnswTable::map(path) }
}

pub fn ivf(path: impl AsRef<Path>) -> Result<IvfTable, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { IvfTable::map(path) }
}

pub fn flat(path: impl AsRef<Path>) -> Result<FlatTable, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { FlatTable::map(path) }
}

pub fn keyed(path: impl AsRef<Path>) -> Result<KeyedRows, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { KeyedRows::map(path) }
}

pub fn any(path: impl AsRef<Path>) -> Result<AnyTable, FileError> {
    // SAFETY: nothing else writes to the file.
    unsafe { chiplet_index::open_mapped(path) }
}
