//! Queries under way.

use std::ops::{Index, IndexMut};

use chiplet_policy::TableId;
use chiplet_table::Class;

use super::hardware::Asked;
use super::units::Units;

/// A query under way.
pub(super) struct Query {
    /// Counts queries: a place in the list is used again.
    pub(super) serial: u64,
    pub(super) table: u32,
    /// Which of the table's queries.
    pub(super) number: u32,
    pub(super) arrived: u64,
    pub(super) started: u64,
    /// Segments of a walk that are done.
    pub(super) segment: u32,
    /// Time of all workers.
    pub(super) busy: u64,
    pub(super) units: Option<Units>,
    /// Who asks, if that is not the common stream.
    pub(super) client: Option<usize>,
    /// The row that it counts for.
    pub(super) row: Option<u32>,
    pub(super) class: Class,
    /// How many times what its table's tasks take.
    pub(super) work: f64,
    pub(super) due: Option<u64>,
    /// Its client has been told that it has expired.
    pub(super) told: bool,
    pub(super) running: bool,
}

impl Query {
    pub(super) fn asked(&self) -> Asked {
        Asked {
            table: self.table,
            number: self.number,
        }
    }
}

/// What queues and the planner know a table by.
pub(super) fn table_id(table: u32) -> TableId {
    TableId {
        slot: table,
        generation: 0,
    }
}

/// What is known of a table from its last query.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// It asked for more than its share.
    pub(super) is_backlogged: bool,
    /// Units that it was cut into.
    pub(super) units: u32,
}

/// Queries under way, each in a place that is used again.
#[derive(Default)]
pub(super) struct Queries {
    list: Vec<Query>,
    free: Vec<usize>,
}

impl Queries {
    /// Finds a place for a query.
    pub(super) fn place(&mut self, query: Query) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.list[place] = query;
                place
            }
            None => {
                self.list.push(query);
                self.list.len() - 1
            }
        }
    }

    /// A query's place is free.
    pub(super) fn release(&mut self, place: usize) {
        self.list[place].serial = u64::MAX;
        self.free.push(place);
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.list.len() - self.free.len()
    }
}

impl Index<usize> for Queries {
    type Output = Query;

    fn index(&self, place: usize) -> &Query {
        &self.list[place]
    }
}

impl IndexMut<usize> for Queries {
    fn index_mut(&mut self, place: usize) -> &mut Query {
        &mut self.list[place]
    }
}
