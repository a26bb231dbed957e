//! What a queue and a worker know of a task. The tasks themselves are in `jobs`.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use chiplet_policy::{LeftHome, StealLevel, Time};
use chiplet_table::Class;

use super::registry::EntryRef;
use super::worker::Worker;
use crate::counts::End;
use crate::error::Error;
use crate::scheduler::Invite;
use crate::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use crate::sync::{Mutex, Step, left_out, now};
use chiplet_table::host::contain;

/// What is known of a task before it runs.
pub(crate) struct Header {
    pub(crate) entry: EntryRef,
    pub(crate) accepted: Time,
    /// The deadline as [`Common::expiry`](super::registry::Common::expiry) writes it.
    pub(crate) expires: Time,
    pub(crate) class: Class,
    /// It has a deadline, and is passed over where that cannot be met. Parts of batches and blocks are not.
    pub(crate) limited: bool,
    /// Its life as one word: see `completion.rs`.
    pub(super) state: AtomicU32,
    pub(super) waker: Mutex<Option<Waker>>,
    pub(crate) submitted: Submitted,
    pub(crate) span: TaskSpan,
}

impl Header {
    /// Of a task that comes at `accepted` and has the deadline `expires`.
    #[inline(always)]
    pub(crate) fn new(
        entry: EntryRef,
        accepted: Time,
        expires: Option<Instant>,
        (class, limited): (Class, bool),
    ) -> Self {
        Self {
            accepted,
            expires: entry.common.expiry(expires),
            class,
            limited,
            state: AtomicU32::new(0),
            waker: Mutex::new(None),
            submitted: Submitted::new(None),
            span: TaskSpan::of(&entry.name),
            entry,
        }
    }

    #[inline]
    pub(crate) fn has_deadline(&self) -> bool {
        self.expires != Time::MAX
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.has_deadline()
            .then(|| self.entry.common.began + self.expires.elapsed())
    }

    /// Its deadline by the scheduler's clock, if it is passed over where that cannot be met.
    pub(super) fn limit(&self) -> Option<Time> {
        let deadline = self.deadline().filter(|_| self.limited)?;
        Some(self.accepted + deadline.saturating_duration_since(now()))
    }

    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| now >= at)
    }

    /// Whether the deadline has passed by now. Without one nobody asks what time it is.
    pub(crate) fn is_due(&self) -> bool {
        self.has_deadline() && self.is_expired(now())
    }

    pub(crate) fn waited(&self, now: Time) -> Duration {
        now.since(self.accepted)
    }
}

/// Why a submit has queued its task in another domain than its home, if it has. It is set before the task is queued.
pub(crate) struct Submitted(AtomicU8);

impl Submitted {
    pub(crate) fn new(left_home: Option<LeftHome>) -> Self {
        Self(AtomicU8::new(Self::code(left_home)))
    }

    fn code(left_home: Option<LeftHome>) -> u8 {
        left_home.map_or(0, |why| why as u8 + 1)
    }

    /// The queue's lock shows it to whoever takes the task.
    #[inline]
    pub(crate) fn set(&self, left_home: Option<LeftHome>) {
        self.0.store(Self::code(left_home), Ordering::Relaxed);
    }

    /// Where a worker has got the task that has taken it from its own domain's queue.
    #[inline]
    fn level(&self) -> StealLevel {
        let code = self.0.load(Ordering::Relaxed);
        let reasons = [LeftHome::Rebalanced, LeftHome::Overflow];
        let why = reasons
            .into_iter()
            .find(|&why| Self::code(Some(why)) == code);
        why.map_or(StealLevel::Own, StealLevel::Away)
    }
}

/// A span from a task's submit until the task is gone, with the feature `tracing`; without it, nothing. Its parent is
/// the span that was current at the submit, and it is current wherever the task's code runs.
pub(crate) struct TaskSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl TaskSpan {
    /// Of a task of `table` that the calling thread submits.
    #[cfg_attr(
        not(feature = "tracing"),
        expect(unused_variables, reason = "there is no span")
    )]
    pub(crate) fn of(table: &str) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(target: "chiplet", "task", table),
        }
    }

    /// Runs the task's code within it. A subscriber is the caller's code, whose panic must not end the worker.
    pub(crate) fn within<R>(&self, code: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let mut entered = None;
        #[cfg(feature = "tracing")]
        contain(|| entered = Some(self.span.enter()));
        let result = code();
        #[cfg(feature = "tracing")]
        contain(|| drop(entered));
        result
    }
}

/// A task as queues and workers see it.
pub(crate) trait Task: Send + Sync {
    fn header(&self) -> &Header;

    /// What its submit says of where it is queued.
    fn submitted(&self) -> &Submitted {
        &self.header().submitted
    }

    /// The same, for code that does not know its type.
    fn share(self: Arc<Self>) -> Arc<dyn Task>;

    /// As how many accepted tasks it counts: the queries of a batch's part.
    fn weight(&self) -> u64 {
        1
    }

    /// Ends it before it has started, unless it has ended in the queue. Says how it is to be counted.
    fn end_queued(&self, error: Error) -> End;

    /// Whether anybody still waits for the answer. Asked now and then by whoever runs it.
    fn is_wanted(&self) -> bool {
        let header = self.header();
        !header.is_due() && header.stop_reason().is_none()
    }

    /// Takes it through its life on the worker that has taken it from a queue, at `level`.
    fn run(self: Arc<Self>, worker: &mut Worker, level: StealLevel) {
        if let Some(reason) = self.header().stop_reason()
            && !left_out(Step::BeginAsks)
        {
            let end = End::by(&reason);
            worker.found_ended(self.header().entry.id, end, self.weight());
            return contain(|| drop(self));
        }
        let far = match level {
            // Also what a sibling had taken ahead.
            StealLevel::Own | StealLevel::Domain => self.submitted().level(),
            stolen => stolen,
        };
        worker.counts.begun(far);
        let started = worker.start(self.header(), level);
        self.execute(worker, started, far);
    }

    /// Runs it on this worker, which took it from `level`; a split query may end later and elsewhere. A panic of what
    /// is dropped with it, such as a closure's captures, ends here.
    fn execute(self: Arc<Self>, worker: &mut Worker, started: Time, level: StealLevel);
}

/// What a worker has started and shares out: any worker may take part in it.
pub(crate) trait Shared: Send + Sync {
    /// Whether something is left for one more worker.
    fn is_open(&self) -> bool;

    /// Has this worker take part, until nothing is left or it is no longer wanted. True: until a task that waits goes
    /// before the rest, of which it may do more later.
    fn join(self: Arc<Self>, worker: &mut Worker, level: StealLevel) -> bool;
}

/// A place for one more worker.
#[derive(Clone)]
pub(crate) struct Invitation(Option<Arc<dyn Shared>>);

impl Invitation {
    pub(crate) fn new(shared: Arc<dyn Shared>) -> Self {
        Self(Some(shared))
    }

    /// Takes part. The invitation comes back if there may be more to do, after a task that goes before it.
    #[must_use]
    pub(crate) fn accept(mut self, worker: &mut Worker, level: StealLevel) -> Option<Self> {
        if let Some(shared) = &self.0
            && Arc::clone(shared).join(worker, level)
        {
            return Some(self);
        }
        self.let_go();
        None
    }

    /// It may be the last that refers to the task, whose parts are the caller's.
    fn let_go(&mut self) {
        if let Some(shared) = self.0.take() {
            contain(|| drop(shared));
        }
    }
}

impl Invite for Invitation {
    fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_open())
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        self.let_go();
    }
}
