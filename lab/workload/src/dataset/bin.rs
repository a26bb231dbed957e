//! `.fbin`, `.u8bin` and `.ibin`: the number of rows and the dimension as `u32`, then all values.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::table::Table;

/// Bytes before the first value.
const HEADER: u64 = 8;

/// Reads a file whose values have `W` bytes each.
pub(super) fn table<T, const W: usize>(
    source: &mut Source<impl Read>,
    decode: impl Fn([u8; W]) -> T,
) -> Result<Table<T>, DatasetError> {
    if source.left() == 0 {
        return Err(source.malformed(0, Problem::Empty));
    }
    let rows = u32::from_le_bytes(source.bytes()?);
    let dim = u32::from_le_bytes(source.bytes()?);
    if rows == 0 {
        return Err(source.malformed(0, Problem::Empty));
    }
    if dim == 0 {
        return Err(source.malformed(4, Problem::BadDim { dim: 0 }));
    }
    // No overflow: `dim` has 32 bits and `W` is at most 4.
    source.expect_rest(rows.into(), u64::from(dim) * W as u64)?;
    let count = rows as usize * dim as usize;
    let mut values = Vec::with_capacity(count);
    source.values(count, |bytes| values.push(decode(bytes)))?;
    Ok(Table {
        values,
        dim: dim as usize,
        offset: Box::new(|at| HEADER + (at * W) as u64),
    })
}
