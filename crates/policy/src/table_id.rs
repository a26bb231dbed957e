//! The name by which every layer knows a table: a slot, and a number that tells the tables of a slot apart.
//!
//! An executor reuses a table's slot after the table is removed, and every executor counts its slots from 0. The
//! generation is what makes a name unique: executors take it from one counter of the whole process. So a stale name
//! never hits the table that came later, and a name never hits a table of another executor. Ids order by slot first,
//! which is the order of every "ties broken by id" here.

use std::fmt;

/// A table's name. `Copy`, 8 bytes, ordered by slot and then by generation.
///
/// Executors give out generations from 1 on, so a name made by hand with generation 0 belongs to no executor.
///
/// ```
/// use chiplet_policy::TableId;
///
/// let by_hand = TableId { slot: 3, generation: 0 };
/// let seventeenth = TableId { slot: 3, generation: 17 };
/// assert!(by_hand < seventeenth);
/// assert_eq!(by_hand.to_string(), "table 3");
/// assert_eq!(seventeenth.to_string(), "table 3#17");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// Place in the executor's list of tables, counted from 0.
    pub slot: u32,
    /// Which table of the process this is, counted from 1 over all executors; 0 is none of them. The count starts over
    /// after 2^32 - 1 tables.
    pub generation: u32,
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            0 => write!(f, "table {}", self.slot),
            generation => write!(f, "table {}#{generation}", self.slot),
        }
    }
}
