//! Deadlines of a whole executor: the timer, waiting threads, workers and dropped tickets meet.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chiplet_table::Query;
use shuttle::future::block_on;
use shuttle::rand::Rng as _;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::sync::mpsc::channel;
use shuttle::thread;

use super::{Lists, PATIENCE, any_builder, assert_complete, builder};
use crate::checks::checks;
use crate::engine::deadline::THREADS;
use crate::sync::now;
use crate::{Error, Shutdown};

/// How soon a deadline is that may come before, while or after its task runs.
const SOON: Duration = Duration::from_millis(1);

/// How many steps of the others a ticket's owner lets pass, at most, before it waits.
const MOST_STEPS: u32 = 60;

/// Takes part in a scenario's balance of values that were made and values that were dropped.
struct Counted(Arc<AtomicU32>);

impl Counted {
    fn new(alive: &Arc<AtomicU32>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A deadline, an answer and a dropped ticket meet: every ticket tells one end, the counters tell the same ends, and an
/// answer that nobody gets is dropped.
fn deadlines() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (alive, ran) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let deadline = now() + SOON;
    let tickets = [0, 1, 2].map(|_| {
        let (alive, ran) = (Arc::clone(&alive), Arc::clone(&ran));
        let code = move |_: &mut chiplet_table::Context| {
            let answer = Counted::new(&alive);
            thread::yield_now();
            ran.fetch_add(1, Ordering::SeqCst);
            answer
        };
        executor.submit_fn(table, Some(deadline), code).unwrap()
    });
    let [waited, polled, mut dropped] = tickets;
    let waits = thread::spawn(move || waited.wait().map(drop));
    let polls = thread::spawn(move || block_on(polled).map(drop));
    let first = {
        let waker = Waker::noop();
        Pin::new(&mut dropped).poll(&mut Context::from_waker(waker))
    };
    let told_by_dropped = match first {
        Poll::Ready(result) => Some(result.map(drop)),
        Poll::Pending => None,
    };
    drop(dropped);
    let told: Vec<Result<(), Error>> = [waits, polls]
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .chain(told_by_dropped.clone())
        .collect();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 3);
    let total = executor.snapshot().total;
    let answered = told.iter().filter(|result| result.is_ok()).count() as u64;
    let expired = told
        .iter()
        .filter(|result| **result == Err(Error::Expired))
        .count() as u64;
    assert_eq!(answered + expired, told.len() as u64, "{told:?}");
    // The ticket that was dropped untold is the only one that may have ended in any way.
    let silent = 3 - told.len() as u64;
    assert!(
        total.done - answered <= silent && total.expired - expired <= silent,
        "{told:?} {total:?}"
    );
    assert!(total.cancelled <= silent, "{told:?} {total:?}");
    assert!(u64::from(ran.load(Ordering::SeqCst)) >= total.done);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "each answer is dropped");
}

/// A polled ticket is woken at its deadline, though the only worker is in another task or in its own and stays there.
fn stuck() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (open, opened) = channel::<()>();
    let deadline = now() + SOON;
    let running = executor.submit_fn(table, Some(deadline), move |_| opened.recv());
    let queued = executor.submit_fn(table, Some(deadline), |_| ());
    let other = thread::spawn(move || block_on(queued.unwrap()));
    let told = block_on(running.unwrap());
    assert_eq!(told.map(|_| ()), Err(Error::Expired));
    assert_eq!(other.join().unwrap(), Err(Error::Expired));
    drop(open);
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
    assert_eq!(executor.snapshot().total.expired, 2);
}

/// Calls of a waker that come back when the others' ticket has been told.
struct Blocks(Arc<AtomicU32>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        while self.0.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}

/// As many wakers block as the timer had threads. Another ticket is woken at its deadline all the same.
fn blocked() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (open, opened) = channel::<()>();
    let held = executor.spawn(table, move || opened.recv());
    let told = Arc::new(AtomicU32::new(0));
    let deadline = now() + SOON;
    let submit = || executor.submit_fn(table, Some(deadline), |_| ()).unwrap();
    let waiting = [(); THREADS].map(|()| {
        let mut ticket = submit();
        let waker = Waker::from(Arc::new(Blocks(Arc::clone(&told))));
        let _ = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
        ticket
    });
    assert_eq!(block_on(submit()), Err(Error::Expired));
    told.store(1, Ordering::SeqCst);
    drop((open, waiting, held));
    executor.shutdown(Shutdown::Drain(PATIENCE));
}

/// The timer lasts as long as its workers: a task that outlives a shutdown has its deadline too.
fn outlives() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (open, opened) = channel::<()>();
    let (started, starts) = channel();
    let running = executor.submit_fn(table, Some(now() + 2 * SOON), move |_| {
        started.send(()).unwrap();
        opened.recv()
    });
    if starts.recv().is_ok() {
        let report = executor.shutdown(Shutdown::Abandon(Duration::ZERO));
        assert_eq!(report.still_running, 1);
    }
    // If its deadline came before it was started, it never was.
    let told = block_on(running.unwrap());
    assert_eq!(told.map(|_| ()), Err(Error::Expired));
    drop(open);
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 1);
}

/// A query whose deadline comes while its units are scanned stops, and is counted as its ticket was told.
fn late_units() {
    let executor = any_builder(1, 2).build().unwrap();
    let table = executor.add_table("lists", Lists);
    let query = Query::new([0.0]).top(3).deadline(now() + SOON);
    let ticket = executor.submit(table, query).unwrap();
    let mut dice = shuttle::rand::thread_rng();
    // A deadline comes soon after somebody waits for it: at any stage of the query, if the wait begins at any.
    for _ in 0..dice.gen_range(0..MOST_STEPS) {
        thread::yield_now();
    }
    let told = match dice.r#gen() {
        true => ticket.wait(),
        false => block_on(ticket),
    };
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 1);
    let total = executor.snapshot().total;
    match told {
        Ok(found) => assert_eq!((found.len(), total.done), (3, 1)),
        Err(error) => assert_eq!((error, total.expired), (Error::Expired, 1)),
    }
}

checks! {
    a_deadline_and_an_answer_agree: deadlines without SettledStays;
    a_deadline_comes_whatever_the_worker_does: stuck without AlarmWakes ExpiryWakes LastStopsTimer;
    a_deadline_comes_while_wakers_block: blocked without StuckReplaced;
    a_deadline_outlives_a_shutdown: outlives without AlarmWakes LastStopsTimer;
    a_split_query_ends_as_its_ticket_is_told: late_units without SettledStays;
}
