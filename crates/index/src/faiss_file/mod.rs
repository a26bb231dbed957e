//! Indexes that Faiss serialised (`faiss.write_index`, `faiss.serialize_index`) as tables, without Faiss.
//!
//! ```no_run
//! use chiplet_index::faiss_file::{self, Options};
//! use chiplet_table::{Context, Query, Table};
//!
//! let table = faiss_file::read("songs.faiss", &Options::default())?;
//! let hits = table.search(&Query::new(vec![0.0; table.dim()]).top(10), &mut Context::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | index | as |
//! |---|---|
//! | `IndexFlat`, `IndexFlatL2`, `IndexFlatIP` | [`FlatTable`](crate::FlatTable) |
//! | `IndexHNSWFlat` | [`HnswTable`](crate::HnswTable) with the index's `efSearch` |
//! | `IndexIVFFlat`; `IndexIVFScalarQuantizer` of 8 and 4 bits, fp16, bf16; `IndexIVFPQ`, `IndexIVFPQFastScan` | [`IvfTable`] with the index's `nprobe` |
//! | `IndexIDMap`, `IndexIDMap2` over these | the same with those ids |
//! | `IndexPreTransform` over inverted lists: OPQ, PCA, random rotation, linear, and an L2 norm before them | [`IvfTable`] that maps queries |
//! | `IndexRefineFlat` over inverted lists | [`IvfTable`] that compares the best 1.5 k + 16 with the rows |
//!
//! Centroids must be in an `IndexFlat` or an `IndexHNSWFlat`, whose graph is left out. Everything else is refused by
//! the name of its class ([`BuildError::UnsupportedIndex`]). Files of Faiss 1.7.3 to 1.15.1 were tried; forms of 2018
//! and before are refused.
//!
//! Distances are those of Faiss up to rounding, an inner product negated. Graphs are walked as Faiss 1.8 and later walk
//! them. The tables of fast-scan codes are not rounded to 8 bits.
//!
//! **Nothing that is read is believed.** A damaged file is refused ([`BuildError::File`]), or becomes a table that
//! answers something. Reading takes at most three times the memory of the table.

mod codes;
mod graph;
mod header;
mod index;
mod lists;
mod names;
mod options;
mod table;
mod transform;

use std::path::Path;

use crate::any::AnyTable;
use crate::error::BuildError;
use crate::foreign::Source;
#[cfg(doc)]
use crate::ivf::IvfTable;
pub use options::Options;

/// A table of the index that Faiss wrote to the file at `path` (`faiss.write_index`).
///
/// # Errors
/// [`BuildError::File`] for what cannot be read or is damaged; [`BuildError::UnsupportedIndex`] for indexes that are
/// not read, by their class; [`BuildError::Untrained`]; [`BuildError::Setting`] for [`Options::cosine`] and an index of
/// L2; [`BuildError::NotNormalized`] for it and rows of another length than 1; [`BuildError::NotFinite`] and
/// [`BuildError::RowTooLong`] for rows that no table takes; [`BuildError::Graph`] for links that no search can follow;
/// [`BuildError::TooManyRows`] of a graph; [`BuildError::Memory`].
pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<AnyTable, BuildError> {
    table_of(Source::open(path.as_ref())?, options)
}

/// A table of the index in `bytes` (`faiss.serialize_index`).
///
/// # Errors
/// As [`read`]; the path of a [`BuildError::File`] is `<bytes>`.
pub fn read_bytes(bytes: &[u8], options: &Options) -> Result<AnyTable, BuildError> {
    table_of(Source::of_bytes(bytes), options)
}

fn table_of(mut source: Source<'_>, options: &Options) -> Result<AnyTable, BuildError> {
    let index = index::index(&mut source, 0)?;
    source.end()?;
    table::table(&source, index, options)
}
