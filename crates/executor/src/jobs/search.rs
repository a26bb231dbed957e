//! A query as a task: on one worker, or on all that take part.
//!
//! The worker that takes a splittable query runs `coarse`, and takes a first unit of the probes. If that is not all
//! of them, it leaves the rest in one place (`split.rs`), invites its siblings, and goes on taking units there like
//! whoever comes, until nothing is left. Whoever leaves last merges and answers; nobody waits. Before each unit the
//! deadline and the ticket are checked; the first failure ends the query.

use std::ops::Range;
use std::sync::Arc;

use chiplet_policy::{StealLevel, Time};
use chiplet_table::host::Tally;
use chiplet_table::{Context, Neighbor, Query, SearchError, SplitTable, Table};

use super::guarded;
use super::host::in_context;
use super::split::{Found, Units, cost};
use crate::engine::completion::Live;
use crate::engine::live::{Run, Work};
use crate::engine::stats::Note;
use crate::engine::task::{Header, Shared};
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::report::Record;
use crate::sync::atomic::Ordering;
use crate::sync::{OnceLock, Step, left_out, now};

/// A query of one table.
pub(crate) struct Search {
    pub(crate) query: Query,
    /// Set if it is more than one unit. Apart, because most queries are one: a task is written by one core and read by
    /// another, line by line.
    units: OnceLock<Box<Units>>,
}

pub(crate) type SearchTask = Live<Vec<Neighbor>, Search>;

pub(crate) fn task(header: Header, query: Query) -> SearchTask {
    let units = OnceLock::new();
    Live::new(header, Search { query, units }, ())
}

impl SearchTask {
    /// The index, or the copy of it that is nearest to `worker`.
    fn table(&self, worker: &Worker) -> Result<&Arc<dyn Table>, Error> {
        let table = self.header.entry.index.nearest(worker.place.package);
        table.ok_or(Error::Refused(crate::SubmitError::NotSearchable))
    }

    /// What becomes of a search that was given up because nobody waits for it: the reason for that.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Search(SearchError::Stopped) => self.check(now()).err().unwrap_or(error),
            error => error,
        }
    }

    /// Searches a table whose queries may be cut.
    fn share(
        self: &Arc<Self>,
        table: &dyn SplitTable,
        worker: &Worker,
        (started, level): (Time, StealLevel),
        context: &mut Context<'_>,
    ) -> Result<Served, Error> {
        let query = &self.work.query;
        let probes = table.coarse(query, context)?;
        let grain = table.grain().max(1);
        let total = cost(&probes);
        let spills = worker.spills(table.size_bytes());
        let team = worker.team(spills);
        let first = worker.next_unit(&probes, grain, total, &worker.hands(1, total), team);
        if first == probes.len() {
            self.remember_hands(1);
            self.check(now())?;
            let part = table.scan(query, &probes, 0..probes.len(), context)?;
            return Ok(Served::Answered(table.merge(query, vec![part], context)?));
        }
        let left = cost(&probes[first..]);
        let units = Box::new(Units::new(probes, grain, first, team, (started, level)));
        if self.work.units.set(units).is_err() {
            unreachable!("a task is run once");
        }
        let shared = Arc::clone(self) as Arc<dyn Shared>;
        let (siblings, others) = (worker.team(false) - 1, team - 1);
        let split = &worker.engine.split;
        let places = split.invitations(left, siblings);
        self.remember_hands(places + 1);
        worker.invite(&shared, places, places);
        if spills {
            // Workers may have come or gone since the team was counted.
            let away = split.invitations(left, others).saturating_sub(places);
            worker.spill(&shared, away);
        }
        self.scan_units(0..first, worker, StealLevel::Own, context);
        if spills {
            worker.withdraw();
        }
        Ok(Served::Shared)
    }

    /// Notes for the table's next query how many workers this one had work for. Hardly ever written: all of the
    /// table's queries read it.
    fn remember_hands(&self, hands: usize) {
        let known = &self.header.entry.state.last_units;
        let hands = u32::try_from(hands).unwrap_or(u32::MAX);
        if known.load(Ordering::Relaxed) != hands {
            known.store(hands, Ordering::Relaxed);
        }
    }

    /// Whether a sibling that helps should leave for a task that waits, while enough is left for one more.
    fn gives_way(&self, units: &Units, worker: &Worker) -> bool {
        let (class, came) = (self.header.class, self.header.accepted);
        worker.gives_way(class, came, units.started) && units.is_open()
    }

    /// Scans `unit`, which this worker has taken, and then the next ones that it can get. True: until a task that waits
    /// goes before them.
    fn scan_units(
        &self,
        mut unit: Range<usize>,
        worker: &Worker,
        level: StealLevel,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(units) = self.work.units.get() else {
            return false;
        };
        loop {
            worker.counts.begun(level);
            let first = unit.start;
            let found = guarded(|| {
                self.check(now())?;
                let table = self.table(worker)?.as_split().ok_or(Error::Cancelled)?;
                Ok(table.scan(&self.work.query, &units.probes, unit, context)?)
            });
            units.put(first, level, found.map_err(|error| self.explain(error)));
            // What is left is left to those who are at home here.
            if level.left_home().is_some() && worker.is_wanted_at_home() {
                return false;
            }
            if level == StealLevel::Domain && self.gives_way(units, worker) {
                return true;
            }
            let Some(next) = units.take(worker, false) else {
                return false;
            };
            unit = next;
        }
    }

    /// Merges what all units have found and answers, for the worker that leaves last. The query's own has used `own`
    /// for it.
    fn finish(
        self: &Arc<Self>,
        worker: &mut Worker,
        units: &Units,
        found: Found,
        own: Option<Tally>,
    ) {
        let began = worker.now();
        worker.counts.set_occupied(true);
        let (result, used) = in_context(worker, self, |context| {
            let parts = found.parts?.into_iter();
            let parts = parts.map(|(_, part)| part).collect();
            let merged = guarded(|| {
                self.check(now())?;
                let table = self.table(worker)?.as_split().ok_or(Error::Cancelled)?;
                Ok(table.merge(&self.work.query, parts, context)?)
            });
            merged.map_err(|error| self.explain(error))
        });
        let ended = worker.now();
        let busy = used.busy(ended.since(began));
        let helped = found.helped + used.helped;
        match (own, found.late) {
            (Some(own), _) => {
                let blocked = own.blocked + used.blocked;
                worker.end_task(
                    ended,
                    &Tally {
                        helped,
                        blocked,
                        ..own
                    },
                );
            }
            (None, late) => {
                worker.set_clock(ended);
                if let Some(late) = late {
                    worker.end_late(late, ended, helped + busy);
                }
            }
        }
        if left_out(Step::LastHandAnswers) {
            return;
        }
        let times = [self.header.accepted, units.started, ended];
        let record = Record {
            units: found.units,
            ..worker.report(found.farthest, times)
        };
        self.end(worker, record, (used.bytes, busy.as_nanos() as u64), result);
    }
}

/// What has become of a query that its own worker is done with.
enum Served {
    Answered(Vec<Neighbor>),
    /// Several workers took part, and one of them answers.
    Shared,
}

impl Work<Vec<Neighbor>> for Search {}

impl Run<Vec<Neighbor>> for Search {
    fn run(task: &Arc<SearchTask>, worker: &mut Worker, started: Time, level: StealLevel) {
        if worker.is_too_late(&task.header, started) {
            return task.pass_over(worker, started);
        }
        let (served, used) = in_context(worker, task, |context| {
            let served = guarded(|| {
                let table = task.table(worker)?;
                match table.as_split() {
                    Some(split) => task.share(split, worker, (started, level), context),
                    None => Ok(Served::Answered(table.search(&task.work.query, context)?)),
                }
            });
            served.map_err(|error| task.explain(error))
        });
        let ended = worker.now();
        let service = ended.since(started);
        let busy = used.busy(service);
        let result = match (served, task.work.units.get()) {
            (Ok(Served::Answered(found)), _) => Ok(found),
            (Err(error), _) => Err(error),
            (Ok(Served::Shared), Some(units)) => {
                worker.note(Note::part(task.header.entry.id, used.bytes, busy));
                let late = || Some(worker.hand_over(ended, &used));
                if let Some(found) = units.leave(used.helped, late) {
                    task.finish(worker, units, found, Some(used));
                }
                return;
            }
            (Ok(Served::Shared), None) => unreachable!("what was shared out has units"),
        };
        worker.end_task(ended, &used);
        let record = worker.report(level, [task.header.accepted, started, ended]);
        let used = (used.bytes, busy.as_nanos() as u64);
        task.end(worker, record, used, result);
    }
}

impl Shared for SearchTask {
    fn is_open(&self) -> bool {
        self.work.units.get().is_some_and(|units| units.is_open())
    }

    fn join(self: Arc<Self>, worker: &mut Worker, level: StealLevel) -> bool {
        let Some(units) = self.work.units.get() else {
            return false;
        };
        if level == StealLevel::Domain && self.gives_way(units, worker) {
            return true;
        }
        let Some(unit) = units.take(worker, true) else {
            return false;
        };
        let begun = worker.now();
        worker.take_part(units.started);
        let (gives_way, used) = in_context(worker, &self, |context| {
            self.scan_units(unit, worker, level, context)
        });
        let ended = worker.now();
        worker.set_clock(ended);
        let busy = used.busy(ended.since(begun));
        worker.note(Note::part(self.header.entry.id, used.bytes, busy));
        if let Some(found) = units.leave(busy + used.helped, || None) {
            self.finish(worker, units, found, None);
        }
        gives_way
    }
}
