//! How rows are stored in a graph, and the distances to them in each metric.
//!
//! | file | holds |
//! |---|---|
//! | `row_format` | the formats, and the bytes that rows take in each |
//! | `chosen` | which values the codes of a table stand for, chosen by its rows |
//! | `check` | whether rows can be kept in a format |
//! | `grids` | a row as it is written |
//! | `grid` | which values 8-bit codes stand for |
//! | `few_bits` | which values codes of 4 bits and fewer stand for, and whether rows are rotated first |
//! | `own_step`, `one_step` | their step: one of each row's own, or one for all |
//! | `rotation` | the rotation |
//! | `prepared` | a query as rows are compared with it, and the distances |

mod check;
mod chosen;
mod few_bits;
mod grid;
mod grids;
mod one_step;
mod own_step;
mod prepared;
mod rotation;
mod row_format;

pub(crate) use check::check_rows;
#[cfg(feature = "faiss")]
pub(crate) use check::check_small;
pub(super) use chosen::Chosen;
pub(super) use few_bits::FewBits;
pub(crate) use grid::Grid;
pub(crate) use grids::Grids;
pub(crate) use prepared::{Prepared, RowDistances};
pub use row_format::RowFormat;
