//! Vector tables for chiplet: exact, HNSW and IVF, behind one pair of traits.
//!
//! | table | over | for | splits |
//! |---|---|---|---|
//! | [`FlatTable`] | nothing | ground truth; tables of a few thousand rows | by blocks of rows |
//! | [`HnswTable`] | nothing; takes graphs of other libraries | low latency at high recall | no: a walk is one chain of reads |
//! | [`IvfTable`] | Faiss, to build (feature `faiss`) | large or compressed tables; big `k` | by inverted lists |
//! | [`Refined`] | any of them, or yours | exact distances from compressed rows | as the table that it refines |
//!
//! [`faiss_file`] reads indexes that Faiss wrote, without Faiss. [`KeyedRows`] hold values by key: what a service looks
//! up for the rows found. The crate's `README.md` says how tables are built and saved, and what each query is answered.
//!
//! Any number of threads may search a table at once. Neighbours come in ascending order, ties by id. A split query has
//! exactly the answer of an unsplit one. Every table reports the same distance for the same [`Metric`], and smaller is
//! nearer.
//!
//! Your own index becomes a table by [`Table`](chiplet_table::Table), and its queries can be cut by
//! [`SplitTable`](chiplet_table::SplitTable): `examples/own_index.rs` of the sources has both.

mod any;
mod batch;
mod error;
mod exact;
pub mod faiss_file;
mod flat;
mod foreign;
pub mod hnsw;
mod ids;
mod image;
pub mod ivf;
mod kernel;
mod keyed;
mod metric;
mod nearest;
mod options;
mod poll;
mod progress;
mod refined;
mod reserve;
mod rows;
mod stored_rows;

pub use any::{AnyTable, open, open_mapped};
pub use chiplet_memory::{Granted, MemoryPolicy, Pages};
pub use error::BuildError;
pub use exact::ExactRows;
pub use flat::{FlatConfig, FlatTable};
pub use hnsw::{Fit, HnswConfig, HnswTable, Part, Read, RowFormat};
pub use image::FileError;
#[cfg(feature = "faiss")]
pub use ivf::IvfConfig;
pub use ivf::IvfTable;
pub use keyed::{KeyedRows, KeyedVectors, LiveKeyedRows, UpdateError};
pub use metric::{MAX_NORM, Metric, normalized};
pub use nearest::Nearest;
pub use options::BuildOptions;
pub use progress::{Progress, Stage};
pub use refined::Refined;
