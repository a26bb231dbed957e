//! The executor.
pub mod table;
pub use table::{Neighbor, Probe, Query, SearchError, SplitTable, Table, Work, merge_nearest};
