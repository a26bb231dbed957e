//! The waiting tasks of one class, in the order in which they are served: as they came, with two exceptions.
//!
//! - **Runs.** A worker that has just run a table goes on with it for up to `run_length` tasks, because its private
//!   cache holds that table now; when it turns to another one, it prefers a table that it ran last. A task goes out of
//!   turn only if it has waited nearly as long as the oldest: at least `1 - reorder` of that. So no task waits longer
//!   than `1 / (1 - reorder)` times what it would wait in plain order. With `run_length == 1` the order is plain.
//! - **Shares.** A table may ask for [`SHARE`] of the workers' time, and for less while tables of more weight wait: by
//!   as much as its weight is less than the largest. If it asks for more, its tasks are ordered as if they had come at
//!   that pace. Whoever asks for less then goes before what is too much, and hardly waits for it.
//!
//! Every waiting task stands in the lane of its table ([`Lane`]). A lane whose tasks come only a little too fast
//! stands in `within` by its first task's key. One whose tasks are [`TOO_FAST`] late by then, refused ones included,
//! is *over its share* and stands in `over` until it is empty; or, where weights are equal, until its tasks come
//! slowly again. All lanes there together are ordered among the others as one table would be that asks for too much:
//! its next task is due at `turn`. Which of them has that turn is decided by their weights alone: each has a tag,
//! which every task that it is served moves on by its service time over its weight, and the smallest is next
//! (self-clocked fair queueing; Golestani, INFOCOM 1994). So they get time in proportion to their weights, however
//! fast their tasks come and however many wait. A lane that joins them is tagged as if it had just been served, at
//! `clock`. So nothing of an overload is held against a table here once its tasks are through. What is left is its
//! newest key, which is at most [`LEAD`] late.
//!
//! A lane that was served out of turn keeps its old key in its heap, which is mended when it comes to the front; a
//! lane that has left a heap is found there until then, too.

mod choose;
mod front;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, TryReserveError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::lane::{Buffers, Lane, follow};
use super::terms::{Outcome, Run, Taken};
use super::weights::Tally;
use super::{Discipline, Intake, Pace};
use crate::TableId;
pub(super) use front::Front;

/// The part of its domain's time that a table may ask for before its tasks are ordered later: as much as it may have
/// of the queue's places by default.
const SHARE: (u64, u64) = (3, 4);

/// A table's tasks are ordered at most this much later than they came; once it is over its share, than the one before
/// was served. It bounds how long a table that asked for too much can be made to wait by others; longer than any queue
/// of default length takes.
const LEAD: Duration = Duration::from_secs(1);

/// A table whose tasks are ordered this much later than they came asks for more than its share, and not just in a
/// burst.
const TOO_FAST: Duration = Duration::from_millis(10);

/// Lanes by the key or tag of their first task, smallest first. It may be too small, and a lane may have left since.
type Heap = BinaryHeap<Reverse<(u64, TableId)>>;

pub(super) struct Order<T> {
    run_length: u32,
    reorder: f64,
    workers: u64,
    /// Every table that ever submitted here.
    lanes: FxHashMap<TableId, Lane<T>>,
    within: Heap,
    over: Heap,
    /// The tag of the lane over its share that was served last.
    clock: u64,
    /// When the next task of a lane over its share is due.
    turn: u64,
    tally: Tally,
    buffers: Buffers<T>,
    queued: usize,
    /// What all waiting tasks will take, by their tables' mean service times, in nanoseconds.
    work: u64,
}

impl<T> Order<T> {
    pub(super) fn new(discipline: &Discipline, workers: u32) -> Self {
        Self {
            run_length: discipline.run_length,
            reorder: discipline.reorder,
            workers: u64::from(workers.max(1)),
            lanes: FxHashMap::default(),
            within: BinaryHeap::new(),
            over: BinaryHeap::new(),
            clock: 0,
            turn: 0,
            tally: Tally::default(),
            buffers: Buffers::new(),
            queued: 0,
            work: 0,
        }
    }

    pub(super) fn set_workers(&mut self, workers: u32) {
        self.workers = u64::from(workers.max(1));
    }

    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// What all waiting tasks will take, in nanoseconds.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    pub(super) fn lane(&self, table: TableId) -> Option<&Lane<T>> {
        self.lanes.get(&table)
    }

    /// The lane of `table`, a new one if need be and if there is memory for it.
    pub(super) fn lane_mut(&mut self, table: TableId) -> Result<&mut Lane<T>, TryReserveError> {
        // Only a full map is asked twice: with room for one more, `entry` does not grow it.
        if self.lanes.len() == self.lanes.capacity() && !self.lanes.contains_key(&table) {
            self.lanes.try_reserve(1)?;
        }
        Ok(self.lanes.entry(table).or_default())
    }

    /// Makes sure that [`Order::append`] of so many tasks needs no memory. The table has a lane.
    pub(super) fn make_room(
        &mut self,
        table: TableId,
        tasks: usize,
    ) -> Result<&mut Lane<T>, TryReserveError> {
        let lane = self.lanes.entry(table).or_default();
        if !lane.in_within {
            self.within.try_reserve(1)?;
        }
        if !lane.in_over {
            self.over.try_reserve(1)?;
        }
        lane.make_room(tasks, &mut self.buffers)?;
        Ok(lane)
    }

    /// Adds a task that came at `at`.
    pub(super) fn append(&mut self, table: TableId, task: T, at: u64, weight: f32) -> Pace {
        let lane = self.lanes.entry(table).or_default();
        lane.lengthen(&mut self.buffers);
        self.tally.join(lane, weight);
        let less = self.tally.less(f64::from(weight));
        let apart = apart(lane.service.home, self.workers, less);
        let key = lane.append(task, at, apart, nanos(LEAD));
        self.queued += 1;
        self.work += lane.service.home;
        let is_late = key - at > nanos(TOO_FAST);
        if lane.over && !is_late && self.tally.is_even() {
            self.tally.forgive(lane);
        }
        if !lane.over && is_late {
            self.mark_over(table);
            return Pace::OverShare;
        }
        match lane.over {
            true => Pace::OverShare,
            false => {
                if !std::mem::replace(&mut lane.in_within, true) {
                    let first = lane.key().unwrap_or(key);
                    self.within.push(Reverse((first, table)));
                }
                Pace::Within
            }
        }
    }

    /// So many tasks of `table` that came at `at` were refused: it has asked for them all the same.
    pub(super) fn note_refused(&mut self, table: TableId, tasks: usize, at: u64) {
        if let Some(lane) = self.lanes.get_mut(&table) {
            let less = self.tally.less(f64::from(lane.weight));
            let apart = apart(lane.service.home, self.workers, less);
            lane.ask(at, apart.saturating_mul(tasks as u64), nanos(LEAD));
        }
    }

    /// Puts a lane with waiting tasks among those over their share.
    fn mark_over(&mut self, table: TableId) {
        if self.tally.over == 0 {
            // What was left behind there is of another time.
            for Reverse((_, other)) in self.over.drain() {
                if let Some(lane) = self.lanes.get_mut(&other) {
                    lane.in_over = false;
                }
            }
            self.clock = 0;
        }
        let Some(lane) = self.lanes.get_mut(&table) else {
            return;
        };
        if self.tally.over == 0 {
            self.turn = lane.key().unwrap_or_default();
        }
        self.tally.over += 1;
        self.tally.over_weight += f64::from(lane.weight);
        lane.over = true;
        let step = lane.step(lane.service.home, self.workers);
        lane.tag = self.clock.saturating_add(step);
        if !std::mem::replace(&mut lane.in_over, true) {
            self.over.push(Reverse((lane.tag, table)));
        }
    }

    /// The counters of one table, which has had a task here.
    pub(super) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        &mut self.lanes.entry(table).or_default().intake
    }

    /// How long a task of `table` takes at home, if that is known.
    pub(super) fn service(&self, table: TableId) -> Option<Duration> {
        let home = self.lanes.get(&table)?.service.home;
        (home > 0).then(|| Duration::from_nanos(home))
    }

    /// Takes note of how long a task took, at home or away, if it was run at all.
    pub(super) fn learn(&mut self, outcome: &Outcome, away: bool) {
        let Some(lane) = self.lanes.get_mut(&outcome.table) else {
            return;
        };
        if let Some(charged) = outcome.charged.filter(|_| lane.over) {
            let spent = outcome.spent.unwrap_or(0);
            lane.uncharged += spent as i64 - charged as i64;
        }
        let Some(nanos) = outcome.spent else {
            return;
        };
        if away {
            lane.service.away = follow(lane.service.away, nanos);
        } else {
            let before = lane.service.home;
            lane.service.home = follow(before, nanos);
            let waiting = lane.len() as u64;
            self.work = (self.work + waiting * lane.service.home).saturating_sub(waiting * before);
        }
    }

    /// The next task for a worker: `front`'s, or one that may go out of turn.
    pub(super) fn take(
        &mut self,
        front: Front,
        worker: Option<usize>,
        run: &Run,
        now: u64,
    ) -> Option<Taken<T>> {
        let table = self.choose(front, worker, run, now);
        let lane = self.lanes.get_mut(&table)?;
        let task = lane.pop(&mut self.buffers)?;
        if worker.is_some() {
            lane.last = worker;
        }
        self.queued -= 1;
        self.work = self.work.saturating_sub(lane.service.home);
        let mut charged = None;
        if front.over {
            self.clock = self.clock.max(front.place);
            charged = Some(lane.service.home);
            let due = lane.charge();
            lane.tag = lane.tag.saturating_add(lane.step(due, self.workers));
            let less = self.tally.less(self.tally.over_weight);
            let apart = apart(due, self.workers, less);
            self.turn = front.key.saturating_add(apart).min(now + nanos(LEAD));
        }
        if lane.len() == 0 {
            self.tally.leave(lane);
        }
        Some(Taken {
            table,
            task,
            charged,
        })
    }

    /// Takes out every task for which `dead` holds, or those of one table, with its table and that one's weight. Only
    /// lanes with tasks are looked at, which may be few of very many.
    pub(super) fn extract(
        &mut self,
        of: Option<TableId>,
        mut dead: impl FnMut(&T) -> bool,
        mut out: impl FnMut(TableId, f32, T),
    ) {
        let heaps = [&self.within, &self.over];
        let all = heaps.into_iter().flat_map(|heap| heap.as_slice());
        let all = all.map(|Reverse((_, table))| *table);
        let (one, all) = match of {
            Some(table) => (Some(table), None),
            None => (None, Some(all)),
        };
        // A lane that has gone from one heap to the other may stand in both; there is nothing dead in it the second
        // time.
        for table in one.into_iter().chain(all.into_iter().flatten()) {
            let Some(lane) = self.lanes.get_mut(&table) else {
                continue;
            };
            let before = lane.len();
            let weight = lane.weight;
            lane.extract(&mut dead, |task| out(table, weight, task));
            let gone = before - lane.len();
            self.queued -= gone;
            self.work = self.work.saturating_sub(gone as u64 * lane.service.home);
            if before > 0 && lane.len() == 0 {
                self.tally.leave(lane);
            }
        }
    }

    /// Counters of every table that ever submitted here.
    pub(super) fn intake(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.lanes.iter().map(|(&table, lane)| (table, lane.intake))
    }

    /// Forgets a table, which has nothing queued any more. Returns its counters.
    pub(super) fn retire(&mut self, table: TableId) -> Option<Intake> {
        let lane = self.lanes.remove(&table)?;
        debug_assert_eq!(lane.len(), 0, "a table retires after its last task");
        Some(lane.intake)
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// How far apart tasks that take `service` come if their table asks for just its share, which is `less` times less
/// than [`SHARE`].
fn apart(service: u64, workers: u64, less: f64) -> u64 {
    let apart = service * SHARE.1 / (workers * SHARE.0);
    match less > 1.0 {
        true => (apart as f64 * less) as u64,
        false => apart,
    }
}
