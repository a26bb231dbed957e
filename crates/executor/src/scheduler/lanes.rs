//! Whose turn it is: a lane a table, and lanes take turns.
//!
//! Lanes with waiting tasks stand in `ready`, and the first of them is next, with two exceptions among the first
//! [`LOOK_AHEAD`]:
//!
//! - A lane whose table has lately been served far less than another's goes before it ([`MUCH`]): a table that asks for
//!   little waits for hardly any that asks for much. Among tables that are asked alike there is no such order, on purpose: the
//!   longer a lane's turn lets it wait, the more of its tasks then find their vectors in a core's cache.
//! - Among the others, a worker is given one that it ran last, whose table its private cache holds.
//!
//! The one whose turn it is is passed over at most [`LOOK_AHEAD`] times, so none starves: a lane has its turn after at most
//! one more than that for each lane before it.

use std::collections::{TryReserveError, VecDeque};
use std::time::Duration;

use chiplet_policy::TableId;
use rustc_hash::FxHashMap;

use super::inbox::{Refusal, is_full};
use crate::counts::Intake;

/// Ready lanes looked at for one that goes before the first, and times that the first may be passed over. Bounded, so
/// that taking is O(1) in the number of tables; 8 is a domain's usual core count, so with few hot tables each core
/// finds its own.
const LOOK_AHEAD: usize = 8;

/// A lane goes before those that have lately been served more than this many times as long. 4 is far from the chance
/// differences between tables that are asked alike, and near enough for a table that asks for a twentieth of a core
/// beside one that would take them all.
const MUCH: u32 = 4;

/// What a lane has been served counts half after so much service of all lanes: some tens of queries of a
/// millisecond, over which bursts even out, and soon enough for a table that becomes noisy.
const HALF_LIFE: Duration = Duration::from_millis(64);

/// An emptied lane gives back its buffer above this many slots.
const LANE_KEEPS: usize = 16;

/// Buffers given back that wait for the next lane that grows, so that a bursty table does not allocate anew in
/// every burst; about as many lanes are long at once as a domain has cores.
const SPARE_BUFFERS: usize = 8;

/// What the queue keeps for one table.
struct Lane<T> {
    tasks: VecDeque<T>,
    /// The lane's own short buffer, while `tasks` is a long one from [`Lanes::buffers`].
    short: VecDeque<T>,
    intake: Intake,
    /// The worker that last ran this lane's table.
    last: Option<usize>,
    /// Time that workers lately spent on its tasks, as of `epoch`; on those that thieves took, and on what siblings took of
    /// one that was cut, nothing is counted: then somebody was idle, and nobody waited for a turn.
    served: Duration,
    epoch: u32,
    /// Times that another lane went before this one since it last had its turn.
    passed: u8,
    /// Whether it stands in [`Lanes::ready`].
    ready: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            tasks: VecDeque::new(),
            short: VecDeque::new(),
            intake: Intake::default(),
            last: None,
            served: Duration::ZERO,
            epoch: 0,
            passed: 0,
            ready: false,
        }
    }
}

impl<T> Lane<T> {
    /// Time that workers lately spent on its tasks, if it is `epoch` now.
    fn served(&self, epoch: u32) -> Duration {
        // After so many halvings nothing is left of any time.
        let halvings = epoch.wrapping_sub(self.epoch).min(31);
        self.served / (1 << halvings)
    }

    /// Makes sure that [`Lane::append`] of one task needs no memory.
    fn make_room(
        &mut self,
        buffers: &mut Vec<VecDeque<T>>,
        ready: &mut VecDeque<TableId>,
    ) -> Result<(), TryReserveError> {
        if !self.ready {
            ready.try_reserve(1)?;
        }
        self.lengthen(buffers);
        self.tasks.try_reserve(1)
    }

    fn append(&mut self, table: TableId, task: T, ready: &mut VecDeque<TableId>) {
        self.intake.waiting += 1;
        self.tasks.push_back(task);
        if !self.ready {
            self.ready = true;
            ready.push_back(table);
        }
    }

    /// If the lane is full, goes on in a longer buffer if there is one to spare.
    fn lengthen(&mut self, buffers: &mut Vec<VecDeque<T>>) {
        let slots = self.tasks.capacity();
        if self.tasks.len() == slots
            && slots >= 4
            && let Some(mut buffer) = buffers.pop_if(|buffer| buffer.capacity() > slots)
        {
            buffer.append(&mut self.tasks);
            self.short = std::mem::replace(&mut self.tasks, buffer);
        }
    }

    /// The next task, and whether another worker than `worker` ran this table last.
    fn pop(&mut self, worker: Option<usize>, buffers: &mut Vec<VecDeque<T>>) -> Option<Taken<T>> {
        let task = self.tasks.pop_front()?;
        self.intake.waiting -= 1;
        let from_sibling = worker.is_some() && self.last.is_some() && self.last != worker;
        if worker.is_some() {
            self.last = worker;
        }
        if self.tasks.is_empty() && self.tasks.capacity() > LANE_KEEPS {
            let short = std::mem::take(&mut self.short);
            let buffer = std::mem::replace(&mut self.tasks, short);
            if buffers.len() < SPARE_BUFFERS {
                buffers.push(buffer);
            }
        }
        Some(Taken { task, from_sibling })
    }
}

/// The lane of `table`, a new one if need be and if there is memory for it.
fn lane_of<T>(
    lanes: &mut FxHashMap<TableId, Lane<T>>,
    table: TableId,
) -> Result<&mut Lane<T>, TryReserveError> {
    // Only a full map is asked twice: with room for one more, `entry` does not grow it.
    if lanes.len() == lanes.capacity() && !lanes.contains_key(&table) {
        lanes.try_reserve(1)?;
    }
    Ok(lanes.entry(table).or_default())
}

/// A task taken from the queue, and whether its table was last run by another worker of the group.
pub(crate) struct Taken<T> {
    pub(crate) task: T,
    pub(crate) from_sibling: bool,
}

pub(super) struct Lanes<T> {
    /// What lanes may have been served before it counts: below, they are alike.
    patience: Duration,
    /// Every table that ever submitted here.
    map: FxHashMap<TableId, Lane<T>>,
    /// Empty buffers of more than [`LANE_KEEPS`] slots.
    buffers: Vec<VecDeque<T>>,
    /// Lanes with waiting tasks. May hold lanes emptied since (`ready` still set); they are skipped.
    ready: VecDeque<TableId>,
    /// Half-lives gone by, and service since the last.
    epoch: u32,
    since: Duration,
}

impl<T> Lanes<T> {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            map: FxHashMap::default(),
            // All at once: a worker that gives a buffer back must not need memory for that.
            buffers: Vec::with_capacity(SPARE_BUFFERS),
            ready: VecDeque::new(),
            epoch: 0,
            since: Duration::ZERO,
        }
    }

    /// Accepts `task` unless its table has `limit` of them waiting. Whatever has to grow for it is grown first.
    pub(super) fn push(
        &mut self,
        table: TableId,
        task: T,
        limit: usize,
    ) -> Result<(), (Refusal, T)> {
        let Ok(lane) = lane_of(&mut self.map, table) else {
            return Err((Refusal::NoMemory, task));
        };
        if is_full(&lane.intake, limit) {
            return Err((Refusal::TableFull, task));
        }
        if lane.make_room(&mut self.buffers, &mut self.ready).is_err() {
            return Err((Refusal::NoMemory, task));
        }
        lane.intake.accepted += 1;
        lane.append(table, task, &mut self.ready);
        Ok(())
    }

    /// Queues a task that was accepted elsewhere; see [`super::inbox::Inbox::adopt`].
    pub(super) fn adopt(&mut self, table: TableId, task: T) {
        let lane = self.map.entry(table).or_default();
        lane.lengthen(&mut self.buffers);
        lane.append(table, task, &mut self.ready);
    }

    /// The counters of `table`, new ones if need be and if there is memory for them.
    pub(super) fn intake_or_new(&mut self, table: TableId) -> Result<&mut Intake, TryReserveError> {
        lane_of(&mut self.map, table).map(|lane| &mut lane.intake)
    }

    /// The counters of one table, which has had a task here.
    pub(super) fn intake_mut(&mut self, table: TableId) -> &mut Intake {
        &mut self.map.entry(table).or_default().intake
    }

    /// Counters of every table that ever submitted here.
    pub(super) fn intakes(&self) -> impl Iterator<Item = (TableId, Intake)> + '_ {
        self.map.iter().map(|(&table, lane)| (table, lane.intake))
    }

    /// Tasks of `table` in its lane.
    pub(super) fn waiting(&self, table: TableId) -> usize {
        self.map.get(&table).map_or(0, |lane| lane.tasks.len())
    }

    /// Says that `table` has been served for this long.
    pub(super) fn charge(&mut self, table: TableId, spent: Duration) {
        self.since += spent;
        if self.since >= HALF_LIFE {
            let gone = self.since.as_nanos() / HALF_LIFE.as_nanos();
            self.epoch = self.epoch.wrapping_add(gone as u32);
            self.since = Duration::ZERO;
        }
        if let Some(lane) = self.map.get_mut(&table) {
            lane.served = lane.served(self.epoch) + spent;
            lane.epoch = self.epoch;
        }
    }

    /// The next task of `table`, for a worker that goes on with it.
    pub(super) fn go_on(&mut self, table: TableId, worker: usize) -> Option<Taken<T>> {
        self.map
            .get_mut(&table)?
            .pop(Some(worker), &mut self.buffers)
    }

    /// A task of the lane whose turn it is for `worker`, which has `finished` a run of that table, or for anybody.
    pub(super) fn turn(
        &mut self,
        worker: Option<usize>,
        finished: Option<TableId>,
    ) -> Option<(TableId, Taken<T>)> {
        let table = self.choose(worker, finished)?;
        let lane = self.map.get_mut(&table)?;
        let taken = lane.pop(worker, &mut self.buffers)?;
        lane.passed = 0;
        // If it has more, it queues up for its next turn at once, so that a sibling may run the same table meanwhile.
        lane.ready = !lane.tasks.is_empty();
        if lane.ready {
            self.ready.push_back(table);
        }
        Some((table, taken))
    }

    /// Removes a lane from the front part of `ready`.
    fn choose(&mut self, worker: Option<usize>, finished: Option<TableId>) -> Option<TableId> {
        loop {
            let front = *self.ready.front()?;
            match self.map.get_mut(&front) {
                Some(lane) if !lane.tasks.is_empty() => {}
                emptied => {
                    if let Some(lane) = emptied {
                        lane.ready = false;
                    }
                    self.ready.pop_front();
                    continue;
                }
            }
            let index = match self.ready.len() {
                1 => 0,
                _ => self.preferred(worker, finished),
            };
            if index > 0
                && let Some(lane) = self.map.get_mut(&front)
            {
                if usize::from(lane.passed) < LOOK_AHEAD {
                    lane.passed += 1;
                } else {
                    self.ready.pop_front();
                    return Some(front);
                }
            }
            return self.ready.remove(index);
        }
    }

    /// Which of the first ready lanes goes first. `finished`, the table whose run is over, gives way to any other that
    /// has not been served much more.
    fn preferred(&self, worker: Option<usize>, finished: Option<TableId>) -> usize {
        let waiting = || {
            let ahead = self.ready.iter().take(LOOK_AHEAD).enumerate();
            ahead.filter_map(|(index, table)| {
                let lane = self.map.get(table)?;
                (!lane.tasks.is_empty()).then_some((index, *table, lane))
            })
        };
        let least = waiting().map(|(_, _, lane)| lane.served(self.epoch)).min();
        let most = least.unwrap_or_default().saturating_add(self.patience);
        let most = most.saturating_mul(MUCH);
        let mut other = None;
        let mut last = 0;
        for (index, table, lane) in waiting() {
            if lane.served(self.epoch) > most {
                continue;
            }
            if Some(table) == finished {
                last = index;
                continue;
            }
            // A table nobody has run yet is no sibling's. Nor is any a thief's, which takes them in turn.
            if worker.is_none() || lane.last.is_none() || lane.last == worker {
                return index;
            }
            other = other.or(Some(index));
        }
        other.unwrap_or(last)
    }

    /// Takes out every waiting task for which `dead` holds, or those of one table. Only lanes with tasks are looked at,
    /// which may be few of very many.
    pub(super) fn extract(
        &mut self,
        of: Option<TableId>,
        mut dead: impl FnMut(&T) -> bool,
        out: &mut Vec<(TableId, T)>,
    ) {
        let (one, all) = match &of {
            Some(table) => (Some(table), None),
            None => (None, Some(&self.ready)),
        };
        for &table in one.into_iter().chain(all.into_iter().flatten()) {
            let Some(lane) = self.map.get_mut(&table) else {
                continue;
            };
            for _ in 0..lane.tasks.len() {
                match lane.tasks.pop_front() {
                    Some(task) if dead(&task) => out.push((table, task)),
                    Some(task) => lane.tasks.push_back(task),
                    None => break,
                }
            }
        }
    }

    /// Forgets a table that has nothing waiting.
    pub(super) fn remove(&mut self, table: TableId) -> Option<Intake> {
        self.map.remove(&table).map(|lane| lane.intake)
    }
}
