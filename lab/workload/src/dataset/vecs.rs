//! `.fvecs`, `.bvecs` and `.ivecs`: each row is its dimension as `i32`, then that many values.
//!
//! The dimension of the first row must be that of all, so the file's length gives the number of rows.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::table::Table;

/// Bytes of the dimension before each row.
const PREFIX: u64 = 4;

/// Reads a file whose values have `W` bytes each.
pub(super) fn table<T, const W: usize>(
    source: &mut Source<impl Read>,
    decode: impl Fn([u8; W]) -> T,
) -> Result<Table<T>, DatasetError> {
    let len = source.left();
    if len == 0 {
        return Err(source.malformed(0, Problem::Empty));
    }
    let first = i32::from_le_bytes(source.bytes()?);
    let dim = usize::try_from(first).ok().filter(|&dim| dim > 0);
    let dim = dim.ok_or_else(|| source.malformed(0, Problem::BadDim { dim: first.into() }))?;
    // No overflow: `dim` came from 31 bits and `W` is at most 4.
    let row_bytes = PREFIX + dim as u64 * W as u64;
    if !len.is_multiple_of(row_bytes) {
        let (last, left) = (len - len % row_bytes, len % row_bytes);
        return Err(source.malformed(
            last,
            Problem::Truncated {
                needed: row_bytes,
                left,
            },
        ));
    }
    let count = (len / row_bytes) as usize;
    let mut values = Vec::with_capacity(count * dim);
    for row in 0..count {
        if row > 0 {
            let at = source.at();
            let found = i32::from_le_bytes(source.bytes()?);
            if found != first {
                let problem = Problem::DimChanged {
                    row,
                    dim: found.into(),
                    expected: dim,
                };
                return Err(source.malformed(at, problem));
            }
        }
        source.values(dim, |bytes| values.push(decode(bytes)))?;
    }
    Ok(Table {
        values,
        dim,
        offset: Box::new(move |at| (at / dim + 1) as u64 * PREFIX + (at * W) as u64),
    })
}
