//! Many queries of one table behind one ticket: a batch, or a block.
//!
//! They are cut into *parts*. Each part is a task: it waits, is stolen, cancelled and abandoned like any other. The
//! worker that takes a part out of its queue ends it, so a part has no state of its own. All parts share what is asked,
//! the ticket's completion and the answers so far. [`Load`] says how queries are asked and answers kept.
//!
//! All parts of a batch are queued at once. Of a block, and of a batch that no queue can hold, few are. A part that has
//! answered its queries takes the next ones and queues itself again, so that others have their turn. Without a place it
//! gives its queries back to the remaining parts. The last part goes on without a queue, so no query is lost. A part
//! that goes on sees whether more parts are needed.
//!
//! The last part to end resolves the ticket. If every query has a deadline, the ticket has the latest of them: what has
//! been found by then is the answer, and the rest has expired. A part is first *settled*, which puts its answers where
//! the ticket gets them, then counted, then published. The deadline waits for parts that are settled and not published:
//! what a ticket is told has been counted, and all else counts as expired.
//!
//! Locks: the bulk's progress, a part's stretch and the ticket's completion are never held together.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::{LeftHome, StealLevel, Time};
use chiplet_table::host::contain;
use chiplet_table::{Context, SearchError, Table};

use super::guarded;
use super::host::in_context;
use crate::counts::{End, Served};
use crate::engine::Engine;
use crate::engine::completion::Live;
use crate::engine::live::Work;
use crate::engine::stats::Note;
use crate::engine::task::{Header, Submitted, Task};
use crate::engine::worker::Worker;
use crate::error::{Error, SubmitError};
use crate::report::{Answer, Record};
use crate::scheduler::Refusal;
use crate::sync::{self, Mutex, Step, left_out};

/// Queries of one part, at most. A worker that has a part takes nothing else meanwhile.
pub(super) const LONGEST_PART: usize = 64;

/// Queries of the first parts of what is fed, at most: it is not known how long they take. As many as a graph's walks
/// that take turns come in.
const FIRST_PART: usize = match cfg!(any(chiplet_loom, chiplet_shuttle)) {
    true => 2,
    false => 16,
};

/// Queries that a part goes on with, at most. A model has few.
const LONGEST_STRETCH: usize = match cfg!(any(chiplet_loom, chiplet_shuttle)) {
    true => 2,
    false => LONGEST_PART,
};

/// How long a part that goes on keeps its worker, about.
const STRETCH: Duration = Duration::from_millis(10);

/// What is asked for, and how its answers are kept.
pub(crate) trait Load: Send + Sync + Sized + 'static {
    /// What the ticket gets.
    type Answers: Default + Send + 'static;
    /// What a part has found and the ticket cannot see yet.
    type Found: Default + Send;

    /// How many queries it is.
    fn len(&self) -> usize;

    /// Whether queues are fed with it as they empty, where one may hold so many of its table's tasks. If not, all of it
    /// is queued at once or refused.
    fn is_fed(&self, places: usize) -> bool;

    /// When a query has expired.
    fn expires(&self, number: usize) -> Option<Instant>;

    /// Answers `queries` in one call of the table, into `found`. A panic is an error of each that has no answer. What
    /// the table says of a query it tells as `why` has it.
    fn answer(
        &self,
        table: &dyn Table,
        queries: Range<usize>,
        context: &mut Context<'_>,
        why: &dyn Fn(SearchError) -> Error,
        found: &mut Self::Found,
    );

    /// The next `count` queries of a part have ended so.
    fn fail(found: &mut Self::Found, count: usize, error: &Error);

    /// Puts what was found of the queries from `first` on to the answers, and leaves nothing of it. Says how they
    /// ended.
    fn put(&self, answers: &mut Self::Answers, first: usize, found: &mut Self::Found) -> Served;

    /// Nothing more comes: what has no answer has ended so.
    fn complete(&self, answers: &mut Self::Answers, rest: &Error);
}

/// Queries that came together.
pub(crate) struct Bulk<L: Load> {
    pub(crate) load: L,
    progress: Mutex<Progress<L::Answers>>,
}

/// Its deadline is the last of the queries', if all have one.
pub(crate) type BulkTask<L> = Live<<L as Load>::Answers, Bulk<L>>;

struct Progress<A> {
    answers: A,
    /// The first query that no part has had.
    next: usize,
    /// Queries of parts that found no place.
    back: Vec<Range<usize>>,
    /// Parts that have not been published.
    left: usize,
    /// Parts that are settled and not published.
    settled: usize,
    /// The deadline has passed.
    due: bool,
    /// No further queries are begun, for this reason.
    stopped: Option<Error>,
    /// Of the parts whose answers stand here.
    report: Record,
    /// The ticket has got the answers.
    told: bool,
}

/// Answers that are to be told, and how what has none has ended.
struct Told<A> {
    answers: A,
    rest: Error,
    report: Record,
}

impl<A: Default> Progress<A> {
    /// The answers, if they are to be told now: all there are to come, or all there were at the deadline.
    fn take(&mut self) -> Option<Told<A>> {
        let complete = self.left == 0 && !left_out(Step::LastPartAnswers);
        let counted = self.settled == 0 || left_out(Step::DeadlineAwaitsSettled);
        if self.told || !(complete || self.due && counted) {
            return None;
        }
        self.told = true;
        Some(Told {
            answers: std::mem::take(&mut self.answers),
            rest: self.stopped.clone().unwrap_or(Error::Expired),
            report: self.report,
        })
    }

    /// The next queries for one part of `parts`, of `len` in all: at most `longest`.
    fn claim(&mut self, len: usize, parts: usize, longest: usize) -> Option<Range<usize>> {
        if let Some(queries) = self.back.pop() {
            return Some(queries);
        }
        let start = self.next;
        let count = (len - start).div_ceil(parts).min(longest);
        self.next += count;
        (count > 0).then_some(start..self.next)
    }
}

/// Some of the queries, in a queue or with a worker.
pub(crate) struct Part<L: Load> {
    bulk: Arc<BulkTask<L>>,
    submitted: Submitted,
    /// Only its worker changes it.
    stretch: Mutex<Stretch<L::Found>>,
}

/// What a part does in one go.
struct Stretch<F> {
    queries: Range<usize>,
    /// When it was queued.
    since: Time,
    /// Kept for the next.
    found: F,
}

/// A bulk that has not been cut, whose answers are to be put into `answers`.
pub(super) fn task<L: Load>(header: Header, load: L, answers: L::Answers) -> BulkTask<L> {
    let home = header.entry.state.homes.load().main().domain;
    let progress = Mutex::new(Progress {
        answers,
        next: 0,
        back: Vec::new(),
        left: 0,
        settled: 0,
        due: false,
        stopped: None,
        report: Record::idle(home),
        told: false,
    });
    Live::new(header, Bulk { load, progress }, ())
}

impl<L: Load> Bulk<L> {
    /// Changes the progress. The answers as the ticket gets them, if they are to be told then.
    fn change(&self, change: impl FnOnce(&mut Progress<L::Answers>)) -> Option<Answer<L::Answers>> {
        let told = {
            let mut progress = self.progress.lock();
            change(&mut progress);
            progress.take()
        };
        let mut told = told?;
        self.load.complete(&mut told.answers, &told.rest);
        Some((told.answers, told.report))
    }
}

impl<L: Load> BulkTask<L> {
    fn len(&self) -> usize {
        self.work.load.len()
    }

    /// Changes the progress, and tells the ticket what is to be told then.
    fn change(&self, change: impl FnOnce(&mut Progress<L::Answers>)) {
        if let Some(answer) = self.work.change(change) {
            self.tell(Ok(answer));
        }
    }

    /// Cuts off the first parts, each with its number of queries, which differ by one at most. Called before any part
    /// is queued.
    fn cut(
        self: &Arc<Self>,
        (parts, longest): (usize, usize),
        left_home: Option<LeftHome>,
    ) -> Vec<(Arc<dyn Task>, u32)> {
        let (len, since) = (self.len(), self.header.accepted);
        let mut progress = self.work.progress.lock();
        progress.next = 0;
        let claims = (1..=parts.min(len)).rev();
        let claims = claims.map_while(|parts| progress.claim(len, parts, longest));
        let claims: Vec<_> = claims.collect();
        progress.left = claims.len();
        drop(progress);
        let part = |queries: Range<usize>| {
            let count = queries.len() as u32;
            (Part::new(self, queries, since, left_home) as _, count)
        };
        claims.into_iter().map(part).collect()
    }

    /// Has its first parts accepted, or hands it back with the reason. Of a caller that is `patient` no refusal is
    /// counted: it waits for room and asks again.
    pub(crate) fn admit(
        self,
        engine: &Engine,
        patient: bool,
    ) -> Result<Arc<Self>, (SubmitError, Arc<Self>)> {
        let bulk = Arc::new(self);
        if bulk.len() == 0 {
            // No part will come to it.
            bulk.change(|_| ());
            return Ok(bulk);
        }
        let entry = bulk.header.entry.clone();
        let (at, class) = (bulk.header.accepted, bulk.header.class);
        let terms = entry.state.options.terms(class);
        let (len, places) = (bulk.len(), engine.places(&entry));
        let is_fed = bulk.work.load.is_fed(places);
        let (longest, weight) = match is_fed {
            // Refused it counts as one part: it is tried again soon, and would look as if it asked for all of its time
            // each time.
            true => (FIRST_PART, len.min(LONGEST_PART)),
            false => (LONGEST_PART, len),
        };
        let weight = if patient { 0 } else { weight as u64 };
        let push = |group, (), left_home| {
            let workers = engine.scheduler.groups.at_work_in(group);
            let push = |parts| {
                let parts = bulk.cut((parts, longest), left_home);
                let pushed = engine
                    .scheduler
                    .push_all(group, entry.id, &terms, parts, at);
                pushed.map_err(|(refusal, _)| refusal)
            };
            let parts = match is_fed {
                true => engine.parts_for(&entry, workers),
                // A queue that holds fewer parts than there are workers would refuse it for ever.
                false => workers.min(places).max(len.div_ceil(LONGEST_PART)),
            };
            let pushed = match push(parts) {
                // If there is one place it goes through that.
                Err(Refusal::GroupFull | Refusal::TableFull) if is_fed => push(1),
                pushed => pushed,
            };
            pushed.map_err(|refusal| (refusal, ()))
        };
        match engine.place(&entry, (), weight, (at, class), push) {
            Ok(()) => Ok(bulk),
            Err((reason, ())) => Err((reason, bulk)),
        }
    }

    /// A part has no place for its next `queries`. True: it is the last one, so it keeps them.
    fn is_left_with(&self, queries: Range<usize>) -> bool {
        let mut progress = self.work.progress.lock();
        if progress.left == 1 && !left_out(Step::LastPartGoesOn) {
            return true;
        }
        progress.back.push(queries);
        progress.left -= 1;
        false
    }

    /// What a search has come to that was given up because nobody waits for it.
    fn explain(&self, error: SearchError) -> Error {
        match error {
            SearchError::Stopped => self.header.stop_reason().unwrap_or(Error::Expired),
            error => Error::Search(error),
        }
    }
}

impl<L: Load> Part<L> {
    fn new(
        bulk: &Arc<BulkTask<L>>,
        queries: Range<usize>,
        since: Time,
        left_home: Option<LeftHome>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bulk: Arc::clone(bulk),
            submitted: Submitted::new(left_home),
            stretch: Mutex::new(Stretch {
                queries,
                since,
                found: L::Found::default(),
            }),
        })
    }

    /// The table, as workers of `package` search it, and how many queries it wants at once.
    fn table(&self, package: u32) -> Result<(&dyn Table, usize), Error> {
        let table = self.bulk.header.entry.index.nearest(package);
        let table = &**table.ok_or(Error::Refused(SubmitError::NotSearchable))?;
        guarded(|| Ok((table, table.batch_size().max(1))))
    }

    /// Answers `queries` one after the other, or as many at once as the table wants. Before each call the ticket and
    /// the deadlines are looked at.
    fn search(
        &self,
        queries: &Range<usize>,
        context: &mut Context<'_>,
        found: &mut L::Found,
        (table, together): (&dyn Table, usize),
    ) {
        let load = &self.bulk.work.load;
        let mut left = queries.clone();
        let mut now = sync::now();
        while !left.is_empty() {
            if let Some(reason) = self.bulk.header.stop_reason() {
                return L::fail(found, left.len(), &reason);
            }
            let is_late = |&query: &usize| load.expires(query).is_some_and(|at| now >= at);
            if is_late(&left.start) {
                L::fail(found, 1, &Error::Expired);
                left.start += 1;
                continue;
            }
            let in_time = left.clone().take_while(|query| !is_late(query));
            let end = left.start + in_time.take(together).count();
            let why = |error| self.bulk.explain(error);
            load.answer(table, left.start..end, context, &why, found);
            left.start = end;
            if left.clone().any(|query| load.expires(query).is_some()) {
                now = sync::now();
            }
        }
    }

    /// Puts what was found where the ticket gets it, unless the ticket has been told or is about to be that its queries
    /// have expired. Says how they are to be counted, and whether the part is settled. `report` is that of a part which
    /// has run.
    fn settle(
        &self,
        queries: &Range<usize>,
        found: &mut L::Found,
        report: Option<Record>,
    ) -> (Served, bool) {
        let mut progress = self.bulk.work.progress.lock();
        if progress.due {
            *found = L::Found::default();
            let mut ends = Served::default();
            ends.count(End::Expired, queries.len() as u64);
            return (ends, false);
        }
        progress.settled += 1;
        if let Some(report) = report {
            progress.report.add(report);
        }
        let load = &self.bulk.work.load;
        (load.put(&mut progress.answers, queries.start, found), true)
    }

    /// The part is counted, and goes on with the next queries if there are any that `claim` gives it. The last part
    /// that does not resolves the ticket.
    fn publish(
        &self,
        settled: bool,
        claim: impl FnOnce(&mut Progress<L::Answers>) -> Option<Range<usize>>,
    ) -> Option<Range<usize>> {
        let mut next = None;
        self.bulk.change(|progress| {
            progress.settled -= usize::from(settled);
            next = claim(progress);
            progress.left -= usize::from(next.is_none());
        });
        next
    }

    /// The part is counted and ends, and no further queries are begun, for this reason.
    fn stop(&self, settled: bool, reason: Error) {
        self.publish(settled, |progress| {
            progress.stopped = Some(reason);
            None
        });
    }

    /// Runs the part's queries on this worker and counts how they ended. Says whether the part is settled, and how many
    /// queries it should take next.
    fn run(
        self: &Arc<Self>,
        worker: &mut Worker,
        (started, level): (Time, StealLevel),
        is_first: bool,
    ) -> (bool, usize) {
        let header = &self.bulk.header;
        let package = worker.place.package;
        let (queries, since, mut found) = {
            let mut stretch = self.stretch.lock();
            let found = std::mem::take(&mut stretch.found);
            (stretch.queries.clone(), stretch.since, found)
        };
        let (together, used) = in_context(worker, self, |context| match self.table(package) {
            Ok(table) => {
                self.search(&queries, context, &mut found, table);
                table.1
            }
            Err(error) => {
                L::fail(&mut found, queries.len(), &error);
                1
            }
        });
        let ended = worker.now();
        match is_first {
            true => worker.end_task(ended, &used),
            // The queue knows of the task that it handed out, and learns how long that took.
            false => worker.set_clock(ended),
        }
        let service = ended.since(started);
        let report = worker.report(level, [since, started, ended]);
        let (ends, settled) = self.settle(&queries, &mut found, Some(report));
        self.stretch.lock().found = found;
        let mut used = (used.bytes, used.busy(service).as_nanos() as u64);
        for (end, queries) in ends.by_end() {
            worker.note(Note {
                times: Some([report.wait, report.service]),
                used: std::mem::take(&mut used),
                ..Note::untouched(header.entry.id, end, queries)
            });
        }
        let next = longest(queries.len() as u64, service, together);
        (settled, next)
    }

    /// Runs its queries, and then the next ones as long as no queue has a place for them.
    fn run_all(self: &Arc<Self>, worker: &mut Worker, started: Time, level: StealLevel) {
        let table = self.bulk.header.entry.id;
        let (mut started, mut is_first) = (started, true);
        loop {
            let (settled, longest) = self.run(worker, (started, level), is_first);
            let parts = worker.parts_for(&self.bulk.header.entry);
            let goes_on = self.bulk.check(sync::now()).is_ok();
            let len = self.bulk.len();
            let claim = |progress: &mut Progress<_>| match goes_on && progress.stopped.is_none() {
                true => progress.claim(len, parts, longest),
                false => None,
            };
            let Some(queries) = self.publish(settled, claim) else {
                return;
            };
            self.call_others(worker, parts, longest);
            let count = queries.len() as u64;
            if !self.queue_again(worker, queries) {
                return;
            }
            // No queue has counted them.
            worker.accept(table, count);
            worker.counts.begun(level);
            (started, is_first) = (worker.now(), false);
        }
    }

    /// Queues as many more parts as there are to be, while there are places. The caller's own part is left meanwhile,
    /// so what finds no place is not lost.
    fn call_others(&self, worker: &Worker, parts: usize, longest: usize) {
        let (bulk, len) = (&self.bulk, self.bulk.len());
        loop {
            let queries = {
                let mut progress = bulk.work.progress.lock();
                if progress.left >= parts || progress.stopped.is_some() {
                    return;
                }
                let Some(queries) = progress.claim(len, parts, longest) else {
                    return;
                };
                progress.left += 1;
                queries
            };
            let part = Part::new(bulk, queries.clone(), worker.now(), None);
            if worker.queue_again(part, queries.len()).is_err() {
                bulk.is_left_with(queries);
                return;
            }
        }
    }

    /// Puts the part into a queue with its next queries, or says that it goes on with them without one.
    fn queue_again(self: &Arc<Self>, worker: &Worker, queries: Range<usize>) -> bool {
        let count = queries.len();
        {
            let mut stretch = self.stretch.lock();
            stretch.queries = queries.clone();
            stretch.since = worker.now();
        }
        let Err(refusal) = worker.queue_again(Arc::clone(self) as _, count) else {
            return false;
        };
        if refusal != Refusal::Closed {
            return self.bulk.is_left_with(queries);
        }
        // Nobody waits there.
        let ends = worker.engine.abandons();
        if ends {
            self.stop(false, Error::ShutDown);
        }
        !ends
    }
}

impl<L: Load> Task for Part<L> {
    fn header(&self) -> &Header {
        &self.bulk.header
    }

    fn submitted(&self) -> &Submitted {
        &self.submitted
    }

    fn share(self: Arc<Self>) -> Arc<dyn Task> {
        self
    }

    fn weight(&self) -> u64 {
        self.stretch.lock().queries.len() as u64
    }

    /// A part whose ticket is gone or has been told is published no more: nobody waits for that.
    fn end_queued(&self, error: Error) -> End {
        if let Some(reason) = self.bulk.header.stop_reason() {
            return End::by(&reason);
        }
        let queries = self.stretch.lock().queries.clone();
        let mut found = L::Found::default();
        L::fail(&mut found, queries.len(), &error);
        let (ends, settled) = self.settle(&queries, &mut found, None);
        self.stop(settled, error);
        match ends.of(End::Expired) {
            0 => End::Cancelled,
            _ => End::Expired,
        }
    }

    fn execute(self: Arc<Self>, worker: &mut Worker, started: Time, level: StealLevel) {
        self.run_all(worker, started, level);
        contain(|| drop(self));
    }
}

/// How many queries a part takes next, whose last took so long: about a [`STRETCH`], but as many as its table wants at
/// once.
fn longest(queries: u64, took: Duration, together: usize) -> usize {
    let each = took.as_nanos() / u128::from(queries.max(1));
    let fit = STRETCH.as_nanos().checked_div(each).unwrap_or(u128::MAX);
    let fit = usize::try_from(fit).unwrap_or(usize::MAX);
    fit.max(together).min(LONGEST_STRETCH)
}

/// At its deadline a bulk tells what it has.
impl<L: Load> Work<L::Answers> for Bulk<L> {
    fn expire<C>(task: &Live<L::Answers, Self, C>) {
        // Else an answer is being counted, and comes then.
        if let Some(answer) = task.work.change(|progress| progress.due = true) {
            task.tell(Ok(answer));
        }
    }
}
