//! What chiplet's executor and its indexes agree on, and nothing of threads: an index implements [`Table`], and
//! [`SplitTable`] if its queries can be cut; a [`Query`] says what is asked, and a [`Context`] goes with it.
//!
//! Whoever runs tables implements [`Host`](host::Host). The executor does; without one a search runs on the calling
//! thread with `Context::default()`:
//!
//! ```
//! use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
//!
//! /// Points on a line.
//! struct Line(Vec<f32>);
//!
//! impl Table for Line {
//!     fn dim(&self) -> usize {
//!         1
//!     }
//!     fn len(&self) -> usize {
//!         self.0.len()
//!     }
//!     fn size_bytes(&self) -> u64 {
//!         4 * self.0.len() as u64
//!     }
//!     fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
//!         query.check(1)?;
//!         context.check()?;
//!         context.add_bytes(self.size_bytes());
//!         let at = query.vector()[0];
//!         let points = (0..).zip(&self.0).filter(|&(id, _)| query.allows(id));
//!         let mut found: Vec<_> =
//!             points.map(|(id, point)| Neighbor { id, distance: (point - at).powi(2) }).collect();
//!         found.sort();
//!         found.truncate(query.k());
//!         Ok(found)
//!     }
//! }
//!
//! let line = Line(vec![0.0, 4.0, 9.0]);
//! let found = line.search(&Query::new([5.0]).top(2), &mut Context::default())?;
//! assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), [1, 2]);
//! # Ok::<(), SearchError>(())
//! ```

mod class;
mod context;
mod error;
mod filter;
mod neighbor;
mod query;
mod table;
mod traffic;

pub use class::Class;
pub use context::Context;
pub use error::SearchError;
pub use filter::Filter;
pub use neighbor::{Neighbor, merge_nearest};
pub use query::Query;
pub use table::{IntoTable, Probe, SplitTable, Table, TakeAnswer};
pub use traffic::{hnsw_query_bytes, ivf_list_bytes};

/// What an executor of your own needs, to run tables on its threads.
pub mod host {
    pub use crate::context::contain::contain;
    pub use crate::context::{Host, Part, Tally, context, tally};
}
