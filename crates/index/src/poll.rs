//! How often a search asks whether anybody still waits for its answer.

use chiplet_executor::{Context, SearchError};

/// Nodes that a walk follows between two questions: some 2,500 rows compared, 50 us or less where they are in cache.
pub(crate) const STEPS: u32 = 256;

/// Bytes that a scan reads between two questions: 10 to 50 us. A power of two.
const BYTES: u64 = 256 << 10;

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
