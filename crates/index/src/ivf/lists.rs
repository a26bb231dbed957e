//! Inverted lists as flat arrays: where each begins, the ids of its rows, and their codes in blocks (`kernel::blocks`).
//!
//! Lists follow each other by number, each from a multiple of 64 bytes on, and [`SLACK`] bytes follow the last. Row numbers,
//! below, count rows through all lists.

use std::ops::Range;

use crate::kernel::{BLOCK, List, SLACK};

/// Bytes that each list begins at a multiple of: a cache line.
const ALIGN: usize = 64;

/// Lists of codes.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The row number of each list's first row, and how many rows there are.
    starts: Vec<u64>,
    /// Where each list's codes begin, in bytes, and where the last one's end.
    offsets: Vec<u64>,
    ids: AllIds,
    /// Begins at a multiple of 64 bytes of memory after `skip` bytes.
    codes: Vec<u8>,
    skip: usize,
    row_bytes: usize,
}

/// Ids by row number; in four bytes where they fit.
#[derive(Debug)]
enum AllIds {
    Small(Vec<u32>),
    Large(Vec<u64>),
}

impl Default for AllIds {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

/// The ids of one list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ids<'a> {
    /// Row `i` has the `i`-th id.
    Small(&'a [u32]),
    /// The same, of ids that take more than four bytes.
    Large(&'a [u64]),
    /// Row `i` has id `i`.
    Numbers,
}

impl Ids<'_> {
    #[inline]
    pub(super) fn at(&self, row: usize) -> u64 {
        match self {
            Self::Small(ids) => u64::from(ids[row]),
            Self::Large(ids) => ids[row],
            Self::Numbers => row as u64,
        }
    }
}

impl Lists {
    pub(super) fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(super) fn rows(&self) -> usize {
        self.starts.last().map_or(0, |&rows| rows as usize)
    }

    /// Bytes of a row's code.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The row numbers of `list`.
    ///
    /// # Panics
    /// If there is no such list.
    fn range(&self, list: usize) -> Range<usize> {
        self.starts[list] as usize..self.starts[list + 1] as usize
    }

    /// Rows in `list`.
    ///
    /// # Panics
    /// If there is no such list.
    pub(super) fn len(&self, list: usize) -> usize {
        self.range(list).len()
    }

    /// The codes and ids of `list`.
    ///
    /// # Panics
    /// If there is no such list.
    pub(super) fn list(&self, list: usize) -> (List<'_>, Ids<'_>) {
        let range = self.range(list);
        let rows = range.len();
        let codes = &self.codes[self.skip + self.offsets[list] as usize..];
        let ids = match &self.ids {
            AllIds::Small(ids) => Ids::Small(&ids[range]),
            AllIds::Large(ids) => Ids::Large(&ids[range]),
        };
        (List { codes, rows }, ids)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let ids = match &self.ids {
            AllIds::Small(ids) => size_of_val(&ids[..]),
            AllIds::Large(ids) => size_of_val(&ids[..]),
        };
        let places = size_of_val(&self.starts[..]) + size_of_val(&self.offsets[..]);
        (self.codes.len() + ids + places) as u64
    }
}

/// Fills [`Lists`], one list after the other.
pub(super) struct Filler {
    lists: Lists,
    /// Bytes of one component: of what stands together for all rows of a block.
    cell: usize,
}

impl Filler {
    /// For lists of `lens` rows, of rows of `cells` components of `cell` bytes each.
    pub(super) fn new(lens: &[usize], cells: usize, cell: usize, large_ids: bool) -> Self {
        let row_bytes = cells * cell;
        let (mut starts, mut offsets) = (vec![0], vec![0]);
        let (mut rows, mut bytes) = (0, 0);
        for len in lens {
            rows += len;
            bytes += (len * row_bytes).next_multiple_of(ALIGN);
            starts.push(rows as u64);
            offsets.push(bytes as u64);
        }
        let codes = vec![0; bytes + SLACK + ALIGN];
        let skip = codes.as_ptr().align_offset(ALIGN).min(ALIGN);
        let ids = match large_ids {
            false => AllIds::Small(Vec::with_capacity(rows)),
            true => AllIds::Large(Vec::with_capacity(rows)),
        };
        let lists = Lists {
            starts,
            offsets,
            ids,
            codes,
            skip,
            row_bytes,
        };
        Self { lists, cell }
    }

    /// The next list's rows: their ids, and their codes one row after the other.
    pub(super) fn push(&mut self, list: usize, ids: &[i64], codes: &[u8]) {
        let (cell, row_bytes) = (self.cell, self.lists.row_bytes);
        let rows = self.lists.len(list);
        assert_eq!(
            (ids.len(), codes.len()),
            (rows, rows * row_bytes),
            "list {list}"
        );
        let to = self.lists.skip + self.lists.offsets[list] as usize;
        let to = &mut self.lists.codes[to..][..codes.len()];
        pack(codes, row_bytes, cell, to);
        match &mut self.lists.ids {
            AllIds::Small(all) => all.extend(ids.iter().map(|&id| id as u32)),
            AllIds::Large(all) => all.extend(ids.iter().map(|&id| id.cast_unsigned())),
        }
    }

    pub(super) fn finish(self) -> Lists {
        self.lists
    }
}

/// Writes `rows`, one after the other, to blocks: the layout of `kernel::blocks`.
pub(super) fn pack(rows: &[u8], row_bytes: usize, cell: usize, to: &mut [u8]) {
    if row_bytes == 0 {
        return;
    }
    let blocks = rows.chunks(BLOCK * row_bytes);
    for (rows, block) in blocks.zip(to.chunks_mut(BLOCK * row_bytes)) {
        let width = rows.len() / row_bytes;
        for (number, row) in rows.chunks_exact(row_bytes).enumerate() {
            for (component, value) in row.chunks_exact(cell).enumerate() {
                let at = (component * width + number) * cell;
                block[at..at + cell].copy_from_slice(value);
            }
        }
    }
}
