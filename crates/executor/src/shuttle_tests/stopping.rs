//! A shutdown that is awaited, while clients submit and others shut down too.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use super::{PATIENCE, any_builder, assert_complete, builder};
use crate::checks::checks;
use crate::{Error, Executor, Shutdown, ShutdownReport, SubmitError, Ticket};

/// A table's tasks, with how often each has run.
struct Tasks(Vec<(Ticket<()>, Arc<AtomicU32>)>);

impl Tasks {
    /// So many, each of which runs `code`.
    fn submit(executor: &Executor, count: u32, code: impl Fn() + Send + Clone + 'static) -> Self {
        let table = executor.add_closure_table("t", 1);
        let submit = |_| {
            let (ran, code) = (Arc::new(AtomicU32::new(0)), code.clone());
            let counted = Arc::clone(&ran);
            let task = move || {
                counted.fetch_add(1, Ordering::SeqCst);
                code();
            };
            (executor.spawn(table, task), ran)
        };
        Self((0..count).map(submit).collect())
    }

    /// Waits for all. Each has run once and is answered, or was abandoned and has never run; how many were abandoned.
    fn end(self) -> u64 {
        let end = |(ticket, ran): (Ticket<()>, Arc<AtomicU32>)| {
            let answer = ticket.wait();
            let times = ran.load(Ordering::SeqCst);
            match answer {
                Ok(()) => assert_eq!(times, 1, "an answered task has run once"),
                Err(error) => {
                    assert_eq!(
                        (error, times),
                        (Error::ShutDown, 0),
                        "an abandoned one never"
                    );
                }
            }
            u64::from(times == 0)
        };
        self.0.into_iter().map(end).sum()
    }
}

/// One awaits the shutdown, or drops it; another client submits until it is refused. What was accepted is answered.
fn stopping() {
    for awaits in [true, false] {
        let executor = Arc::new(builder(1, 2).build().unwrap());
        let table = executor.add_closure_table("t", 1);
        let client = {
            let executor = Arc::clone(&executor);
            thread::spawn(move || {
                let mut accepted = 0;
                for n in 0..3 {
                    match executor.submit_fn(table, None, move |_| n) {
                        Ok(ticket) => {
                            accepted += 1;
                            assert_eq!(ticket.wait(), Ok(n), "a drain answers it");
                        }
                        Err(refused) => assert_eq!(refused.reason, SubmitError::ShuttingDown),
                    }
                }
                accepted
            })
        };
        let stopping = executor.shutdown_async(Shutdown::Drain(PATIENCE));
        match awaits {
            true => {
                let report = shuttle::future::block_on(stopping);
                assert_eq!((report.abandoned, report.still_running), (0, 0));
            }
            false => drop(stopping),
        }
        let accepted = client.join().unwrap();
        let report = executor.shutdown(Shutdown::Drain(PATIENCE));
        assert_eq!((report.abandoned, report.still_running), (0, 0));
        assert_complete(&executor, accepted);
    }
}

type Stops = fn(&Executor, Shutdown) -> ShutdownReport;

fn blocks(executor: &Executor, how: Shutdown) -> ShutdownReport {
    executor.shutdown(how)
}

fn awaits(executor: &Executor, how: Shutdown) -> ShutdownReport {
    shuttle::future::block_on(executor.shutdown_async(how))
}

/// Two threads shut down at once while tasks wait: both return, and each task ends once. What the two abandoned is what
/// the tickets tell.
fn two_at_once(how: [Shutdown; 2]) {
    let ways: [[Stops; 2]; 3] = [[awaits, awaits], [awaits, blocks], [blocks, awaits]];
    for way in ways {
        let executor = Arc::new(any_builder(2, 1).build().unwrap());
        let tasks = Tasks::submit(&executor, 3, thread::yield_now);
        let threads = [0, 1].map(|n| {
            let executor = Arc::clone(&executor);
            thread::spawn(move || way[n](&executor, how[n]))
        });
        let reports = threads.map(|thread| thread.join().unwrap());
        let abandoned: u64 = reports.iter().map(|report| report.abandoned).sum();
        assert!(reports.iter().all(|report| report.still_running == 0));
        assert_eq!(tasks.end(), abandoned);
        assert_complete(&executor, 3);
    }
}

fn two_drain() {
    two_at_once([Shutdown::Drain(PATIENCE); 2]);
}

fn one_abandons() {
    two_at_once([Shutdown::Drain(PATIENCE), Shutdown::Abandon(PATIENCE)]);
}

/// Wakes nobody.
struct Kept;

impl Wake for Kept {
    fn wake(self: Arc<Self>) {}
}

/// The future is polled and then dropped while one task runs and others wait: nothing keeps its waker, the shutdown
/// goes on, and each task ends once.
fn polled_and_dropped() {
    for how in [Shutdown::Drain(PATIENCE), Shutdown::Abandon(PATIENCE)] {
        let executor = builder(1, 1).build().unwrap();
        let (begun, open) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let tasks = {
            let (begun, open) = (Arc::clone(&begun), Arc::clone(&open));
            Tasks::submit(&executor, 3, move || {
                begun.store(1, Ordering::SeqCst);
                while open.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
            })
        };
        while begun.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let mut stopping = executor.shutdown_async(how);
        let kept = Arc::new(Kept);
        let waker = Waker::from(Arc::clone(&kept));
        let polled = Pin::new(&mut stopping).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "a task runs");
        drop((stopping, waker));
        assert_eq!(Arc::strong_count(&kept), 1, "the waker is gone");
        open.store(1, Ordering::SeqCst);
        let abandoned = tasks.end();
        let most = match how {
            Shutdown::Drain(_) => 0,
            Shutdown::Abandon(_) => 2,
        };
        assert!(abandoned <= most, "{abandoned} were abandoned");
        // It waits for what the one before has left.
        let report = executor.shutdown(Shutdown::Drain(PATIENCE));
        assert_eq!((report.abandoned, report.still_running), (0, 0));
        // The first shutdown's thread counts a task that it abandons after it has ended its ticket.
        while executor.snapshot().total.queued > 0 {
            thread::yield_now();
        }
        assert_complete(&executor, 3);
    }
}

checks! {
    two_drains_at_once_answer_all: two_drain without ShutdownWakes;
    of_two_at_once_one_abandons: one_abandons without ShutdownWakes;
    a_dropped_shutdown_goes_on: polled_and_dropped without StoppingForgets;
    an_awaited_shutdown_answers_what_was_accepted_and_wakes: stopping without ShutdownWakes;
}
