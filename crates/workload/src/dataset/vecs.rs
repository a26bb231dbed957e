//! `.fvecs`, `.bvecs` and `.ivecs`: each row is its dimension as `i32`, then that many values.
//!
//! The dimension of the first row must be that of all, so the file's length gives the number of rows.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::{IdRows, VectorSet, first_not_finite};

/// Bytes of the dimension before each row.
const PREFIX: u64 = 4;

pub(super) fn f32_rows(source: &mut Source<impl Read>) -> Result<VectorSet, DatasetError> {
    let (rows, dim) = table(source, f32::from_le_bytes)?;
    if let Some(at) = first_not_finite(&rows) {
        let (row, column, value) = (at / dim, at % dim, rows[at]);
        let offset = (row as u64 + 1) * PREFIX + at as u64 * 4;
        return Err(source.malformed(offset, Problem::NotFinite { row, column, value }));
    }
    Ok(VectorSet {
        rows,
        dim,
        labels: None,
    })
}

pub(super) fn u8_rows(source: &mut Source<impl Read>) -> Result<VectorSet, DatasetError> {
    let (rows, dim) = table(source, |[byte]: [u8; 1]| f32::from(byte))?;
    Ok(VectorSet {
        rows,
        dim,
        labels: None,
    })
}

pub(super) fn id_rows(source: &mut Source<impl Read>) -> Result<IdRows, DatasetError> {
    let (ids, width) = table(source, i32::from_le_bytes)?;
    IdRows::checked(ids, width).map_err(|(at, problem)| {
        source.malformed((at / width + 1) as u64 * PREFIX + at as u64 * 4, problem)
    })
}

/// All values and the dimension.
fn table<T, const W: usize>(
    source: &mut Source<impl Read>,
    decode: impl Fn([u8; W]) -> T,
) -> Result<(Vec<T>, usize), DatasetError> {
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
    Ok((values, dim))
}
