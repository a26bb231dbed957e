//! Estimates of the bytes that a query pulls from memory, from counts the search itself knows.
//!
//! No hardware counter is read, so the estimate works in a container and costs a multiplication. It
//! says what a search touches, not what misses the cache: that is what makes it a property of the table
//! and not of where the table happens to be. Formulas: arXiv 2605.10090, section on traffic estimation.
//! Products that exceed `u64` saturate.

/// Bytes that an HNSW query pulls: every visited vector, and its list of neighbours.
///
/// `visited` counts the vectors whose distance was computed, `vector_bytes` is the size of one stored
/// vector, `links_bytes` that of M links, for the graph's M (neighbours a node). `T = N * (B_v + M * 4)` in the source,
/// whose links have 4 bytes.
///
/// ```
/// use chiplet_table::hnsw_query_bytes;
///
/// // 1,000 vectors of 128 f32 in a graph with M = 32: 1,000 * (512 + 128) bytes.
/// assert_eq!(hnsw_query_bytes(1_000, 128 * 4, 32 * 4), 640_000);
/// ```
pub fn hnsw_query_bytes(visited: u64, vector_bytes: u64, links_bytes: u64) -> u64 {
    visited.saturating_mul(vector_bytes.saturating_add(links_bytes))
}

/// Bytes that the scan of one inverted list pulls: every code in it. `T = |L| * B_v`.
///
/// `list_len` counts the vectors in the list, `code_bytes` is the size of one stored code (the whole
/// vector for IVF-Flat, the compressed one for SQ and PQ).
///
/// ```
/// use chiplet_table::ivf_list_bytes;
///
/// assert_eq!(ivf_list_bytes(1_600, 64 * 4), 409_600);
/// ```
pub fn ivf_list_bytes(list_len: u64, code_bytes: u64) -> u64 {
    list_len.saturating_mul(code_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_saturate_instead_of_wrapping() {
        assert_eq!(hnsw_query_bytes(u64::MAX, 2, 2), u64::MAX);
        assert_eq!(hnsw_query_bytes(1, 8, u64::MAX), u64::MAX);
        assert_eq!(ivf_list_bytes(u64::MAX, 3), u64::MAX);
    }

    #[test]
    fn nothing_visited_pulls_nothing() {
        assert_eq!(hnsw_query_bytes(0, 512, 128), 0);
        assert_eq!(ivf_list_bytes(0, 256), 0);
    }
}
