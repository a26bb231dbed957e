//! Shutting down: from outside, from a task and from the remap callback, to the end or within a bound.

mod common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use chiplet::{Error, Executor, Shutdown, SubmitError};
use common::{Gate, HANG, OpenOnDrop, builder, executor, hold, neighbours, restless};

#[test]
fn a_drain_answers_a_full_queue() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 2, &gate);
    let queued: Vec<_> = (0..300).map(|n| executor.spawn(table, move || n)).collect();
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| executor.shutdown(Shutdown::Drain(HANG)));
        gate.open();
        let report = drain.join().unwrap();
        assert_eq!((report.abandoned, report.still_running), (0, 0));
    });
    assert!(held.into_iter().all(|ticket| ticket.wait().is_ok()));
    for (n, ticket) in queued.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
    assert_eq!(
        executor.spawn(table, || ()).refusal(),
        Some(SubmitError::ShuttingDown)
    );
}

#[test]
fn an_abandoning_shutdown_ends_the_queue_and_waits_no_longer_than_its_bound() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let queued: Vec<_> = (0..100).map(|n| executor.spawn(table, move || n)).collect();
    let report = executor.shutdown(Shutdown::Abandon(Duration::from_millis(1)));
    assert_eq!((report.abandoned, report.still_running), (100, 1));
    for ticket in queued {
        assert_eq!(ticket.wait(), Err(Error::ShutDown));
    }
    gate.open();
    assert!(
        held.into_iter().all(|ticket| ticket.wait().is_ok()),
        "what runs, finishes"
    );
    let total = executor.snapshot().total;
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
    let report = common::threads::scope(|scope| {
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
