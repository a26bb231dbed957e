//! The lanes of one class, each at a place of its own, so that whoever knows the place needs no look-up by table.

use std::collections::TryReserveError;
use std::ops::{Index, IndexMut, Range};

use rustc_hash::FxHashMap;

use super::lane::Lane;
use crate::TableId;

/// Where a lane lies. It stays the lane's until its table is forgotten and the heap does not refer to it any more.
pub(super) type Place = u32;

pub(super) struct Lanes<T> {
    places: FxHashMap<TableId, Place>,
    list: Vec<Lane<T>>,
    free: Vec<Place>,
}

impl<T> Lanes<T> {
    pub(super) fn new() -> Self {
        Self {
            places: FxHashMap::default(),
            list: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Where the lane of `table` lies, if it has one.
    pub(super) fn find(&self, table: TableId) -> Option<Place> {
        self.places.get(&table).copied()
    }

    /// As [`Lanes::find`], for whoever has seen it at `place` before, in this class or another.
    pub(super) fn find_near(&self, table: TableId, place: Place) -> Option<Place> {
        match self.list.get(place as usize) {
            Some(lane) if lane.table == Some(table) => Some(place),
            _ => self.find(table),
        }
    }

    /// The place of the lane of `table`, a new one if need be and if there is memory for it.
    pub(super) fn find_or_add(&mut self, table: TableId) -> Result<Place, TryReserveError> {
        if let Some(place) = self.find(table) {
            return Ok(place);
        }
        self.places.try_reserve(1)?;
        let lane = Lane::of(table);
        let place = match self.free.pop() {
            Some(place) => {
                self[place] = lane;
                place
            }
            None => {
                self.list.try_reserve(1)?;
                // All lanes may get free, and that must not need memory.
                self.free.try_reserve(self.list.len() + 1)?;
                self.list.push(lane);
                (self.list.len() - 1) as Place
            }
        };
        self.places.insert(table, place);
        Ok(place)
    }

    /// Forgets a table. Its lane, which is empty, stays until the heap does not refer to it.
    pub(super) fn remove(&mut self, table: TableId) -> Option<&Lane<T>> {
        let place = self.places.remove(&table)?;
        self[place].forget();
        self.release(place);
        Some(&self[place])
    }

    /// The lane has left the heap, or its table is forgotten: its place is free if both hold.
    pub(super) fn release(&mut self, place: Place) {
        let lane = &self[place];
        if lane.table.is_none() && !lane.in_over {
            self.free.push(place);
        }
    }

    /// How many places there are, free ones among them.
    pub(super) fn places(&self) -> usize {
        self.list.len()
    }

    /// The lanes at these places, as far as there are so many.
    pub(super) fn at(&self, places: Range<usize>) -> impl Iterator<Item = (TableId, &Lane<T>)> {
        let lanes = self.list.iter().take(places.end).skip(places.start);
        lanes.filter_map(|lane| Some((lane.table?, lane)))
    }
}

impl<T> Index<Place> for Lanes<T> {
    type Output = Lane<T>;

    fn index(&self, place: Place) -> &Lane<T> {
        &self.list[place as usize]
    }
}

impl<T> IndexMut<Place> for Lanes<T> {
    fn index_mut(&mut self, place: Place) -> &mut Lane<T> {
        &mut self.list[place as usize]
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
    fn a_place_is_taken_again_once_the_heap_does_not_refer_to_it() {
        let mut lanes: Lanes<()> = Lanes::new();
        let first = lanes.find_or_add(table(0)).unwrap();
        lanes[first].in_over = true;
        assert!(lanes.remove(table(0)).is_some());
        let second = lanes.find_or_add(table(1)).unwrap();
        assert_ne!(first, second);
        lanes[first].in_over = false;
        lanes.release(first);
        assert_eq!(lanes.find_or_add(table(2)), Ok(first));
        assert_eq!(lanes.find_near(table(2), second), Some(first));
        assert_eq!(lanes.find_near(table(1), second), Some(second));
        assert_eq!(lanes.at(0..lanes.places()).count(), 2);
    }
}
