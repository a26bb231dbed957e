//! Integer distances over rows of codes, exact on every level.
//!
//! | file | holds |
//! |---|---|
//! | `bytes` | rows of 8-bit codes, and queries for them |
//! | `planes` | rows of 4, 2 or 1 bits a code |
//! | `own` | the scale that such a row has of its own |
//! | `plane_query` | queries for them |
//! | `sums` | the loop over rows, at the level in use |
//! | `digits` | weights that do not fit a byte |
//! | `x86` | what is summed over a row, in AVX-512 and AVX2 |
//!
//! Every distance is made of sums of a row's codes times a query's weights, which are signed bytes. Where the weights
//! of a query do not fit a byte, they are written in digits of base 256, and each digit's products with a row are
//! summed by themselves.

mod bytes;
mod digits;
mod own;
mod plane_query;
mod planes;
mod sums;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use bytes::{CodeQuery, row_bytes, write_row};
pub(crate) use own::Own;
pub(crate) use plane_query::PlaneQuery;
pub(crate) use planes::{Width, write_planes};
pub(crate) use sums::MAX_DIM;

#[cfg(test)]
mod tests;
