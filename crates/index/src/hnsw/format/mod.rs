//! How rows are stored in a graph, and the distances to them in each metric.
//!
//! | file | holds |
//! |---|---|
//! | `row_format` | the formats, and the bytes that rows take in each |
//! | `fits` | whether rows can be kept in a format |
//! | `grids` | a row as it is written |
//! | `grid` | which values 8-bit codes stand for |
//! | `nibbles` | which values 4-bit codes stand for, and whether rows are rotated first |
//! | `rotation` | the rotation |
//! | `prepared` | a query as rows are compared with it, and the distances |

mod fits;
mod grid;
mod grids;
mod nibbles;
mod prepared;
mod rotation;
mod row_format;

pub(crate) use fits::check_rows;
pub(crate) use grid::Grid;
pub(crate) use grids::Grids;
pub(super) use nibbles::Nibbles;
pub(crate) use prepared::{Prepared, RowDistances};
pub use row_format::RowFormat;
