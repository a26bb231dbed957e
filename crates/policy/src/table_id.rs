//! The name by which every layer knows a table: a slot, and how often that slot has been given out.
//!
//! Slots are reused after a table is removed, generations are not: a stale name never hits the table
//! that came later. Ids order by slot first, which is the order of every "ties broken by id" here.

use std::fmt;

/// A table's name. `Copy`, 8 bytes, ordered by slot and then by generation.
///
/// ```
/// use chiplet_policy::TableId;
///
/// let first = TableId { slot: 3, generation: 0 };
/// let after_reuse = TableId { slot: 3, generation: 1 };
/// assert!(first < after_reuse);
/// assert_eq!(after_reuse.to_string(), "table 3#1");
/// assert_eq!(first.to_string(), "table 3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// Place in the executor's list of tables, counted from 0.
    pub slot: u32,
    /// How many tables had this slot before.
    pub generation: u32,
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            0 => write!(f, "table {}", self.slot),
            reuse => write!(f, "table {}#{reuse}", self.slot),
        }
    }
}
