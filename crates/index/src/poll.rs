//! How often a search asks whether anybody still waits for its answer.

use chiplet_table::{Context, SearchError};

/// Nodes that a walk follows between two questions, at most: some 2,500 rows compared, 50 us or less where they are in
/// cache.
const STEPS: usize = 256;

/// Rows that a walk compares for each node that it follows, about.
const ROWS: usize = 10;

/// Bytes that a scan reads between two questions: 10 to 50 us. A power of two.
const BYTES: u64 = 256 << 10;

/// Bytes that a walk reads between two questions, and a scan of some rows here and there: 50 us or so.
const SCATTERED: usize = 1 << 20;

/// Steps of a walk between two questions, if a row takes so many bytes and so many `nodes` are followed in a step.
pub(crate) fn steps(row_bytes: usize, nodes: usize) -> u32 {
    let followed = (SCATTERED / (ROWS * row_bytes.max(1))).min(STEPS);
    (followed / nodes).max(1) as u32
}

/// Rows that a scan of a graph compares at once, and between two questions, if a row takes so many bytes.
pub(crate) fn blocks(row_bytes: usize) -> (usize, usize) {
    /// What is compared at once, and between two questions, of rows of some hundred bytes.
    const MOST: (usize, usize) = (256, 4_096);
    let rows = SCATTERED / row_bytes.max(1);
    let block = rows.clamp(1, MOST.0);
    (block, (rows / block * block).clamp(block, MOST.1))
}

/// Reports that `bytes` are about to be read, or gives the search up.
///
/// # Errors
/// [`SearchError::Stopped`].
pub(crate) fn read(context: &mut Context, bytes: u64) -> Result<(), SearchError> {
    let before = context.bytes() / BYTES;
    context.add_bytes(bytes);
    match context.bytes() / BYTES == before {
        true => Ok(()),
        false => context.check(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_rows_are_asked_for_more_often() {
        assert_eq!((steps(256, 1), blocks(256)), (256, (256, 4_096)));
        // 4,096 dimensions: 16 KiB a row.
        assert_eq!((steps(16 << 10, 1), blocks(16 << 10)), (6, (64, 64)));
        assert_eq!((steps(64 << 20, 3), blocks(64 << 20)), (1, (1, 1)));
        for bytes in [0, 1, 100, 3_000, 1 << 20, usize::MAX / 16] {
            let (block, between) = blocks(bytes);
            assert!(block >= 1 && between >= block && between.is_multiple_of(block));
            assert!(between * bytes <= SCATTERED.max(bytes));
        }
    }
}
