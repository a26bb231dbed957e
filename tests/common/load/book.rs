//! What is known of a table's tasks without asking the executor: what was accepted, what ran, what tickets told.

use std::sync::atomic::{AtomicU64, Ordering};

use chiplet::Error;
use chiplet::snapshot::Counts;

use super::MARK;

/// One table's book. Numbers that a running load still changes are read after it has ended.
#[derive(Default)]
pub struct Book {
    pub accepted: AtomicU64,
    pub shed: AtomicU64,
    /// Tasks that have run to their end.
    answered: AtomicU64,
    /// Tasks that have panicked.
    panicked: AtomicU64,
    /// What tickets that were waited for have told.
    told_done: AtomicU64,
    told_expired: AtomicU64,
    told_panicked: AtomicU64,
    told_shut_down: AtomicU64,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Book {
    /// Called by a task as the last thing that it does.
    pub fn ran(&self) {
        count(&self.answered);
    }

    /// Called by a task that fails; the message is told from those of real failures by its text.
    pub fn fail(&self) -> ! {
        count(&self.panicked);
        panic!("{MARK}");
    }

    /// Tasks that have run, into an answer or a panic.
    pub fn executions(&self) -> u64 {
        read(&self.answered) + read(&self.panicked)
    }

    /// Takes down what a ticket told that was neither dropped nor cancelled, and says whether its task must have
    /// run. `fails` is whether it was to panic.
    pub fn told<T>(&self, outcome: &Result<T, Error>, fails: bool) -> bool {
        match outcome {
            Ok(_) => {
                assert!(!fails, "a task that panics has no answer");
                count(&self.told_done);
                true
            }
            Err(Error::Panicked(message)) => {
                assert!(fails && message == MARK, "{message}");
                count(&self.told_panicked);
                true
            }
            Err(Error::Expired) => {
                count(&self.told_expired);
                false
            }
            Err(Error::ShutDown) => {
                count(&self.told_shut_down);
                false
            }
            Err(other) => panic!("nobody cancelled or misused this task: {other}"),
        }
    }

    /// Checks what the executor has counted for this table, or for all of `books`, once nothing is under way.
    ///
    /// A task that ran past its deadline, and whose ticket was told so, counts as expired whatever it ran into.
    pub fn check<'a>(books: impl IntoIterator<Item = &'a Book>, counts: Counts) {
        let mut sum = Sum::default();
        for book in books {
            sum.add(book);
        }
        let what = format!("{counts:?} {sum:?}");
        assert_eq!((counts.queued, counts.running), (0, 0), "{what}");
        assert_eq!(counts.accepted, sum.accepted, "accepted: {what}");
        assert_eq!(counts.shed, sum.shed, "shed: {what}");
        assert!(counts.done <= sum.answered, "done: {what}");
        assert!(counts.panicked <= sum.panicked, "panicked: {what}");
        let late = (sum.answered - counts.done) + (sum.panicked - counts.panicked);
        assert!(late <= counts.expired, "late: {what}");
        assert_eq!(counts.ended(), sum.accepted, "ended: {what}");
        assert!(counts.done >= sum.told_done, "done: {what}");
        assert!(counts.panicked >= sum.told_panicked, "panicked: {what}");
        assert!(counts.expired >= sum.told_expired, "expired: {what}");
        assert!(counts.cancelled >= sum.told_shut_down, "cancelled: {what}");
    }
}

#[derive(Debug, Default)]
struct Sum {
    accepted: u64,
    shed: u64,
    answered: u64,
    panicked: u64,
    told_done: u64,
    told_expired: u64,
    told_panicked: u64,
    told_shut_down: u64,
}

impl Sum {
    fn add(&mut self, book: &Book) {
        self.accepted += read(&book.accepted);
        self.shed += read(&book.shed);
        self.answered += read(&book.answered);
        self.panicked += read(&book.panicked);
        self.told_done += read(&book.told_done);
        self.told_expired += read(&book.told_expired);
        self.told_panicked += read(&book.told_panicked);
        self.told_shut_down += read(&book.told_shut_down);
    }
}
