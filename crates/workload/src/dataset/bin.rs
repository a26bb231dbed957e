//! `.fbin`, `.u8bin` and `.ibin`: the number of rows and the dimension as `u32`, then all values.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::{IdRows, VectorSet, first_not_finite};

/// Bytes before the first value.
const HEADER: u64 = 8;

pub(super) fn f32_rows(source: &mut Source<impl Read>) -> Result<VectorSet, DatasetError> {
    let (rows, dim) = table(source, f32::from_le_bytes)?;
    if let Some(at) = first_not_finite(&rows) {
        let problem = Problem::NotFinite {
            row: at / dim,
            column: at % dim,
            value: rows[at],
        };
        return Err(source.malformed(HEADER + at as u64 * 4, problem));
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
    IdRows::checked(ids, width)
        .map_err(|(at, problem)| source.malformed(HEADER + at as u64 * 4, problem))
}

/// All values and the dimension.
fn table<T, const W: usize>(
    source: &mut Source<impl Read>,
    decode: impl Fn([u8; W]) -> T,
) -> Result<(Vec<T>, usize), DatasetError> {
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
    Ok((values, dim as usize))
}
