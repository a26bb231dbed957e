//! The tables of a queue, each at a place of its own, so that whoever knows the place needs no look-up by table.

use std::collections::TryReserveError;
use std::ops::{Index, IndexMut};

use rustc_hash::FxHashMap;

use super::Intake;
use super::flow::Flow;
use crate::TableId;

/// Where a table's flows lie, until that is forgotten.
pub(super) type Place = u32;

/// No place.
pub(super) const NOWHERE: Place = u32::MAX;

/// No table: that of a row whose table is forgotten.
const NONE: TableId = TableId {
    slot: u32::MAX,
    generation: u32::MAX,
};

/// What a queue keeps for one table.
#[derive(Default)]
pub(super) struct Row {
    /// [`NONE`] once it is forgotten.
    pub(super) table: TableId,
    pub(super) intake: Intake,
    /// By class.
    pub(super) flows: [Flow; 2],
}

impl Row {
    /// The table, unless it is forgotten.
    pub(super) fn known(&self) -> Option<TableId> {
        (self.table != NONE).then_some(self.table)
    }
}

#[derive(Default)]
pub(super) struct Flows {
    places: FxHashMap<TableId, Place>,
    pub(super) list: Vec<Row>,
    free: Vec<Place>,
}

impl Flows {
    /// Where the flows of `table` lie, if it has some.
    pub(super) fn find(&self, table: TableId) -> Option<Place> {
        self.places.get(&table).copied()
    }

    /// As [`Flows::find`], for whoever has seen them at `place` before.
    #[inline(always)]
    pub(super) fn find_near(&self, table: TableId, place: Place) -> Option<Place> {
        match self.list.get(place as usize) {
            Some(row) if row.table == table => Some(place),
            _ => self.find(table),
        }
    }

    /// As [`Flows::find_near`]; makes new ones if need be and if there is memory for them.
    #[inline(always)]
    pub(super) fn find_or_add(
        &mut self,
        table: TableId,
        place: Place,
    ) -> Result<Place, TryReserveError> {
        match self.find_near(table, place) {
            Some(place) => Ok(place),
            None => self.add(table),
        }
    }

    #[cold]
    fn add(&mut self, table: TableId) -> Result<Place, TryReserveError> {
        self.places.try_reserve(1)?;
        let row = Row {
            table,
            ..Row::default()
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.list[place as usize] = row;
                place
            }
            None => {
                self.list.try_reserve(1)?;
                // All places may get free, and that must not need memory.
                self.free.try_reserve(self.list.len() + 1)?;
                self.list.push(row);
                (self.list.len() - 1) as Place
            }
        };
        self.places.insert(table, place);
        Ok(place)
    }

    /// Forgets a table, of which nothing waits or will.
    pub(super) fn remove(&mut self, table: TableId) -> Option<Intake> {
        let place = self.places.remove(&table)?;
        let row = &mut self.list[place as usize];
        row.table = NONE;
        let intake = row.intake;
        let waiting = row.flows.iter().map(|flow| flow.list.len);
        debug_assert_eq!(
            waiting.sum::<usize>(),
            0,
            "a table retires after its last task"
        );
        self.free.push(place);
        Some(intake)
    }
}

/// The flow of a place and class.
impl Index<(Place, usize)> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, (place, class): (Place, usize)) -> &Flow {
        &self.list[place as usize].flows[class]
    }
}

impl IndexMut<(Place, usize)> for Flows {
    #[inline]
    fn index_mut(&mut self, (place, class): (Place, usize)) -> &mut Flow {
        &mut self.list[place as usize].flows[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(slot: u32) -> TableId {
        TableId {
            slot,
            generation: 1,
        }
    }

    #[test]
    fn a_place_is_taken_again_once_its_table_is_forgotten() {
        let mut flows = Flows::default();
        let first = flows.find_or_add(table(0), NOWHERE).unwrap();
        let second = flows.find_or_add(table(1), first).unwrap();
        assert_ne!(first, second);
        assert!(flows.remove(table(0)).is_some());
        assert_eq!(flows.find_or_add(table(2), NOWHERE), Ok(first));
        assert_eq!(flows.find_near(table(2), second), Some(first));
        assert_eq!(flows.find_near(table(1), second), Some(second));
    }
}
