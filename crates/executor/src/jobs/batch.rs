//! Many queries of one table behind one ticket.
//!
//! A batch is cut into *parts*, as many as its home has workers at work, and they are queued under one lock. Each part
//! is a task: it waits, is stolen, cancelled and abandoned like any other. Whoever takes a part out of its queue ends
//! it, so a part has no state of its own. What all of them share is the batch: its queries, the ticket's completion, and the
//! answers so far.
//!
//! The last part to end resolves the ticket. If every query has a deadline, so does the ticket, which is the last of
//! them: what has been found by then is the answer, and the rest has expired. A part is first *settled*, which puts its
//! answers where the ticket gets them, then counted, and then published. The deadline waits for parts that are settled
//! and not published, so what a ticket is told has been counted and what it is not told counts as expired.
//!
//! Locks: the batch's progress and the ticket's completion are never held together.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Class, Rung, Time};

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

use super::guarded;
use super::host::in_context;
use crate::counts::{End, Served};
use crate::engine::Engine;
use crate::engine::completion::end_of;
use crate::engine::live::{AtDeadline, Live, Work};
use crate::engine::task::{Header, Task};
use crate::engine::worker::Worker;
use crate::error::{Error, SubmitError};
use crate::report::{Answer, Report};
use crate::scheduler::Terms;
use crate::sync::{self, Mutex, Step, left_out};

/// The answers to a batch, in the order of its queries. Each is what the query's own ticket would have told.
pub type Answers = Vec<Result<Vec<Neighbor>, Error>>;

/// Queries of one part, at most. A worker that has a part takes nothing else meanwhile.
const LONGEST_PART: usize = 64;

/// Queries that came together.
pub(crate) struct Batch {
    pub(crate) queries: Vec<Query>,
    progress: Mutex<Progress>,
}

/// Its deadline is the last of the queries', if all have one.
pub(crate) type BatchTask = Live<Answers, Batch>;

struct Progress {
    /// What is not answered yet stands as expired.
    answers: Answers,
    /// Parts that have not been published.
    left: usize,
    /// Parts that are settled and not published.
    settled: usize,
    /// The batch's deadline has passed.
    due: bool,
    /// Of the parts whose answers stand here.
    report: Report,
    /// The ticket has got the answers.
    told: bool,
}

impl Progress {
    /// The answers, if they are to be told now: all there are to come, or all there were at the deadline.
    fn take(&mut self) -> Option<Answer<Answers>> {
        let complete = self.left == 0 && !left_out(Step::LastPartAnswers);
        let counted = self.settled == 0 || left_out(Step::DeadlineAwaitsSettled);
        if self.told || !(complete || self.due && counted) {
            return None;
        }
        self.told = true;
        Some((std::mem::take(&mut self.answers), self.report))
    }
}

/// Some queries of a batch, in a queue or with a worker.
pub(crate) struct Part {
    batch: Arc<BatchTask>,
    queries: Range<usize>,
}

/// When the last of the queries has expired; `None` if one never does.
pub(crate) fn deadline(queries: &[Query]) -> Option<Instant> {
    let mut last = None;
    for query in queries {
        last = last.max(Some(query.expires()?));
    }
    last
}

/// The class of a batch of a table whose own is `default`: bulk if all of the queries are.
pub(crate) fn class(queries: &[Query], default: Class) -> Class {
    let class = |query: &Query| query.requested_class().unwrap_or(default);
    match queries.iter().all(|query| class(query) == Class::Bulk) {
        true => Class::Bulk,
        false => Class::Interactive,
    }
}

/// A batch that has not been cut.
pub(crate) fn task(header: Header, queries: Vec<Query>) -> BatchTask {
    let home = header.entry.state.homes.load().main().domain;
    let progress = Mutex::new(Progress {
        answers: vec![Err(Error::Expired); queries.len()],
        left: 0,
        settled: 0,
        due: false,
        report: Report::idle(home),
        told: false,
    });
    Live::started(header, Batch { queries, progress })
}

impl BatchTask {
    fn len(&self) -> usize {
        self.work.queries.len()
    }

    /// Cuts it for so many workers, into parts whose lengths differ by one at most. Called before any part is queued. A
    /// batch without queries has no parts; it is answered by this.
    pub(crate) fn cut(self: &Arc<Self>, workers: usize) -> Vec<Arc<dyn Task>> {
        let len = self.len();
        let parts = workers.max(len.div_ceil(LONGEST_PART)).min(len);
        let answers = {
            let mut progress = self.work.progress.lock();
            progress.left = parts;
            progress.take()
        };
        answers.into_iter().for_each(|answers| self.tell(answers));
        let part = |part: usize| {
            let queries = part * len / parts..(part + 1) * len / parts;
            let batch = Arc::clone(self);
            Arc::new(Part { batch, queries }) as _
        };
        (0..parts).map(part).collect()
    }

    /// Has all of its parts accepted or none; hands the batch back.
    pub(crate) fn admit(self: Arc<Self>, engine: &Engine) -> Result<(), (SubmitError, Arc<Self>)> {
        let batch = self;
        let entry = batch.header.entry.clone();
        let (at, class) = (batch.header.accepted, batch.header.class);
        let terms = entry.state.options.terms(class);
        let weight = batch.len() as u64;
        let push = |group, batch: Arc<Self>| {
            let workers = engine.hub.groups.at_work_in(group);
            // A queue that holds fewer parts than there are workers would refuse it for ever.
            let places = entry.state.options.queue_limit();
            let places = places.unwrap_or(engine.table_limit).min(engine.queue_limit);
            let parts = batch.cut(workers.min(places).max(1));
            // Parts differ by one query at most.
            let terms = Terms {
                queries: batch.len().div_ceil(parts.len().max(1)) as u32,
                ..terms
            };
            let pushed = engine
                .hub
                .push_all(group, entry.id, terms, parts, weight, at);
            pushed.map_err(|(refusal, _)| (refusal, batch))
        };
        engine.place(&entry, batch, weight, (at, class), push)
    }
}

impl Part {
    /// Answers its queries one after the other, or as many at once as the table wants. Before each call the ticket and
    /// the deadlines are looked at.
    fn search(&self, package: u32, context: &mut Context<'_>) -> Answers {
        let batch = &*self.batch;
        let mut left = &batch.work.queries[self.queries.clone()];
        let (table, together) = match self.table(package) {
            Ok(known) => known,
            Err(error) => return vec![Err(error); left.len()],
        };
        let mut found = Answers::with_capacity(left.len());
        let mut now = sync::now();
        while let Some(first) = left.first() {
            if let Some(reason) = batch.stop_reason() {
                found.resize(self.queries.len(), Err(reason));
                break;
            }
            let is_late = |query: &Query| query.expires().is_some_and(|at| now >= at);
            if is_late(first) {
                found.push(Err(Error::Expired));
                left = &left[1..];
                continue;
            }
            let in_time = left.iter().take_while(|query| !is_late(query));
            let (these, others) = left.split_at(in_time.take(together).count());
            answer(table, these, context, &mut found);
            left = others;
            if left.iter().any(|query| query.expires().is_some()) {
                now = sync::now();
            }
        }
        found
    }

    /// What becomes of searches that were given up because nobody waits for them: the reason for that.
    fn explain(&self, found: &mut Answers) {
        let reason = self.batch.stop_reason().unwrap_or(Error::Expired);
        let stopped = |answer: &&mut _| matches!(answer, Err(Error::Search(SearchError::Stopped)));
        for answer in found.iter_mut().filter(stopped) {
            *answer = Err(reason.clone());
        }
    }

    /// The table, as workers of `package` search it, and how many queries it wants at once.
    fn table(&self, package: u32) -> Result<(&dyn Table, usize), Error> {
        let table = self.batch.header.entry.index.nearest(package);
        let table = &**table.ok_or(Error::Refused(crate::SubmitError::NotSearchable))?;
        guarded(|| Ok((table, table.batch_size().max(1))))
    }

    /// Puts what was found where the ticket gets it, unless the ticket has been told or is about to be that its queries
    /// have expired. Says how they are to be counted, and whether the part is settled. `report` is that of a part which
    /// has run.
    fn settle(&self, found: Answers, report: Option<Report>) -> (Served, bool) {
        let mut ends = Served::default();
        let mut progress = self.batch.work.progress.lock();
        if progress.due {
            ends.expired = self.weight();
            return (ends, false);
        }
        progress.settled += 1;
        if let Some(report) = report {
            progress.report.add(report);
        }
        let places = &mut progress.answers[self.queries.clone()];
        for (place, answer) in places.iter_mut().zip(found) {
            ends.count(end_of(&answer));
            *place = answer;
        }
        (ends, true)
    }

    /// The part is counted; the last one resolves the ticket.
    fn publish(&self, settled: bool) {
        let answers = {
            let mut progress = self.batch.work.progress.lock();
            progress.settled -= usize::from(settled);
            progress.left -= 1;
            progress.take()
        };
        answers
            .into_iter()
            .for_each(|answers| self.batch.tell(answers));
    }
}

/// Answers `queries` in one call. A panic fails all of them: a call is what can be told apart.
fn answer(table: &dyn Table, queries: &[Query], context: &mut Context<'_>, found: &mut Answers) {
    if let [query] = queries {
        found.push(guarded(|| Ok(table.search(query, context)?)));
        return;
    }
    let answers = guarded(|| Ok(table.search_batch(queries, context)));
    let failure = match answers {
        Ok(answers) if answers.len() == queries.len() => {
            found.extend(answers.into_iter().map(|answer| Ok(answer?)));
            return;
        }
        Ok(answers) => Error::Search(SearchError::Backend(format!(
            "the table gave {} answers to {} queries",
            answers.len(),
            queries.len()
        ))),
        Err(error) => error,
    };
    found.resize(found.len() + queries.len(), Err(failure));
}

impl Task for Part {
    fn header(&self) -> &Header {
        &self.batch.header
    }

    fn weight(&self) -> u64 {
        self.queries.len() as u64
    }

    /// A part whose ticket is gone or has been told is published no more: nobody waits for that.
    fn begin(&self) -> Result<(), End> {
        match self.batch.stop_reason() {
            Some(reason) => Err(end_of::<()>(&Err(reason))),
            None => Ok(()),
        }
    }

    fn end_queued(&self, error: Error) -> Option<End> {
        self.begin().err().or_else(|| {
            let (ends, settled) = self.settle(vec![Err(error); self.queries.len()], None);
            self.publish(settled);
            Some(match ends.expired {
                0 => End::Cancelled,
                _ => End::Expired,
            })
        })
    }

    fn is_ended(&self) -> bool {
        self.begin().is_err()
    }

    fn is_wanted(&self) -> bool {
        !self.batch.header.is_due() && self.batch.stop_reason().is_none()
    }

    fn execute(self: Arc<Self>, worker: &mut Worker, started: Time, rung: Rung) {
        let header = &self.batch.header;
        let package = worker.place().package;
        let (mut found, used) = in_context(worker, Arc::clone(&self) as _, |context| {
            self.search(package, context)
        });
        self.explain(&mut found);
        let ended = worker.now();
        worker.end_task(ended, &used);
        let service = ended.since(started);
        let report = worker.report(rung, header.waited(started), service);
        let (ends, settled) = self.settle(found, Some(report));
        let times = (report.wait, service);
        let used = (used.bytes, used.busy(service));
        worker.stats().ended(&header.entry, ends, times, used);
        self.publish(settled);
    }
}

/// At its deadline a batch tells what it has.
impl Work<Answers> for Batch {
    fn at_deadline(&self) -> AtDeadline<Answers> {
        let mut progress = self.progress.lock();
        progress.due = true;
        match progress.take() {
            Some(answers) => AtDeadline::Told(answers),
            None => AtDeadline::Later,
        }
    }
}
