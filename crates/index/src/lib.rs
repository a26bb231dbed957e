//! Vector tables for chiplet: exact, HNSW and IVF, behind one pair of traits.
//!
//! | table | over | feature | for | splits |
//! |---|---|---|---|---|
//! | [`FlatTable`] | nothing | | ground truth; tables of a few thousand rows | by blocks of rows |
//! | [`HnswTable`] | nothing; takes graphs of other libraries | | low latency at high recall | no: a graph walk is one chain of reads |
//! | [`IvfTable`] | Faiss, which trains and encodes | `faiss`, to build | large or compressed tables; big `k` | by inverted lists |
//! | [`Refined`] | any of them, or yours | | exact distances from compressed rows | as the table that it refines |
//!
//! Indexes that Faiss has written become tables without Faiss: [`faiss_file`].
//!
//! Beside them [`KeyedRows`] hold values by key: what a service looks up for the rows found.
//!
//! All of them can be searched from any number of threads at once, return neighbours in ascending order
//! (ties by id), and answer a split query exactly as an unsplit one.
//!
//! # Distances
//!
//! Every table reports the same thing for the same [`Metric`], and smaller is always nearer:
//!
//! | metric | reported | zero vector |
//! |---|---|---|
//! | [`Metric::L2`] | *squared* Euclidean distance (hnsw_rs' `DistL2` takes the root; Faiss does not) | as any other |
//! | [`Metric::Cosine`] | `1 - cos`, in `[0, 2]`, never below 0 | at distance 1 from everything |
//! | [`Metric::InnerProduct`] | the product, negated | at distance 0 from everything |
//!
//! # What a query may ask
//!
//! | asked | answered |
//! |---|---|
//! | another dimension, a NaN or infinite component, `top(0)`, `nprobe(0)` | a [`SearchError`] that says which |
//! | a query longer than [`MAX_NORM`] (L2, inner product) | [`SearchError::TooLong`]: its distances overflow `f32` |
//! | `top` beyond the rows | every row that the search can reach: all of a flat or HNSW table, those of the visited lists of an IVF table |
//! | `ef` below `top`, beyond the rows | counts as `top`, as the number of rows |
//! | `nprobe` beyond the lists | visits all lists |
//! | anything of an empty table | nothing, and no error |
//!
//! [`Context`](chiplet_table::Context) counts what a search read: every row of a flat table; `visited * (vector
//! bytes + 4 M)` of a graph, `visited` being exact; the codes of all lists scanned, and the centroids of a
//! flat quantizer; the exact rows that candidates are compared with. A list scanned twice to resolve a tie counts twice.
//!
//! What is wrong with rows, settings or an adopted index is found when a table is built: [`BuildError`].
//!
//! # Building
//!
//! The feature `hnsw_rs` lets [`HnswTable`] take graphs that you built with that crate; it is pure Rust.
//! `faiss` compiles Faiss (some minutes; needs cmake 3.24+, a C++ compiler and BLAS) for the plainest
//! processor of the architecture. It trains and encodes; the lists of common codes are scanned by kernels of this crate, with
//! the instructions that the processor has ([`ivf`] says which). A table from a file needs no Faiss: without the feature
//! `faiss`, [`IvfTable`] can be loaded and mapped. Faiss trains with OpenMP, whose threads spin while they wait: where other
//! work runs beside, `OMP_WAIT_POLICY=passive` helps. OpenBLAS brings threads of its own to training; a process that exits
//! during a build may hang or crash in OpenBLAS' exit handler, so let builds end first.
//!
//! Ids are row numbers, unless a build is given others ([`BuildOptions`]): any `u64`s that differ. A build can be watched and
//! stopped by the same options. Tables are saved to files, which [`open`] reads whichever kind they are of, and each kind's
//! `load` and `map`.
//!
//! # Your own index
//!
//! One small trait makes an index a table, one more lets its queries be split. Here is one that keeps its
//! numbers in buckets by their tens digit and looks only into the nearest buckets:
//!
//! ```
//! use std::ops::Range;
//! use chiplet_table::{Neighbor, Probe, Query, SearchError, SplitTable, Table, Context};
//!
//! struct Buckets {
//!     buckets: Vec<Vec<(u64, f32)>>,
//! }
//!
//! impl Buckets {
//!     /// The nearest numbers of one bucket.
//!     fn nearest(&self, query: &Query, bucket: u64, context: &mut Context) -> Vec<Neighbor> {
//!         let bucket = &self.buckets[bucket as usize];
//!         context.add_bytes(bucket.len() as u64 * 16);
//!         let wanted = query.vector()[0];
//!         let mut hits: Vec<Neighbor> = bucket
//!             .iter()
//!             .map(|&(id, x)| Neighbor { id, distance: (x - wanted).abs() })
//!             .collect();
//!         hits.sort();
//!         hits.truncate(query.k());
//!         hits
//!     }
//! }
//!
//! impl Table for Buckets {
//!     fn dim(&self) -> usize { 1 }
//!     fn len(&self) -> usize { self.buckets.iter().map(Vec::len).sum() }
//!     fn size_bytes(&self) -> u64 { self.len() as u64 * 16 }
//!
//!     fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
//!         self.search_whole(query, context)
//!     }
//!
//!     // Leave this out, and the rest below, if queries run whole.
//!     fn as_split(&self) -> Option<&dyn SplitTable> { Some(self) }
//! }
//!
//! impl SplitTable for Buckets {
//!     fn coarse(&self, query: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
//!         query.check(self.dim())?;
//!         let mut probes: Vec<Probe> = (0..self.buckets.len())
//!             .map(|list| Probe {
//!                 list: list as u64,
//!                 distance: (query.vector()[0] - (list as f32 * 10.0 + 5.0)).abs(),
//!                 cost_bytes: self.buckets[list].len() as u64 * 16,
//!             })
//!             .collect();
//!         probes.sort_by(|a, b| a.distance.total_cmp(&b.distance));
//!         probes.truncate(query.requested_nprobe().unwrap_or(2));
//!         Ok(probes)
//!     }
//!
//!     fn scan(
//!         &self,
//!         query: &Query,
//!         probes: &[Probe],
//!         unit: Range<usize>,
//!         context: &mut Context,
//!     ) -> Result<Vec<Neighbor>, SearchError> {
//!         query.check(self.dim())?;
//!         let parts = probes[unit].iter().map(|p| self.nearest(query, p.list, context)).collect();
//!         self.merge(query, parts, context)
//!     }
//! }
//!
//! let numbers: Vec<(u64, f32)> = (0..100).map(|id| (id, (id * 37 % 100) as f32)).collect();
//! let mut buckets = vec![Vec::new(); 10];
//! for (id, x) in numbers {
//!     buckets[(x / 10.0) as usize].push((id, x));
//! }
//! let table = Buckets { buckets };
//!
//! let query = Query::new([42.2]).top(3);
//! let mut context = Context::default();
//! let whole = table.search(&query, &mut context)?;
//! assert_eq!(whole[0].id * 37 % 100, 42);
//!
//! // What the executor does: each unit may run on another core.
//! let probes = table.coarse(&query, &mut context)?;
//! let parts = (0..probes.len())
//!     .map(|i| table.scan(&query, &probes, i..i + 1, &mut context))
//!     .collect::<Result<_, _>>()?;
//! assert_eq!(table.merge(&query, parts, &mut context)?, whole);
//! # Ok::<(), SearchError>(())
//! ```
//!
//! [`SearchError`]: chiplet_table::SearchError
//! [`SearchError::TooLong`]: chiplet_table::SearchError::TooLong

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
mod kept;
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
