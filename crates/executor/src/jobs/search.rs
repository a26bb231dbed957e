//! A query as a task, whole or cut into scan units that siblings steal.
//!
//! The worker that takes a splittable query runs `coarse`, cuts the probes with `chiplet_policy::split` by the
//! number of idle siblings, and pushes the units onto its own deque. Whoever finishes the last unit merges and
//! answers; nobody waits, except under `fork-join`, whose barrier is the point of that baseline. Before each
//! unit the deadline and the ticket are checked; the first failure makes the remaining units no-ops.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use chiplet_policy::{Rung, Splitting};

use super::{guarded, pass_over, settled};
use crate::context::{Context, Wanted};
use crate::counts::End;
use crate::engine::completion::Completion;
use crate::engine::registry::TableEntry;
use crate::engine::task::{Divided, Header, Task, Unit};
use crate::engine::timer::Expire;
use crate::engine::worker::Worker;
use crate::error::Error;
use crate::report::{Answer, Report};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, Step, left_out, now};
use crate::table::{Neighbor, Probe, Query, SearchError, SplitTable, Table};
use crate::ticket::Outcome;

pub(crate) struct SearchTask {
    pub(crate) header: Header,
    pub(crate) query: Query,
    pub(crate) completion: Completion<Answer<Vec<Neighbor>>>,
    split: OnceLock<Split>,
}

/// A query's scan units and what has come of them.
struct Split {
    started: Instant,
    probes: Vec<Probe>,
    units: Vec<Range<usize>>,
    /// The worker that waits at the barrier, under `fork-join`.
    waiting: Option<usize>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// The units' answers, each in its unit's place: `merge` sees them in the order of the probes.
    parts: Vec<Vec<Neighbor>>,
    failure: Option<Error>,
    /// Where the query and its units were taken from, the farthest of it.
    farthest: Rung,
    left: usize,
}

impl SearchTask {
    pub(crate) fn new(header: Header, query: Query) -> Self {
        Self {
            header,
            query,
            completion: Completion::new(),
            split: OnceLock::new(),
        }
    }

    fn table(&self) -> Result<&Arc<dyn Table>, Error> {
        let table = self.header.entry.table.as_ref();
        table.ok_or(Error::Refused(crate::SubmitError::NotSearchable))
    }

    fn answer(
        &self,
        worker: &mut Worker,
        started: Instant,
        rung: Rung,
        bytes: u64,
        result: Result<Vec<Neighbor>, Error>,
    ) {
        let ended = now();
        worker.tell(ended);
        let busy = ended.saturating_duration_since(started);
        let end = settled(&self.header, &self.completion, &result);
        let report = worker.report(rung, self.header.waited(started), busy);
        {
            let mut stats = worker.stats();
            stats.ended(&self.header.entry, end, report.wait, busy);
            stats.worked(self.header.entry.id, bytes, busy);
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

    /// Runs `coarse` and, if the query is worth cutting, leaves its units on the worker's deque.
    fn fan_out(
        self: &Arc<Self>,
        table: &dyn SplitTable,
        worker: &mut Worker,
        (started, rung): (Instant, Rung),
        context: &mut Context,
    ) -> Result<Option<Vec<Neighbor>>, Error> {
        let probes = table.coarse(&self.query, context)?;
        let units = worker.cut(table, &probes);
        let units_cut = u32::try_from(units.len()).unwrap_or(u32::MAX);
        self.header
            .entry
            .state
            .last_units
            .store(units_cut, Ordering::Relaxed);
        if units.len() <= 1 {
            self.check_wanted(now())?;
            let part = table.scan(&self.query, &probes, 0..probes.len(), context)?;
            return Ok(Some(table.merge(&self.query, vec![part])));
        }
        let left = units.len();
        let split = Split {
            started,
            probes,
            units,
            waiting: worker.has_barrier().then(|| worker.index()),
            progress: Mutex::new(Progress {
                parts: vec![Vec::new(); left],
                failure: None,
                farthest: rung,
                left,
            }),
        };
        if self.split.set(split).is_err() {
            unreachable!("a task is executed once");
        }
        Ok(None)
    }

    /// Runs units until this query is answered: `fork-join`'s barrier.
    fn wait_at_barrier(&self, worker: &mut Worker) {
        let Some(split) = self.split.get() else {
            return;
        };
        while split.progress.lock().left > 0 {
            match worker.next_unit() {
                Some((unit, rung)) => unit.run(worker, rung),
                None if split.progress.lock().left > 0 => worker.park(),
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
        let (result, bytes) = worker.in_context(&*self, |worker, context| {
            let found = guarded(|| {
                let table = self.table()?;
                match table.as_split() {
                    Some(split) if worker.splitting() != Splitting::Never => {
                        self.fan_out(split, worker, (started, rung), context)
                    }
                    _ => Ok(Some(table.search(&self.query, context)?)),
                }
            });
            found.map_err(|error| self.explain(error))
        });
        match result.transpose() {
            Some(result) => self.answer(worker, started, rung, bytes, result),
            None => {
                let busy = now().saturating_duration_since(started);
                worker.stats().worked(self.header.entry.id, bytes, busy);
                let count = self.split.get().map_or(0, |split| split.units.len());
                worker.push_units((0..count).map(|index| Unit {
                    task: Arc::clone(&self) as _,
                    index,
                }));
                if worker.has_barrier() {
                    self.wait_at_barrier(worker);
                }
            }
        }
    }
}

impl Divided for SearchTask {
    fn run_unit(self: Arc<Self>, unit: usize, worker: &mut Worker, rung: Rung) {
        let task = &*self;
        let Some(split) = task.split.get() else {
            return;
        };
        worker.stats().unit_started(rung);
        let begun = now();
        let (result, bytes) = worker.in_context(task, |_, context| {
            if split.progress.lock().failure.is_some() {
                return Ok(Vec::new());
            }
            let found = guarded(|| {
                task.check_wanted(begun)?;
                let table = task.table()?.as_split().ok_or(Error::Cancelled)?;
                let lists = split.units[unit].clone();
                Ok(table.scan(&task.query, &split.probes, lists, context)?)
            });
            found.map_err(|error| task.explain(error))
        });
        let ended = now();
        worker.tell(ended);
        let busy = ended.saturating_duration_since(begun);
        worker.stats().worked(task.header.entry.id, bytes, busy);
        let (parts, failure, farthest) = {
            let mut progress = split.progress.lock();
            progress.farthest = progress.farthest.max(rung);
            match result {
                Ok(part) => progress.parts[unit] = part,
                Err(error) => progress.failure = progress.failure.take().or(Some(error)),
            }
            if progress.left > 1 {
                progress.left -= 1;
                return;
            }
            // The last unit stays counted until `finish` has answered: the barrier waits for that.
            let parts = std::mem::take(&mut progress.parts);
            (parts, progress.failure.take(), progress.farthest)
        };
        let result = match failure {
            Some(error) => Err(error),
            None => Ok(parts),
        };
        task.finish(split, worker, result, farthest);
    }
}

impl SearchTask {
    /// Merges and answers; called for the last unit only.
    fn finish(
        &self,
        split: &Split,
        worker: &mut Worker,
        parts: Result<Vec<Vec<Neighbor>>, Error>,
        farthest: Rung,
    ) {
        let merging = now();
        let merge = |parts| {
            guarded(|| {
                let table = self.table()?.as_split().ok_or(Error::Cancelled)?;
                Ok(table.merge(&self.query, parts))
            })
        };
        let result = parts.and_then(merge);
        let ended = now();
        let end = settled(&self.header, &self.completion, &result);
        let service = ended.saturating_duration_since(split.started);
        let report = Report {
            units: split.units.len() as u32,
            ..worker.report(farthest, self.header.waited(split.started), service)
        };
        {
            let mut stats = worker.stats();
            let entry: &TableEntry = &self.header.entry;
            stats.ended(entry, end, report.wait, service);
            stats.worked(entry.id, 0, ended.saturating_duration_since(merging));
        }
        self.completion.end(result.map(|found| (found, report)));
        split.progress.lock().left = 0;
        if let Some(waiting) = split.waiting
            && waiting != worker.index()
            && !left_out(Step::BarrierOpens)
        {
            worker.unpark(waiting);
        }
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
}

impl Outcome<Vec<Neighbor>> for SearchTask {
    fn header(&self) -> &Header {
        &self.header
    }

    fn completion(&self) -> &Completion<Answer<Vec<Neighbor>>> {
        &self.completion
    }
}
