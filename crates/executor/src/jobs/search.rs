//! A query as a task: on one worker, or on all that take part.
//!
//! The worker that takes a splittable query runs `coarse`, and takes a first unit of the probes. If that is not all
//! of them, it leaves the rest in one place (`units.rs`), invites its siblings, and goes on taking units there like
//! whoever comes, until nothing is left. Whoever leaves last merges and answers; nobody waits, except under
//! `fork-join`, whose barrier is the point of that baseline. Before each unit the deadline and the ticket are
//! checked; the first failure ends the query.
//!
//! Under the strategies that share a query out over the whole machine each list is a unit, with an invitation of its
//! own: whoever takes one scans one list and then looks for whatever comes next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Class, Rung, Splitting, TableId};

use super::units::{Found, Units, cost};
use super::{guarded, pass_over, settled};
use crate::context::{Context, Used, Wanted};
use crate::counts::End;
use crate::engine::completion::Completion;
use crate::engine::task::{Header, Shared, Task};
use crate::engine::timer::Expire;
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::report::{Answer, Report};
use crate::sync::atomic::Ordering;
use crate::sync::{OnceLock, Step, left_out, now};
use crate::table::{Neighbor, Query, SearchError, SplitTable, Table};
use crate::ticket::Outcome;

pub(crate) struct SearchTask {
    pub(crate) header: Header,
    pub(crate) query: Query,
    pub(crate) completion: Completion<Answer<Vec<Neighbor>>>,
    /// Set if it is more than one unit.
    units: OnceLock<Units>,
}

impl SearchTask {
    pub(crate) fn new(header: Header, query: Query) -> Self {
        Self {
            header,
            query,
            completion: Completion::new(),
            units: OnceLock::new(),
        }
    }

    fn table(&self) -> Result<&Arc<dyn Table>, Error> {
        let table = self.header.entry.table.as_ref();
        table.ok_or(Error::Refused(crate::SubmitError::NotSearchable))
    }

    fn answer(
        &self,
        worker: &mut Worker,
        (started, rung): (Instant, Rung),
        used: Used,
        result: Result<Vec<Neighbor>, Error>,
    ) {
        let ended = now();
        worker.tell(ended, &used);
        let service = ended.saturating_duration_since(started);
        let end = settled(&self.header, &self.completion, &result);
        let report = worker.report(rung, self.header.waited(started), service);
        {
            let mut stats = worker.stats();
            stats.ended(&self.header.entry, end, report.wait, service);
            stats.worked(self.header.entry.id, used.bytes, used.busy(service));
        }
        self.completion.end(result.map(|found| (found, report)));
    }

    /// What is checked before each scan unit: the deadline and the ticket.
    fn check_wanted(&self, now: Instant) -> Result<(), Error> {
        if self.header.is_expired(now) {
            return Err(Error::Expired);
        }
        match self.completion.stop_reason() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// What becomes of a search that was given up because nobody waits for it: the reason for that.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Search(SearchError::Stopped) => self.check_wanted(now()).err().unwrap_or(error),
            error => error,
        }
    }

    /// Searches a table whose queries may be cut. `None`: several workers do, and one of them answers.
    fn share(
        self: &Arc<Self>,
        table: &dyn SplitTable,
        worker: &Worker,
        (started, rung): (Instant, Rung),
        context: &mut Context,
    ) -> Result<Option<Vec<Neighbor>>, Error> {
        let by_load = worker.splitting().is_by_load();
        let probes = table.coarse(&self.query, context)?;
        let grain = table.grain().max(1);
        let total = cost(&probes);
        let spills = worker.spills(table.size_bytes());
        let team = worker.team(spills);
        let first = worker.next_unit(&probes, grain, total, &worker.hands(1, total), team);
        if first == probes.len() {
            self.remember_hands(1);
            self.check_wanted(now())?;
            let part = table.scan(&self.query, &probes, 0..probes.len(), context)?;
            return Ok(Some(table.merge(&self.query, vec![part])));
        }
        let left = cost(&probes[first..]);
        let lists = probes.len().div_ceil(grain);
        let waiting = worker.has_barrier().then(|| worker.index());
        let taken = if by_load { first } else { 0 };
        let config = by_load.then(|| *worker.split_config());
        let units = Units::new(probes, grain, taken, config, team, (started, rung), waiting);
        if self.units.set(units).is_err() {
            unreachable!("a task is executed once");
        }
        let shared = Arc::clone(self) as Arc<dyn Shared>;
        if by_load {
            let (siblings, others) = (worker.team(false) - 1, team - 1);
            let split = worker.split_config();
            let places = split.invitations(left, siblings);
            self.remember_hands(places + 1);
            worker.invite(&shared, places, places);
            if spills {
                // Workers may have come or gone since the team was counted.
                let away = split.invitations(left, others).saturating_sub(places);
                worker.spill(&shared, away);
            }
            self.scan_units(0..first, worker, Rung::Own, context);
            if spills {
                worker.withdraw();
            }
        } else {
            worker.invite(&shared, lists, lists - 1);
        }
        Ok(None)
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
        let (class, came) = self.came();
        worker.gives_way(class, came, units.started) && units.is_open()
    }

    /// Scans `unit`, which this worker has taken, and then the next ones that it can get. True: until a task that waits
    /// goes before them.
    fn scan_units(
        &self,
        mut unit: Range<usize>,
        worker: &Worker,
        rung: Rung,
        context: &mut Context,
    ) -> bool {
        let Some(units) = self.units.get() else {
            return false;
        };
        loop {
            worker.stats().unit_started(rung);
            let first = unit.start;
            let found = guarded(|| {
                self.check_wanted(now())?;
                let table = self.table()?.as_split().ok_or(Error::Cancelled)?;
                Ok(table.scan(&self.query, &units.probes, unit, context)?)
            });
            units.put(first, rung, found.map_err(|error| self.explain(error)));
            if !worker.splitting().is_by_load() {
                return false;
            }
            // What is left is left to those who are at home here.
            if rung == Rung::Remote && worker.is_wanted_at_home() {
                return false;
            }
            if rung == Rung::Domain && self.gives_way(units, worker) {
                return true;
            }
            unit = match units.take(worker) {
                Some(unit) => unit,
                None => return false,
            };
        }
    }

    /// Merges and answers, for the worker that leaves last.
    fn finish(&self, units: &Units, worker: &Worker, found: Found) {
        if left_out(Step::LastHandAnswers) {
            return;
        }
        let merging = now();
        if let Some(late) = found.late {
            worker.settle(late, merging, found.helped);
        }
        let result = found.parts.and_then(|parts| {
            guarded(|| {
                let table = self.table()?.as_split().ok_or(Error::Cancelled)?;
                Ok(table.merge(&self.query, parts))
            })
        });
        let ended = now();
        let end = settled(&self.header, &self.completion, &result);
        let waited = self.header.waited(units.started);
        let service = ended.saturating_duration_since(units.started);
        let report = Report {
            units: found.units,
            ..worker.report(found.farthest, waited, service)
        };
        {
            let mut stats = worker.stats();
            stats.ended(&self.header.entry, end, waited, service);
            let busy = ended.saturating_duration_since(merging);
            stats.worked(self.header.entry.id, 0, busy);
        }
        self.completion.end(result.map(|found| (found, report)));
        units.set_answered();
        if let Some(waiting) = units.waiting
            && waiting != worker.index()
            && !left_out(Step::BarrierOpens)
        {
            worker.unpark(waiting);
        }
    }

    /// Takes nothing but invitations until this query is answered: `fork-join`'s barrier.
    fn wait_at_barrier(&self, units: &Units, worker: &mut Worker) {
        while !units.is_answered() {
            match worker.next_invitation() {
                Some((invitation, rung)) => drop(invitation.accept(worker, rung)),
                None if !units.is_answered() => worker.park(),
                None => {}
            }
        }
    }
}

impl Task for SearchTask {
    fn header(&self) -> &Header {
        &self.header
    }

    fn begin(&self) -> Result<(), End> {
        self.completion.begin()
    }

    fn end_queued(&self, error: Error) -> Option<End> {
        self.completion.end_queued(error)
    }

    fn is_ended(&self) -> bool {
        self.completion.is_ended()
    }

    fn execute(self: Arc<Self>, worker: &mut Worker, started: Instant, rung: Rung) {
        if worker.is_too_late(&self.header, started) {
            return pass_over(&self.header, &self.completion, worker, started);
        }
        let (result, mut used) = worker.in_context(&self, |worker, context| {
            let found = guarded(|| {
                let table = self.table()?;
                match table.as_split() {
                    Some(split) if worker.splitting() != Splitting::Never => {
                        self.share(split, worker, (started, rung), context)
                    }
                    _ => Ok(Some(table.search(&self.query, context)?)),
                }
            });
            found.map_err(|error| self.explain(error))
        });
        let units = match (result.transpose(), self.units.get()) {
            (Some(result), _) => return self.answer(worker, (started, rung), used, result),
            (None, Some(units)) => units,
            (None, None) => unreachable!("a query that is not answered has been shared out"),
        };
        let ended = now();
        let busy = used.busy(ended.saturating_duration_since(started));
        let entry = &self.header.entry;
        worker.stats().worked(entry.id, used.bytes, busy);
        let found = units.leave_own(used.helped, || worker.hand_over(ended, &used));
        if let Some(found) = found {
            used.helped = found.helped;
            worker.tell(ended, &used);
            self.finish(units, worker, found);
        }
        if worker.has_barrier() {
            self.wait_at_barrier(units, worker);
        }
    }
}

impl Shared for SearchTask {
    fn is_open(&self) -> bool {
        self.units.get().is_some_and(Units::is_open)
    }

    fn join(self: Arc<Self>, worker: &mut Worker, rung: Rung) -> bool {
        let Some(units) = self.units.get() else {
            return false;
        };
        // What it has left for a task lies on its own deque since: it helps all the same.
        let rung = match worker.splitting().is_by_load() {
            true => rung.max(Rung::Domain),
            false => rung,
        };
        if rung == Rung::Domain && worker.splitting().is_by_load() && self.gives_way(units, worker)
        {
            return true;
        }
        let Some(unit) = units.enter(worker) else {
            return false;
        };
        let begun = now();
        worker.take_part(units.started);
        let (gives_way, used) = worker.in_context(&self, |worker, context| {
            self.scan_units(unit, worker, rung, context)
        });
        let ended = now();
        worker.pass(ended);
        let busy = used.busy(ended.saturating_duration_since(begun));
        let entry = &self.header.entry;
        worker.stats().worked(entry.id, used.bytes, busy);
        if let Some(found) = units.leave(busy + used.helped) {
            self.finish(units, worker, found);
        }
        gives_way
    }
}

impl Expire for SearchTask {
    fn expire(&self) {
        self.completion.expire();
    }
}

impl Wanted for SearchTask {
    fn is_wanted(&self) -> bool {
        self.check_wanted(now()).is_ok()
    }

    fn table_id(&self) -> TableId {
        self.header.entry.id
    }

    fn came(&self) -> (Class, Instant) {
        (self.header.class, self.header.accepted)
    }
}

impl Outcome<Vec<Neighbor>> for SearchTask {
    fn header(&self) -> &Header {
        &self.header
    }

    fn completion(&self) -> &Completion<Answer<Vec<Neighbor>>> {
        &self.completion
    }
}
