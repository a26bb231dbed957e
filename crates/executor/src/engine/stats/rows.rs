//! What the workers of one group have done for each table, added up.

use std::time::Duration;

use chiplet_policy::{TableId, Usage};
use rtrb::Consumer;

use super::note::Note;
use crate::counts::{Served, TABLES_AT_ONCE};
use crate::latencies::Latencies;
use crate::sync::Mutex;

/// Tables' histograms are copied in smaller steps than mere counters.
const COPIED_AT_ONCE: usize = TABLES_AT_ONCE / 8;

/// What a group's workers did for one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableStats {
    pub(crate) served: Served,
    pub(crate) wait: Latencies,
    pub(crate) service: Latencies,
}

/// What a group's workers did, as it was read.
pub(crate) struct GroupStats {
    pub(crate) tables: Vec<(TableId, TableStats)>,
    /// Of tables that were removed.
    pub(crate) retired: TableStats,
    /// Time spent on tasks and scan units.
    pub(crate) busy: Duration,
}

impl TableStats {
    /// Adds another group's.
    pub(crate) fn absorb(&mut self, other: &TableStats) {
        self.served.absorb(other.served);
        self.wait.absorb(&other.wait);
        self.service.absorb(&other.service);
    }
}

/// Under the group's lock.
#[derive(Default)]
pub(super) struct Rows {
    /// Notes of the workers, in no order.
    rings: Vec<Consumer<Note>>,
    pub(super) sums: Sums,
}

#[derive(Default)]
pub(super) struct Sums {
    /// In no order; a list, so that a reader can go through it in steps.
    list: Vec<Row>,
    /// Where in the list the table of each slot stands. A slot is another table's only when the first is retired.
    places: Vec<usize>,
    /// Those that have been used since the balancer last asked, which may be few of very many.
    in_use: Vec<TableId>,
    /// Tables that were removed.
    retired: TableStats,
    /// Nanoseconds of all of them.
    busy: u64,
}

struct Row {
    table: TableId,
    stats: TableStats,
    /// Nanoseconds and bytes that were used since the balancer last asked, if it has been used since.
    used: Option<(u64, u64)>,
}

impl Rows {
    /// Gives a worker's notes their number.
    pub(super) fn add_ring(&mut self, notes: Consumer<Note>) -> usize {
        self.rings.push(notes);
        self.rings.len() - 1
    }

    /// Adds the notes of that number up. False: there is none.
    pub(super) fn gather(&mut self, ring: usize) -> bool {
        let Self { rings, sums } = self;
        let Some(ring) = rings.get_mut(ring) else {
            return false;
        };
        if let Ok(notes) = ring.read_chunk(ring.slots()) {
            let (first, rest) = notes.as_slices();
            for notes in [first, rest] {
                notes.iter().for_each(|note| sums.add(note));
            }
            notes.commit_all();
        }
        true
    }
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, note: &Note) {
        let (bytes, busy) = note.used;
        let tasks = u64::from(note.tasks);
        self.busy += busy;
        let row = self.of(note.table);
        let used = row.used.get_or_insert_default();
        *used = (used.0 + busy, used.1 + bytes);
        row.stats.served.count(note.end, tasks);
        if let Some([wait, service]) = note.times {
            row.stats.wait.record_many(wait, tasks);
            row.stats.service.record_many(service, tasks);
        }
    }

    fn of(&mut self, table: TableId) -> &mut Row {
        let place = match self.place_of(table) {
            Some(place) => place,
            None => self.add_row(table),
        };
        let row = &mut self.list[place];
        if row.used.is_none() {
            self.in_use.push(table);
        }
        row
    }

    #[inline]
    fn place_of(&self, table: TableId) -> Option<usize> {
        let &place = self.places.get(table.slot as usize)?;
        let row = self.list.get(place)?;
        (row.table == table).then_some(place)
    }

    #[cold]
    fn add_row(&mut self, table: TableId) -> usize {
        let (slot, place) = (table.slot as usize, self.list.len());
        if self.places.len() <= slot {
            self.places.resize(slot + 1, usize::MAX);
        }
        self.places[slot] = place;
        self.list.push(Row {
            table,
            stats: TableStats::default(),
            used: None,
        });
        place
    }

    /// What was used of `table` since this was last asked.
    fn take_used(&mut self, table: TableId) -> Option<(TableId, Usage)> {
        let place = self.place_of(table)?;
        let (busy, bytes) = self.list[place].used.take()?;
        let busy = Duration::from_nanos(busy);
        Some((table, Usage { busy, bytes }))
    }

    pub(super) fn retire(&mut self, table: TableId) {
        let Some(place) = self.place_of(table) else {
            return;
        };
        let gone = self.list.swap_remove(place);
        self.retired.absorb(&gone.stats);
        if let Some(moved) = self.list.get(place) {
            self.places[moved.table.slot as usize] = place;
        }
    }
}

/// What is counted, read in steps: a worker waits for one of them at most. `between` is called after each, without the
/// lock.
pub(super) fn read(rows: &Mutex<Rows>, mut between: impl FnMut()) -> GroupStats {
    let mut tables = Vec::new();
    loop {
        // Room for more is made without the lock.
        tables.reserve(COPIED_AT_ONCE);
        let before = tables.len();
        {
            let rows = rows.lock();
            let some = rows.sums.list.iter().skip(before).take(COPIED_AT_ONCE);
            tables.extend(some.map(|row| (row.table, row.stats.clone())));
        }
        between();
        if tables.len() < before + COPIED_AT_ONCE {
            break;
        }
    }
    let sums = &rows.lock().sums;
    GroupStats {
        tables,
        retired: sums.retired.clone(),
        busy: Duration::from_nanos(sums.busy),
    }
}

/// As [`super::Stats::drain_used`], in such steps too.
pub(super) fn drain_used(rows: &Mutex<Rows>, mut each: impl FnMut(TableId, Usage)) {
    let mut some = Vec::with_capacity(TABLES_AT_ONCE);
    let in_use = std::mem::take(&mut rows.lock().sums.in_use);
    // A table that is used meanwhile is in this list already until it has been taken.
    for tables in in_use.chunks(TABLES_AT_ONCE) {
        {
            let sums = &mut rows.lock().sums;
            some.extend(tables.iter().filter_map(|&table| sums.take_used(table)));
        }
        some.drain(..).for_each(|(table, used)| each(table, used));
    }
}

// Not under a model checker: its locks belong to a running model.
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use super::super::{NOTES, Stats};
    use super::*;
    use crate::counts::End;

    fn table(slot: u32) -> TableId {
        let generation = 1;
        TableId { slot, generation }
    }

    fn note(slot: u32, end: End) -> Note {
        Note::untouched(table(slot), end, 1)
    }

    fn rows(tables: u32) -> Mutex<Rows> {
        let mut rows = Rows::default();
        (0..tables).for_each(|slot| rows.sums.add(&note(slot, End::Done)));
        Mutex::new(rows)
    }

    /// However many tables there are, a worker gets the lock after each small step of a reader.
    #[test]
    fn a_reader_holds_a_worker_up_for_one_small_step_at_most() {
        let count = 10 * COPIED_AT_ONCE as u32 + 3;
        let rows = rows(count);
        let mut turns = 0;
        let counts = read(&rows, || {
            // It would wait for ever if the reader held the lock. It goes on with tables read already, others, and new
            // ones.
            let mut rows = rows.lock();
            for slot in [0, count - 1, count + turns] {
                rows.sums.add(&note(slot, End::Expired));
            }
            turns += 1;
        });
        let steps = (counts.tables.len()).div_ceil(COPIED_AT_ONCE) as u32;
        assert!((steps..=steps + 1).contains(&turns), "{turns}, {steps}");
        assert!(counts.tables.len() >= count as usize);
        let mut seen: Vec<_> = counts.tables.iter().map(|(table, _)| table.slot).collect();
        seen.dedup();
        assert!(
            seen.is_sorted() && seen.len() == counts.tables.len(),
            "each once"
        );
        let of = |slot: usize| counts.tables[slot].1.served;
        assert_eq!(of(0).of(End::Expired), 0, "it was read before");
        assert!(
            of(count as usize - 1).of(End::Expired) > 0,
            "it was read after"
        );
    }

    #[test]
    fn use_is_drained_once_and_what_is_retired_stays_counted() {
        let count = 3 * TABLES_AT_ONCE as u32;
        let rows = rows(count);
        let part = Note::part(table(1), 7, Duration::from_secs(1));
        rows.lock().sums.add(&part);
        let drain = || {
            let mut used = Vec::new();
            drain_used(&rows, |table, usage| used.push((table.slot, usage.bytes)));
            used
        };
        let used = drain();
        assert_eq!(used.len(), count as usize);
        assert_eq!(used.iter().filter(|(_, bytes)| *bytes > 0).count(), 1);
        assert!(drain().is_empty());
        // The last takes the place of the first, and is found there.
        rows.lock().sums.retire(table(0));
        let last = table(count - 1);
        rows.lock().sums.add(&note(last.slot, End::Cancelled));
        assert_eq!(drain(), [(last.slot, 0)]);
        let counts = read(&rows, || ());
        assert_eq!(counts.retired.served.of(End::Done), 1);
        let of_last: Vec<_> = counts.tables.iter().filter(|(id, _)| *id == last).collect();
        assert_eq!(of_last.len(), 1);
        let served = of_last[0].1.served;
        assert_eq!((served.of(End::Done), served.of(End::Cancelled)), (1, 1));
        assert_eq!(counts.tables.len(), count as usize - 1);
    }

    #[test]
    fn however_many_notes_a_worker_writes_each_counts_once() {
        let stats = Stats::new(1, 1);
        let mut notes = stats.join(0);
        for count in 1..=3 * NOTES as u64 + 1 {
            notes.add(note(0, End::Done), &stats);
            if count % 50 == 0 {
                assert_eq!(stats.read(0).tables[0].1.served.of(End::Done), count);
            }
        }
        let all = stats.read(0).tables[0].1.served.of(End::Done);
        assert_eq!(all, 3 * NOTES as u64 + 1);
    }
}
