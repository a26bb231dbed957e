//! Shutting down: from outside, from a task and from the remap callback, to the end or within a bound.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context as Polling, Wake, Waker};
use std::time::{Duration, Instant};

use crate::common::{
    Departing, Gate, HANG, OpenOnDrop, builder, executor, hold, neighbours, restless,
};
use chiplet::shutdown::{Shutdown, ShutdownReport};
use chiplet::{
    Context, Error, Executor, Neighbor, Query, SearchError, SubmitError, Table, TableId, Ticket,
};

/// An executor whose workers are held at a gate, with a queue behind them. Fields go in this order: the gate opens
/// first.
struct Backlog {
    _open: OpenOnDrop,
    queued: Vec<Ticket<usize>>,
    held: Vec<Ticket<()>>,
    gate: Gate,
    table: TableId,
    executor: Executor,
}

fn backlog(workers: u32, queued: usize) -> Backlog {
    let executor = executor(1, workers);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    Backlog {
        _open: OpenOnDrop(gate.clone()),
        held: hold(&executor, table, workers as usize, &gate),
        queued: (0..queued)
            .map(|n| executor.spawn(table, move || n))
            .collect(),
        gate,
        table,
        executor,
    }
}

#[test]
fn a_drain_answers_a_full_queue() {
    let busy = backlog(2, 300);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| busy.executor.shutdown(Shutdown::Drain(HANG)));
        busy.gate.open();
        let report = drain.join().unwrap();
        assert_eq!((report.abandoned, report.still_running), (0, 0));
    });
    assert!(busy.held.into_iter().all(|ticket| ticket.wait().is_ok()));
    for (n, ticket) in busy.queued.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
    assert_eq!(
        busy.executor.spawn(busy.table, || ()).refusal(),
        Some(SubmitError::ShuttingDown)
    );
}

/// Takes note of how many tasks a snapshot says to run.
struct Watcher(Weak<Executor>, Mutex<Vec<u64>>);

impl Wake for Watcher {
    fn wake(self: Arc<Self>) {
        let executor = self.0.upgrade().unwrap();
        let running = executor.snapshot().total.running;
        self.1.lock().unwrap().push(running);
    }
}

#[test]
fn what_a_shutdown_abandons_runs_at_no_time() {
    let mut busy = backlog(2, 50);
    let executor = Arc::new(busy.executor);
    let watcher = Arc::new(Watcher(Arc::downgrade(&executor), Mutex::default()));
    let waker = Waker::from(Arc::clone(&watcher));
    for ticket in &mut busy.queued {
        let polled = Pin::new(ticket).poll(&mut Polling::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let report = executor.shutdown(Shutdown::Abandon(Duration::ZERO));
    assert_eq!((report.abandoned, report.still_running), (50, 2));
    assert_eq!(*watcher.1.lock().unwrap(), [2; 50]);
}

/// Polls once with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    Pin::new(future).poll(&mut Polling::from_waker(Waker::noop()))
}

#[test]
fn a_shutdown_that_is_awaited_leaves_its_thread_to_those_whose_answers_it_drains() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let busy = backlog(2, 300);
    let report = runtime.block_on(async {
        let mut stopping = busy.executor.shutdown_async(Shutdown::Drain(HANG));
        assert!(poll_once(&mut stopping).is_pending(), "workers are held");
        let refusal = busy.executor.spawn(busy.table, || ()).refusal();
        assert_eq!(refusal, Some(SubmitError::ShuttingDown), "from the call on");
        // The clients are on the one thread that awaits the shutdown.
        let clients: Vec<_> = busy.queued.into_iter().map(tokio::spawn).collect();
        busy.gate.open();
        let report = stopping.await;
        for (n, client) in clients.into_iter().enumerate() {
            assert_eq!(client.await.unwrap(), Ok(n));
        }
        report
    });
    assert_eq!((report.abandoned, report.still_running), (0, 0));
    assert!(busy.held.into_iter().all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn a_shutdown_whose_future_is_dropped_ends_all_the_same() {
    for polls in [false, true] {
        let executor = executor(1, 1);
        let table = executor.add_closure_table("t", 1);
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let _held = hold(&executor, table, 1, &gate);
        let queued: Vec<_> = (0..100).map(|n| executor.spawn(table, move || n)).collect();
        let mut stopping = executor.shutdown_async(Shutdown::Drain(HANG));
        if polls {
            assert!(poll_once(&mut stopping).is_pending());
        }
        drop(stopping);
        gate.open();
        for (n, ticket) in queued.into_iter().enumerate() {
            assert_eq!(ticket.wait(), Ok(n), "the drain goes on");
        }
        let report = executor.shutdown(Shutdown::Drain(HANG));
        assert_eq!((report.abandoned, report.still_running), (0, 0));
    }
}

#[test]
fn an_executor_that_goes_before_its_shutdown_is_done_leaves_no_ticket_without_an_end() {
    let busy = backlog(1, 100);
    let stopping = busy.executor.shutdown_async(Shutdown::Drain(HANG));
    let dropped = std::thread::spawn(move || drop(busy.executor));
    for ticket in busy.queued {
        assert_eq!(ticket.wait(), Err(Error::ShutDown), "dropping abandons");
    }
    busy.gate.open();
    dropped.join().unwrap();
    assert!(busy.held.into_iter().all(|ticket| ticket.wait().is_ok()));
    assert_eq!(pollster::block_on(stopping).still_running, 0);
}

#[test]
fn an_awaited_shutdown_waits_for_the_tables_of_an_executor_that_has_gone() {
    let executor = Arc::new(executor(1, 1));
    let gone = Arc::new(AtomicBool::new(false));
    let goes = Arc::clone(&gone);
    let slow = move || {
        std::thread::sleep(Duration::from_millis(50));
        goes.store(true, Ordering::SeqCst);
        panic!("a table's destructor panics");
    };
    executor.add_table("slow to go", Departing(slow));
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (held, own) = (gate.clone(), Arc::clone(&executor));
    // The executor goes inside its own task, so nobody but the shutdown's thread waits for the worker.
    let task = executor.spawn(table, move || {
        held.wait();
        drop(own);
    });
    let stopping = executor.shutdown_async(Shutdown::Drain(HANG));
    drop(executor);
    gate.open();
    assert_eq!(pollster::block_on(stopping).still_running, 0);
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(task.wait(), Ok(()));
}

#[test]
fn a_dropped_future_of_a_shutdown_keeps_no_waker() {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let mut stopping = executor.shutdown_async(Shutdown::Drain(HANG));
    let waker = Arc::new(Nothing);
    let polled = Pin::new(&mut stopping).poll(&mut Polling::from_waker(&Arc::clone(&waker).into()));
    assert!(polled.is_pending());
    assert_eq!(Arc::strong_count(&waker), 2);
    drop(stopping);
    assert_eq!(Arc::strong_count(&waker), 1);
}

#[test]
fn an_abandoning_shutdown_ends_the_queue_and_waits_no_longer_than_its_bound() {
    let busy = backlog(1, 100);
    let report = busy
        .executor
        .shutdown(Shutdown::Abandon(Duration::from_millis(1)));
    assert_eq!((report.abandoned, report.still_running), (100, 1));
    for ticket in busy.queued {
        assert_eq!(ticket.wait(), Err(Error::ShutDown));
    }
    busy.gate.open();
    assert!(
        busy.held.into_iter().all(|ticket| ticket.wait().is_ok()),
        "what runs, finishes"
    );
    let total = busy.executor.snapshot().total;
    assert_eq!((total.accepted, total.done, total.cancelled), (101, 1, 100));
}

#[test]
fn a_drain_that_runs_out_of_time_abandons_the_rest() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let queued = executor.spawn(table, || 1);
    let report = executor.shutdown(Shutdown::Drain(Duration::from_millis(1)));
    assert_eq!((report.abandoned, report.still_running), (1, 1));
    assert_eq!(queued.wait(), Err(Error::ShutDown));
}

#[test]
fn the_last_reference_may_be_dropped_inside_a_task() {
    let executor = Arc::new(executor(1, 1));
    let table = executor.add_closure_table("t", 1);
    let (sent, received) = channel();
    let gate = Gate::default();
    let inner = Arc::clone(&executor);
    let waiting = gate.clone();
    executor
        .spawn(table, move || {
            waiting.wait();
            drop(inner);
            sent.send(()).unwrap();
        })
        .detach();
    drop(executor);
    gate.open();
    received
        .recv_timeout(HANG)
        .expect("the drop inside the task returns");
}

#[test]
fn a_drain_from_inside_a_task_drains() {
    let executor = Arc::new(executor(1, 2));
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let (started, starts) = channel();
    let (go, wait) = channel();
    let (inner, opens) = (Arc::clone(&executor), gate.clone());
    let closing = executor.spawn(table, move || {
        started.send(()).unwrap();
        wait.recv().unwrap();
        opens.open();
        inner.shutdown(Shutdown::Drain(HANG))
    });
    starts.recv_timeout(HANG).unwrap();
    let queued: Vec<_> = (0..50).map(|n| executor.spawn(table, move || n)).collect();
    go.send(()).unwrap();
    let report = closing.wait().unwrap();
    assert_eq!(
        (report.abandoned, report.still_running),
        (0, 1),
        "the other worker serves all fifty; its own is still in the task that asks"
    );
    for (n, ticket) in queued.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
    assert!(held.into_iter().all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn a_shutdown_from_the_remap_callback_returns_its_report() {
    let (sent, reports) = channel();
    let sent = Mutex::new(sent);
    let back: Arc<OnceLock<Weak<Executor>>> = Arc::default();
    let seen = Arc::clone(&back);
    let executor = builder(2, 1)
        .planner(restless())
        .on_remap(move |_| {
            let executor = seen.get().and_then(Weak::upgrade).unwrap();
            let report = executor.shutdown(Shutdown::Abandon(HANG));
            drop(executor);
            sent.lock().unwrap().send(report).unwrap();
        })
        .build()
        .unwrap();
    let executor = Arc::new(executor);
    back.set(Arc::downgrade(&executor)).unwrap();
    let uneven = neighbours(&executor);
    let report = crate::common::threads::scope(|scope| {
        // Until the shutdown refuses them.
        scope.spawn(|| {
            for &table in uneven.iter().cycle() {
                let task = executor.submit_fn(table, None, |work| work.add_bytes(1 << 24));
                match task.map(|ticket| ticket.wait()) {
                    Ok(Ok(()) | Err(Error::ShutDown)) => {}
                    Ok(Err(error)) => panic!("{error}"),
                    Err(refused) => {
                        assert_eq!(refused.reason, SubmitError::ShuttingDown);
                        return;
                    }
                }
            }
        });
        let report = reports.recv_timeout(HANG);
        executor.shutdown(Shutdown::Abandon(HANG));
        report
    });
    assert_eq!(report.map(|report| report.still_running), Ok(0));
}

/// Shuts down within a millisecond, and returns the report if that returned at all.
fn soon(executor: &Arc<Executor>) -> Option<ShutdownReport> {
    let (sent, report) = channel();
    let executor = Arc::clone(executor);
    std::thread::spawn(move || {
        let _ = sent.send(executor.shutdown(Shutdown::Abandon(Duration::from_millis(1))));
    });
    report.recv_timeout(HANG).ok()
}

/// A table whose destructor says that it runs, and then waits.
struct Lasting(Sender<()>, Gate);

impl Table for Lasting {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        8
    }

    fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        Ok(Vec::new())
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let _ = self.0.send(());
        self.1.wait();
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_removed_tables_destructor() {
    let executor = Arc::new(executor(1, 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (sent, dropped) = channel();
    let table = executor.add_table("t", Lasting(sent, gate.clone()));
    assert!(executor.remove_table(table).is_ok());
    dropped.recv_timeout(HANG).unwrap();
    let report = soon(&executor);
    gate.open();
    assert!(report.is_some(), "it waits for the destructor");
}

#[test]
fn a_shutdown_does_not_wait_for_the_remap_callback() {
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (sent, called) = channel();
    let (sent, waits) = (Mutex::new(sent), gate.clone());
    let executor = builder(2, 1)
        .planner(restless())
        .on_remap(move |_| {
            let _ = sent.lock().unwrap().send(());
            waits.wait();
        })
        .build()
        .unwrap();
    let executor = Arc::new(executor);
    let uneven = neighbours(&executor);
    for &table in uneven.iter().cycle() {
        let task = executor.submit_fn(table, None, |work| work.add_bytes(1 << 24));
        task.unwrap().wait().unwrap();
        if called.try_recv().is_ok() {
            break;
        }
    }
    let report = soon(&executor);
    gate.open();
    assert!(report.is_some(), "it waits for the callback");
}

/// Says that it was called, and then waits.
struct Blocks(Mutex<Sender<()>>, Gate);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
        self.1.wait();
    }
}

/// Polls a ticket that has no answer yet with a waker that calls `called` and waits for `gate`.
fn poll(ticket: &mut Ticket<()>, called: &Sender<()>, gate: &Gate) {
    let waker = Waker::from(Arc::new(Blocks(Mutex::new(called.clone()), gate.clone())));
    let polled = Pin::new(ticket).poll(&mut Polling::from_waker(&waker));
    assert!(polled.is_pending());
}

#[test]
fn a_waker_that_blocks_holds_up_neither_other_deadlines_nor_a_shutdown() {
    let executor = Arc::new(executor(1, 1));
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let waking = Gate::default();
    let _wake = OpenOnDrop(waking.clone());
    let mut tickets = Vec::new();
    for wakers in [1, 8, 64] {
        let deadline = Instant::now() + Duration::from_secs(1);
        let (sent, called) = channel();
        let fresh = wakers + 1 - tickets.len();
        for _ in 0..fresh {
            let task = executor.submit_fn(table, Some(deadline), |_| ());
            let mut ticket = task.unwrap();
            poll(&mut ticket, &sent, &waking);
            tickets.push(ticket);
        }
        for _ in 0..fresh {
            called
                .recv_timeout(HANG)
                .expect("a deadline is told while others' wakers block");
        }
    }
    gate.open();
    assert!(held.into_iter().all(|ticket| ticket.wait().is_ok()));
    let report = soon(&executor);
    waking.open();
    assert!(report.is_some(), "it waits for the wakers");
    for ticket in tickets {
        assert_eq!(ticket.wait(), Err(Error::Expired));
    }
}

#[test]
fn in_a_drain_an_idle_domain_serves_a_task_behind_a_long_one() {
    let executor = Arc::new(executor(2, 1));
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let queued = executor.spawn(table, || 1);
    let (sent, report) = channel();
    let draining = Arc::clone(&executor);
    let drain = std::thread::spawn(move || {
        let _ = sent.send(draining.shutdown(Shutdown::Drain(HANG)));
    });
    let mut queued = queued;
    let answer = queued.wait_for(HANG);
    gate.open();
    assert_eq!(answer, Some(Ok(1)));
    let report = report.recv_timeout(HANG).unwrap();
    assert_eq!((report.abandoned, report.still_running), (0, 0));
    assert!(held.into_iter().all(|ticket| ticket.wait().is_ok()));
    drain.join().unwrap();
}

#[test]
fn a_remap_callback_that_keeps_the_executor_goes_with_a_shutdown() {
    let kept: Arc<OnceLock<Arc<Executor>>> = Arc::default();
    let inner = Arc::clone(&kept);
    let executor = builder(2, 1)
        .on_remap(move |_| drop(inner.get().cloned()))
        .build()
        .unwrap();
    let executor = Arc::new(executor);
    let watched = Arc::downgrade(&executor);
    assert!(kept.set(Arc::clone(&executor)).is_ok());
    drop(kept);
    executor.shutdown(Shutdown::Abandon(HANG));
    drop(executor);
    assert!(watched.upgrade().is_none(), "the callback still keeps it");
}

/// A table whose destructor panics.
struct Fragile;

impl Table for Fragile {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        8
    }

    fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        Ok(Vec::new())
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("a destructor panics");
    }
}

#[test]
fn an_executor_that_goes_contains_its_tables_destructors() {
    let executor = executor(1, 1);
    let tables = [(); 4].map(|()| executor.add_table("t", Fragile));
    // Two go as removed ones, unless the balancer is quicker, and two as they are.
    assert!(executor.remove_table(tables[0]).is_ok());
    assert!(executor.remove_table(tables[1]).is_ok());
    drop(executor);
}
