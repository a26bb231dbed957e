//! Inverted lists, and what stands beside them.
//!
//! | part | holds |
//! |---|---|
//! | lists of arrays | `ilar, lists u64, code bytes u64`; `full` and `count u64`, a size `u64` for each list, or `sprs` and `count u64`, `list u64, size u64` for each that is not empty; then each list that is not empty: codes, ids `i64` |
//! | lists in blocks (fast-scan) | `ilbl, lists u64, code bytes u64, rows of a block u64, bytes of a block u64`, then each list: `count u64`, ids `i64`, `count u64`, blocks |

use super::codes::Described;
use super::header::list;
use super::names;
use crate::error::BuildError;
use crate::foreign::Source;
use crate::ivf::Blocks;

/// What the lists of an index hold.
pub(super) struct Held {
    /// Of each list, none below 0.
    pub(super) ids: Vec<Vec<i64>>,
    /// Of each list, one row after the other.
    pub(super) codes: Vec<Vec<u8>>,
}

/// Passes over what says where each id is.
pub(super) fn skip_direct_map(source: &mut Source<'_>) -> Result<(), BuildError> {
    let kind = source.u8()?;
    source.expect(kind <= 2, || {
        format!("its direct map is of kind {kind}, which Faiss does not have; it is damaged")
    })?;
    let places = source.u64()?;
    source.skip(places, 8, "places of the direct map")?;
    // A hash table.
    if kind == 2 {
        let pairs = source.u64()?;
        source.skip(pairs, 16, "pairs of the direct map")?;
    }
    Ok(())
}

/// Reads `lists` lists that hold `rows` rows.
pub(super) fn held(
    source: &mut Source<'_>,
    described: &Described,
    lists: usize,
    rows: u64,
) -> Result<Held, BuildError> {
    let row = described.codes.bytes;
    let letters = source.array()?;
    let held = match (&letters, described.fast_scan) {
        (b"ilar", false) => of_arrays(source, row, lists)?,
        (b"ilbl", true) => of_blocks(source, row, lists)?,
        (b"il00", _) => {
            return Err(names::unsupported(
                "IndexIVF without its lists",
                "its inverted lists were not written with it; write the index with its lists",
            ));
        }
        (b"ilod", _) => {
            return Err(names::unsupported(
                "OnDiskInvertedLists",
                "its inverted lists are in a file of their own; read the index with Faiss, copy them into ArrayInvertedLists \
                 and write it again",
            ));
        }
        _ => {
            return Err(names::unsupported(
                format!("InvertedLists {:?}", letters.escape_ascii().to_string()),
                "ArrayInvertedLists are read, and BlockInvertedLists of PQ<m>x4fs; write the index with these",
            ));
        }
    };
    let found: u64 = held.ids.iter().map(|ids| ids.len() as u64).sum();
    source.expect(found == rows, || {
        format!("its lists hold {found} rows, but it claims {rows}; it is damaged")
    })?;
    for (list, ids) in held.ids.iter().enumerate() {
        let below = ids.iter().find(|&&id| id < 0);
        source.expect(below.is_none(), || {
            format!(
                "list {list} has the id {}; ids of a table are not below 0",
                below.unwrap_or(&0)
            )
        })?;
    }
    Ok(held)
}

/// Bytes of a code that blocks do not tell.
const UNTOLD: u64 = u64::MAX;

/// Reads the numbers of lists and of bytes of a code, which are known.
fn sizes(source: &mut Source<'_>, row: usize, lists: usize) -> Result<(), BuildError> {
    let (found, bytes) = (source.u64()?, source.u64()?);
    let known = bytes == row as u64 || bytes == UNTOLD;
    source.expect(found == lists as u64 && known, || {
        format!(
            "{found} inverted lists of codes of {bytes} bytes stand where {lists} of {row} bytes were expected; it is damaged"
        )
    })
}

fn of_arrays(source: &mut Source<'_>, row: usize, lists: usize) -> Result<Held, BuildError> {
    sizes(source, row, lists)?;
    let letters: [u8; 4] = source.array()?;
    let told: Vec<u64> = list(source, "sizes of lists")?;
    let lens = match &letters {
        b"full" => {
            source.expect(told.len() == lists, || {
                format!(
                    "it has sizes of {} lists, not of {lists}; it is damaged",
                    told.len()
                )
            })?;
            told
        }
        b"sprs" => {
            let mut lens = vec![0; lists];
            let (pairs, odd) = told.as_chunks();
            source.expect(odd.is_empty(), || {
                "it has a list's number without a size; it is damaged".to_owned()
            })?;
            for &[list, len] in pairs {
                let place = usize::try_from(list)
                    .ok()
                    .and_then(|list| lens.get_mut(list));
                let Some(place) = place else {
                    return Err(source.damaged(format!(
                        "it has a size of list {list}, but there are {lists} lists; it is damaged"
                    )));
                };
                *place = len;
            }
            lens
        }
        _ => {
            return Err(source.damaged(format!(
                "\"{}\" stands where the sizes of its lists begin; it is damaged",
                letters.escape_ascii()
            )));
        }
    };
    let mut held = Held {
        ids: Vec::with_capacity(lists),
        codes: Vec::with_capacity(lists),
    };
    for len in lens {
        source.expect_room(len, (row + size_of::<i64>()) as u64, "rows")?;
        held.codes
            .push(source.values(len * row as u64, "bytes of codes")?);
        held.ids.push(source.values(len, "ids")?);
    }
    Ok(held)
}

fn of_blocks(source: &mut Source<'_>, row: usize, lists: usize) -> Result<Held, BuildError> {
    sizes(source, row, lists)?;
    let (rows, bytes) = (source.u64()?, source.u64()?);
    let blocks = usize::try_from(rows).ok();
    let blocks = blocks.and_then(|rows| Blocks::of(rows, row));
    let Some(blocks) = blocks.filter(|blocks| blocks.bytes as u64 == bytes) else {
        return Err(source.damaged(format!(
            "its codes are in blocks of {rows} rows and {bytes} bytes, which codes of {row} bytes are not; it is damaged"
        )));
    };
    let mut held = Held {
        ids: Vec::with_capacity(lists),
        codes: Vec::with_capacity(lists),
    };
    for number in 0..lists {
        let ids: Vec<i64> = list(source, "ids")?;
        let codes: Vec<u8> = list(source, "bytes of codes")?;
        source.expect(blocks.bytes_of(ids.len()) == Some(codes.len()), || {
            format!(
                "list {number} has {} rows in {} bytes, which is no number of blocks; it is damaged",
                ids.len(),
                codes.len()
            )
        })?;
        held.codes.push(blocks.unpack(&codes, ids.len()));
        held.ids.push(ids);
    }
    Ok(held)
}
