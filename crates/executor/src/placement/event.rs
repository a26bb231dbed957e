//! What is told of a placement change.

use std::sync::Arc;

use chiplet_policy::{Homes, RemapReason, TableId};

/// A placement change, as it is reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemapEvent {
    /// Version of the new placement.
    pub version: u64,
    /// What triggered it.
    pub reason: RemapReason,
    /// Tables that moved.
    pub moves: Vec<TableMove>,
    /// How many bytes, about, lie in the old homes' caches and have to be read anew.
    pub cold_bytes: u64,
}

/// One table's move.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableMove {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: Arc<str>,
    /// Homes before.
    pub from: Homes,
    /// Homes after.
    pub to: Homes,
}

impl std::fmt::Display for RemapEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "placement {}: {}; ", self.version, self.reason)?;
        for (index, moved) in self.moves.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} {} -> {}", moved.name, moved.from, moved.to)?;
        }
        Ok(())
    }
}
