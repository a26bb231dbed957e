//! Fast-scan codes: 4 bits a part, in blocks whose rows lie side by side, which Faiss shuffles in registers.

/// How the codes of a list lie in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Rows of a block, a multiple of [`GROUP`].
    pub(crate) rows: usize,
    /// Bytes of a block.
    pub(crate) bytes: usize,
}

/// Rows that lie together: the low halves of 16 bytes hold the first 16, the high halves the others.
const GROUP: usize = 32;

impl Blocks {
    /// Blocks of `rows` rows of `code_bytes` bytes each, if there are such.
    pub(crate) fn of(rows: usize, code_bytes: usize) -> Option<Self> {
        let bytes = rows.checked_mul(code_bytes)?;
        (rows > 0 && rows.is_multiple_of(GROUP)).then_some(Self { rows, bytes })
    }

    /// Bytes of the blocks that hold `rows` rows, if there are not too many.
    pub(crate) fn bytes_of(self, rows: usize) -> Option<usize> {
        rows.div_ceil(self.rows).checked_mul(self.bytes)
    }

    /// The codes of the first `rows` rows in `blocks`, one row after the other.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn unpack(self, blocks: &[u8], rows: usize) -> Vec<u8> {
        let code_bytes = self.bytes / self.rows;
        let mut codes = Vec::with_capacity(rows * code_bytes);
        for row in 0..rows {
            let block = &blocks[row / self.rows * self.bytes..][..self.bytes];
            let (group, place) = (row % self.rows / GROUP, row % GROUP);
            // Of each 16 rows the first eight and the others take turns.
            let (high, place) = (place / 16, place % 16);
            let at = group * GROUP + place % 8 * 2 + place / 8;
            codes.extend((0..code_bytes).map(|pair| {
                // A byte of a code is two parts; those of the second lie 16 bytes behind those of the first.
                let at = pair * self.rows + at;
                let [first, second] = [at, at + 16].map(|at| block[at] >> (4 * high) & 15);
                first | second << 4
            }));
        }
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_each_group_and_half_are_found() {
        // Two blocks of 64 rows of 4 parts: byte `b` of a block says where it is.
        let blocks = Blocks::of(64, 2).unwrap();
        assert_eq!((blocks.bytes, blocks.bytes_of(65)), (128, Some(256)));
        let bytes: Vec<u8> = (0..=255).collect();
        let codes = blocks.unpack(&bytes, 65);
        assert_eq!(codes.len(), 130);
        let code = |row: usize| [codes[2 * row], codes[2 * row + 1]];
        let low = |a: u8, b: u8| (a & 15) | (b & 15) << 4;
        let high = |a: u8, b: u8| a >> 4 | (b >> 4) << 4;
        assert_eq!(code(0), [low(0, 16), low(64, 80)]);
        assert_eq!(code(1), [low(2, 18), low(66, 82)]);
        assert_eq!(code(8), [low(1, 17), low(65, 81)]);
        assert_eq!(code(16), [high(0, 16), high(64, 80)]);
        assert_eq!(code(32), [low(32, 48), low(96, 112)]);
        assert_eq!(code(63), [high(47, 63), high(111, 127)]);
        assert_eq!(code(64), [low(128, 144), low(192, 208)]);
    }

    #[test]
    fn blocks_of_no_whole_groups_are_none() {
        for rows in [0, 31, 33] {
            assert_eq!(Blocks::of(rows, 2), None);
        }
        assert_eq!(Blocks::of(64, usize::MAX), None);
    }
}
