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
//! # What is read
//!
//! | index | as |
//! |---|---|
//! | `IndexFlat`, `IndexFlatL2`, `IndexFlatIP` | [`FlatTable`](crate::FlatTable) |
//! | `IndexHNSWFlat` | [`HnswTable`](crate::HnswTable), whose searches keep the index's `efSearch` candidates unless they say otherwise |
//! | `IndexIVFFlat`; `IndexIVFScalarQuantizer` of 8 and 4 bits, fp16 and bf16; `IndexIVFPQ` and `IndexIVFPQFastScan` | [`IvfTable`], whose searches visit the index's `nprobe` lists unless they say otherwise |
//! | `IndexIDMap`, `IndexIDMap2` over these | the same with those ids |
//! | `IndexPreTransform` over inverted lists: `OPQMatrix`, `PCAMatrix`, `RandomRotationMatrix`, `LinearTransform`, and an L2 norm before them | [`IvfTable`] that maps queries |
//! | `IndexRefineFlat` over inverted lists | [`IvfTable`] that keeps the rows and compares the best 1.5 k + 16 with them, whatever `k_factor` says |
//!
//! Inverted lists must be in the same bytes, and their centroids in an `IndexFlat` or an `IndexHNSWFlat`. Of the latter the
//! graph is left out: the table looks at all centroids, as it does when it is [saved](crate::IvfTable::save).
//!
//! Everything else is refused by the name of its class ([`BuildError::UnsupportedIndex`]).
//!
//! Files of Faiss 1.7.3, 1.8.0, 1.10.0, 1.12.0 and 1.15.1 were tried. What these write of the above does not differ. Forms
//! that Faiss last wrote in 2018 are refused.
//!
//! # What a table answers
//!
//! Distances are those of Faiss up to rounding, in the convention of [`Metric`](crate::Metric): an inner product is negated.
//! Graphs are walked as Faiss walks them since 1.8, so that the same rows are found at the same `ef`, where no two distances
//! tie or differ by rounding alone; 1.7 stops earlier where `ef` is small. Faiss rounds the tables of fast-scan codes to 8 bits and so their distances; a table does not.
//!
//! # Damage
//!
//! Nothing that is read is believed: no size before so many bytes are known to be there, and no link, list or id before it
//! is known to lead somewhere. What is damaged is refused with what does not fit ([`BuildError::File`]), or becomes a table
//! that answers something. Reading takes at most some three times the memory of the table.

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
/// [`BuildError::File`] for what cannot be read or is damaged; [`BuildError::UnsupportedIndex`] for indexes that are not read,
/// by their class; [`BuildError::Untrained`]; [`BuildError::Setting`] for [`Options::cosine`] and an index of L2;
/// [`BuildError::NotNormalized`] for it and rows of another length than 1; [`BuildError::NotFinite`] and
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
