//! Workloads of which each shows one promise of the order of service.

/// A table that floods beside quiet ones.
pub(super) const FLOOD: &str = include_str!("../workloads/flood.toml");

/// Bulk work beside interactive queries.
pub(super) const BULK: &str = include_str!("../workloads/bulk.toml");

/// Slow tasks of a table whose queries have deadlines.
pub(super) const STALL: &str = include_str!("../workloads/stall.toml");
