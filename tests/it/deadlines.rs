//! A ticket resolves at its deadline, whatever its worker does: by waiting and by polling, in the queue and while the
//! task runs. Workers are held at a gate that opens only after the ticket has told, so nobody else can have ended the
//! task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::common::lists::Lists;
use crate::common::{Bomb, Gate, HANG, OpenOnDrop, executor, hold, pass};
use chiplet::shutdown::Shutdown;
use chiplet::{Error, Executor, Query, TableId, Ticket};

/// Long enough for a few submits, short enough to wait for.
const SOON: Duration = Duration::from_millis(100);

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls by hand, without a runtime, whenever the waker was called.
fn block_on<T>(mut ticket: Ticket<T>) -> Result<T, Error> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match std::pin::Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

type Way<T> = fn(Ticket<T>) -> Result<T, Error>;

/// The ways to learn a ticket's result.
fn ways<T>() -> [Way<T>; 3] {
    [
        |ticket| ticket.wait(),
        |mut ticket| ticket.wait_for(HANG).expect("it is told before that"),
        block_on,
    ]
}

/// All three tickets, each learned of in its own way by its own thread, tell that they have expired, and not early.
fn all_expire<T: Send + 'static>(tickets: [Ticket<T>; 3], deadline: Instant) {
    let (sent, told) = channel();
    for (ticket, way) in tickets.into_iter().zip(ways()) {
        let sent = sent.clone();
        std::thread::spawn(move || {
            let error = way(ticket).err();
            sent.send((error, Instant::now())).unwrap();
        });
    }
    for _ in 0..3 {
        let (error, at) = told.recv_timeout(HANG).expect("a ticket tells");
        assert_eq!(error, Some(Error::Expired));
        assert!(at >= deadline, "it is told early");
    }
}

/// Three tasks with one deadline.
fn submit<T: Send + 'static>(
    executor: &Executor,
    table: TableId,
    deadline: Instant,
    code: impl Fn() -> T + Clone + Send + 'static,
) -> [Ticket<T>; 3] {
    [(); 3].map(|()| {
        let code = code.clone();
        let submitted = executor.submit_fn(table, Some(deadline), move |_| code());
        submitted.unwrap()
    })
}

#[test]
fn a_queued_task_expires_while_its_worker_is_in_another() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let ran = Arc::new(AtomicUsize::new(0));
    let deadline = Instant::now() + SOON;
    let counted = Arc::clone(&ran);
    let tickets = submit(&executor, table, deadline, move || {
        counted.fetch_add(1, Ordering::SeqCst)
    });
    all_expire(tickets, deadline);
    let total = executor.snapshot().total;
    assert_eq!(
        (total.queued, total.running, total.expired),
        (3, 1, 0),
        "they are counted when a worker finds them"
    );
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done, total.expired), (4, 1, 3));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn a_running_task_expires_and_its_answer_is_dropped_once() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let executor = executor(1, 3);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (arrived, arrivals) = channel();
    let dropped = Arc::new(AtomicUsize::new(0));
    // Far enough for three workers to start on a busy machine.
    let deadline = Instant::now() + 20 * SOON;
    let (waits, counted) = (gate.clone(), Arc::clone(&dropped));
    let tickets = submit(&executor, table, deadline, move || {
        arrived.send(()).unwrap();
        waits.wait();
        // Its destructor is contained: the worker goes on.
        (Counts(Arc::clone(&counted)), Bomb)
    });
    for _ in 0..3 {
        arrivals.recv_timeout(HANG).expect("each is started");
    }
    all_expire(tickets, deadline);
    let total = executor.snapshot().total;
    assert_eq!((total.running, total.expired), (3, 0), "all run on");
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    gate.open();
    assert_eq!(executor.spawn(table, || 5).wait(), Ok(5));
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done, total.expired), (4, 1, 3));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

#[test]
fn a_panic_after_the_deadline_changes_nothing() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let waits = gate.clone();
    let code = move |_: &mut chiplet::Context| {
        waits.wait();
        panic!("it fails too late for anyone to hear");
    };
    let late = executor
        .submit_fn(table, Some(Instant::now() + SOON), code)
        .unwrap();
    assert_eq!(block_on::<()>(late), Err(Error::Expired));
    gate.open();
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!((total.expired, total.panicked), (1, 0));
}

#[test]
fn a_query_that_is_cut_expires_in_the_middle_of_a_scan() {
    let executor = executor(1, 2);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let scans = Arc::new(AtomicUsize::new(0));
    let (waits, counted) = (gate.clone(), Arc::clone(&scans));
    let lists = Lists::default().on_scan(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        waits.wait();
    });
    let table = executor.add_table("lists", lists);
    let deadline = Instant::now() + SOON;
    let tickets = [(); 3].map(|()| {
        let query = Query::new([3.0]).deadline(deadline);
        executor.submit(table, query).unwrap()
    });
    all_expire(tickets, deadline);
    gate.open();
    executor.shutdown(Shutdown::Drain(HANG));
    assert!(
        scans.load(Ordering::SeqCst) <= 2,
        "each worker scans at most the unit it had begun"
    );
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.expired), (3, 3));
}

#[test]
fn a_shorter_wait_leaves_the_ticket_valid() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let far = Instant::now() + HANG;
    let mut ticket = executor.submit_fn(table, Some(far), |_| 8).unwrap();
    assert_eq!(ticket.wait_for(Duration::from_millis(5)), None);
    assert!(!ticket.is_finished());
    gate.open();
    assert_eq!(ticket.wait_for(HANG), Some(Ok(8)));
}

#[test]
fn an_expired_ticket_is_finished_before_anyone_waits() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let deadline = Instant::now() + Duration::from_millis(5);
    let ticket = executor.submit_fn(table, Some(deadline), |_| ()).unwrap();
    pass(deadline);
    assert!(ticket.is_finished());
    assert_eq!(ticket.wait(), Err(Error::Expired));
}

#[test]
fn an_answer_that_is_there_is_given_after_the_deadline_too() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let deadline = Instant::now() + 20 * SOON;
    let ticket = executor.submit_fn(table, Some(deadline), |_| 3).unwrap();
    while !ticket.is_finished() {
        std::thread::yield_now();
    }
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    assert_eq!(ticket.wait(), Ok(3));
}

#[test]
fn waiting_inside_the_own_executor_is_refused_until_the_deadline_and_told_after_it() {
    let executor = Arc::new(executor(1, 1));
    let table = executor.add_closure_table("t", 1);
    let inner = Arc::clone(&executor);
    let outcome = executor.spawn(table, move || {
        let submit = |deadline| inner.submit_fn(table, Some(deadline), |_| ()).unwrap();
        let now = Instant::now();
        [submit(now + HANG).wait(), submit(now).wait()]
    });
    assert_eq!(
        outcome.wait(),
        Ok([Err(Error::WouldDeadlock), Err(Error::Expired)])
    );
}

#[test]
fn a_waker_that_panics_leaves_other_tickets_their_deadlines() {
    struct Cruel;
    impl Wake for Cruel {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics");
        }
    }
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let submit = |after| {
        let deadline = Some(Instant::now() + after);
        executor.submit_fn(table, deadline, |_| ()).unwrap()
    };
    let (mut first, second) = (submit(10 * SOON), submit(12 * SOON));
    let waker = Waker::from(Arc::new(Cruel));
    let poll = std::pin::Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
    assert_eq!(poll, Poll::Pending);
    assert_eq!(block_on(second), Err(Error::Expired));
    assert_eq!(block_on(first), Err(Error::Expired));
}

#[test]
fn tokio_needs_no_timer_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let deadline = Some(Instant::now() + SOON);
    let ticket = executor.submit_fn(table, deadline, |_| ()).unwrap();
    assert_eq!(runtime.block_on(ticket), Err(Error::Expired));
}

#[test]
fn a_task_that_outlives_a_shutdown_has_its_deadline() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (arrived, arrivals) = channel();
    let waits = gate.clone();
    let deadline = Instant::now() + 20 * SOON;
    let code = move |_: &mut chiplet::Context| {
        arrived.send(()).unwrap();
        waits.wait();
    };
    let running = executor.submit_fn(table, Some(deadline), code).unwrap();
    arrivals.recv_timeout(HANG).unwrap();
    let report = executor.shutdown(Shutdown::Abandon(Duration::ZERO));
    assert_eq!(report.still_running, 1);
    assert_eq!(block_on(running), Err(Error::Expired));
    gate.open();
    let report = executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!(report.still_running, 0);
    assert_eq!(executor.snapshot().total.expired, 1);
}

#[test]
fn under_lasting_overload_what_is_begun_is_answered() {
    // One worker, tasks of 5 ms, and one more each ms, each to be answered within 60 ms. In order of arrival every
    // task's turn comes just before its deadline.
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let mut tickets = Vec::new();
    for _ in 0..600 {
        let deadline = Instant::now() + Duration::from_millis(60);
        let task = move |_: &mut chiplet::Context| {
            std::thread::sleep(Duration::from_millis(5));
            Instant::now() <= deadline
        };
        tickets.extend(executor.submit_fn(table, Some(deadline), task));
        std::thread::sleep(Duration::from_millis(1));
    }
    // An answer that is there when it is asked for is given, be it late.
    let ended = tickets.into_iter().filter_map(|ticket| ticket.wait().ok());
    let (in_time, late): (Vec<_>, Vec<_>) = ended.partition(|&in_time| in_time);
    println!("{} in time, {} late", in_time.len(), late.len());
    assert!(
        in_time.len() > late.len(),
        "{} and {} late",
        in_time.len(),
        late.len()
    );
}

#[test]
fn a_deadline_in_the_far_future_never_comes() {
    let executor = executor(1, 1);
    let table = executor.add_table("lists", Lists::default());
    let ages = [
        Duration::from_millis(u64::MAX),
        Duration::from_secs(1 << 40),
    ];
    for left in ages {
        let query = Query::new([0.0]).top(1).within(left);
        assert!(executor.search(table, query).wait().is_ok(), "{left:?}");
    }
}
