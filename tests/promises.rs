//! What a search service relies on: every accepted task ends exactly once, and only as it should.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chiplet::{Error, Executor, Query, Shutdown, SubmitError, Topology};
use common::{Gate, HANG, OpenOnDrop, executor, hold, still};

#[test]
fn a_dropped_ticket_cancels_what_has_not_started() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    drop(executor.spawn(table, move || counted.fetch_add(1, Ordering::SeqCst)));
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    executor.spawn(table, || ()).wait().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let counts = executor.snapshot().tables[0].counts;
    assert_eq!(
        (counts.done, counts.cancelled, counts.queued, counts.running),
        (2, 1, 0, 0)
    );
}

#[test]
fn a_detached_ticket_lets_its_task_run() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let (sent, received) = std::sync::mpsc::channel();
    executor
        .spawn(table, move || sent.send(7).unwrap())
        .detach();
    assert_eq!(received.recv_timeout(HANG), Ok(7));
}

#[test]
fn a_passed_deadline_ends_a_task_unrun() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let past = Some(Instant::now());
    let ticket = executor
        .submit_fn(table, past, |_| panic!("must not run"))
        .unwrap();
    assert_eq!(ticket.wait().map(|()| ()), Err(Error::Expired));
    assert_eq!(executor.snapshot().total.expired, 1);
}

#[test]
fn over_the_bound_submit_says_overloaded_at_once_and_hands_the_closure_back() {
    let executor = Executor::builder()
        .topology(Topology::uniform(1, 1, 0))
        .planner(still())
        .queue_limit(4)
        .table_queue_limit(3)
        .build()
        .unwrap();
    let noisy = executor.add_closure_table("noisy", 1);
    let quiet = executor.add_closure_table("quiet", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, noisy, 1, &gate);
    let queued: Vec<_> = (0..3).map(|n| executor.spawn(noisy, move || n)).collect();

    let refused = executor.submit_fn(noisy, None, |_| 99).unwrap_err();
    assert_eq!(refused.reason, SubmitError::TableOverloaded { limit: 3 });
    let code = refused.input;
    let other = executor.spawn(quiet, || 5);
    assert_eq!(
        other.refusal(),
        None,
        "a noisy table leaves room for its neighbour"
    );
    let full = executor.spawn(quiet, || 6);
    assert_eq!(
        full.refusal(),
        Some(SubmitError::Overloaded {
            domain: 0,
            limit: 4
        })
    );
    assert_eq!(
        full.wait(),
        Err(Error::Refused(SubmitError::Overloaded {
            domain: 0,
            limit: 4
        }))
    );

    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    let answers: Vec<i32> = queued
        .into_iter()
        .map(|ticket| ticket.wait().unwrap())
        .collect();
    assert_eq!(answers, [0, 1, 2]);
    assert_eq!(other.wait(), Ok(5));
    let again = executor.submit_fn(noisy, None, code).unwrap();
    assert_eq!(
        again.wait(),
        Ok(99),
        "the closure that came back still runs"
    );
    let snapshot = executor.snapshot();
    assert_eq!(snapshot.total.shed, 2);
    assert_eq!(snapshot.total.accepted, snapshot.total.done);
}

#[test]
fn cancelled_and_expired_tasks_make_room_in_a_full_queue() {
    let executor = Executor::builder()
        .topology(Topology::uniform(1, 1, 0))
        .planner(still())
        .queue_limit(2)
        .table_queue_limit(2)
        .build()
        .unwrap();
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    drop(executor.spawn(table, || ()));
    let expired = executor
        .submit_fn(table, Some(Instant::now()), |_| ())
        .unwrap();
    let accepted = executor.spawn(table, || 1);
    assert_eq!(accepted.refusal(), None);
    assert_eq!(
        expired.wait(),
        Err(Error::Expired),
        "it ends without a worker"
    );
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    assert_eq!(accepted.wait(), Ok(1));
    let total = executor.snapshot().total;
    assert_eq!(
        (total.accepted, total.done, total.cancelled, total.expired),
        (4, 2, 1, 1)
    );
}

#[test]
fn a_panic_fails_its_own_task_and_nothing_else() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let tickets: Vec<_> = (0..200)
        .map(|n| {
            executor.spawn(table, move || {
                assert!(n % 3 != 0, "task {n} fails");
                n
            })
        })
        .collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        match ticket.wait() {
            Ok(answer) => assert_eq!(answer, n),
            Err(Error::Panicked(text)) => assert_eq!(text, format!("task {n} fails")),
            Err(other) => panic!("{other}"),
        }
    }
    let total = executor.snapshot().total;
    assert_eq!((total.done, total.panicked), (133, 67));
}

#[test]
fn panicking_destructors_of_captures_and_answers_do_not_kill_a_worker() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("a destructor panics");
            }
        }
    }
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    executor.spawn(table, || Bomb).detach();
    let bomb = Bomb;
    drop(executor.spawn(table, move || bomb));
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    assert_eq!(executor.spawn(table, || 3).wait(), Ok(3));
}

#[test]
fn waiting_for_the_own_executor_inside_a_task_is_refused() {
    let executor = Arc::new(executor(1, 1));
    let table = executor.add_closure_table("t", 1);
    let inner = Arc::clone(&executor);
    let outcome = executor
        .spawn(table, move || inner.spawn(table, || 1).wait())
        .wait()
        .unwrap();
    assert_eq!(outcome, Err(Error::WouldDeadlock));
}

#[test]
fn removing_a_table_answers_what_was_accepted_and_refuses_the_rest() {
    let executor = executor(2, 1);
    let table = executor.add_closure_table("leaving", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let queued = executor.spawn(table, || 11);
    assert!(executor.remove_table(table));
    assert!(!executor.remove_table(table), "it is gone");
    let late = executor.spawn(table, || 12);
    assert_eq!(late.wait(), Err(Error::Refused(SubmitError::UnknownTable)));
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    assert_eq!(queued.wait(), Ok(11));
    let successor = executor.add_closure_table("next", 1);
    assert_ne!(successor, table, "a reused slot has a new id");
    assert_eq!(
        executor.spawn(table, || 0).refusal(),
        Some(SubmitError::UnknownTable)
    );
    let snapshot = executor.snapshot();
    assert_eq!(
        snapshot.total.done, 2,
        "a removed table still counts in the totals"
    );
    assert_eq!(snapshot.tables.len(), 1);
}

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
    let (sent, received) = std::sync::mpsc::channel();
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
fn a_table_without_an_index_refuses_searches() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let refused = executor.submit(table, Query::new([1.0])).unwrap_err();
    assert_eq!(refused.reason, SubmitError::NotSearchable);
    assert_eq!(refused.input.vector(), [1.0], "the query comes back");
}

#[test]
fn a_snapshot_is_of_one_instant_while_everything_moves() {
    let executor = executor(3, 2);
    let tables: Vec<_> = (0..6)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let stop = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (executor, tables, stop) = (&executor, &tables, &stop);
            scope.spawn(move || {
                let mut turn = worker;
                while stop.load(Ordering::Relaxed) == 0 {
                    turn += 1;
                    let table = tables[turn % tables.len()];
                    let deadline = (turn % 7 == 0).then(Instant::now);
                    let ticket = executor.submit_fn(table, deadline, move |_| {
                        assert!(turn % 11 != 0, "a task that fails");
                    });
                    match ticket {
                        Ok(ticket) if turn % 5 == 0 => drop(ticket),
                        Ok(ticket) => drop(ticket.wait()),
                        Err(_) => {}
                    }
                }
            });
        }
        let mut last = 0;
        while last < 3_000 {
            let snapshot = executor.snapshot();
            for counts in snapshot
                .tables
                .iter()
                .map(|table| table.counts)
                .chain([snapshot.total])
            {
                assert_eq!(
                    counts.accepted,
                    counts.queued + counts.running + counts.ended()
                );
            }
            let running: u64 = snapshot
                .tables
                .iter()
                .map(|table| table.counts.running)
                .sum();
            assert!(running <= 6, "{running} tasks on 6 workers");
            let queued: u64 = snapshot.domains.iter().map(|domain| domain.queued).sum();
            assert!(queued <= snapshot.total.queued);
            last = snapshot.total.ended();
        }
        stop.store(1, Ordering::Relaxed);
    });
}
