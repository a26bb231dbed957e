//! What a search service relies on: every accepted task ends exactly once, and only as it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::lists::Lists;
use crate::common::{
    Gate, HANG, OpenOnDrop, accepted_in_time, builder, executor, full_at, hold, pass,
};
use chiplet::{Block, Context, Error, Query, SubmitError, TableId, TableOptions};

#[test]
fn a_refusal_says_how_long_the_task_would_have_waited() {
    const LIMIT: usize = 16;
    const TOOK: Duration = Duration::from_micros(300);
    let workers = 2;
    let executor = builder(1, workers).queue_limit(LIMIT).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let take = || pass(Instant::now() + TOOK);
    for _ in 0..100 {
        executor.spawn(table, take).wait().unwrap();
    }
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, workers as usize, &gate);
    let mut queued = Vec::new();
    let reason = loop {
        match executor.submit_fn(table, None, move |_| take()) {
            Ok(ticket) => queued.push(ticket),
            Err(refused) => break refused.reason,
        }
    };
    assert!(!queued.is_empty());
    // Each has taken at least so long, and so will those that wait.
    let least = TOOK * queued.len() as u32 / workers;
    let wait = reason.expected_wait().unwrap();
    assert!(wait >= least / 2, "{wait:?} for {least:?}");
    // A machine that is busy with other things makes tasks longer, but not all of them so much.
    assert!(wait <= least * 200, "{wait:?} for {least:?}");
    executor.remove_table(table).unwrap();
    let reason = executor.spawn(table, take).refusal().unwrap();
    assert_eq!(reason.expected_wait(), None, "{reason}");
}

#[test]
fn a_table_that_takes_no_tasks_says_so_and_counts_none() {
    let executor = executor(2, 1);
    let table = executor.add_table("t", Lists::default());
    let never = TableOptions::new().queue_limit(Some(0));
    executor.set_table_options(table, never).unwrap();
    let query = || Query::new([1.0]).top(1);
    let refused = [
        executor.spawn(table, || ()).refusal(),
        executor.search(table, query()).refusal(),
        executor.search_batch(table, vec![query(); 100]).refusal(),
        executor
            .search_block(table, Block::new(vec![1.0; 100], 1))
            .refusal(),
        executor
            .submit_over(&[table], &query())
            .err()
            .map(|of| of.error),
    ];
    assert_eq!(refused, [Some(SubmitError::TableClosed); 5]);
    assert_eq!(SubmitError::TableClosed.expected_wait(), None);
    assert_eq!(executor.snapshot().total.shed, 0);
    executor
        .set_table_options(table, TableOptions::new())
        .unwrap();
    assert_eq!(executor.search(table, query()).wait().unwrap().len(), 1);
}

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
    assert_eq!(ticket.wait(), Err(Error::Expired));
    // It is counted by the worker that finds it, which has done so before it answers the next.
    executor.spawn(table, || ()).wait().unwrap();
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done, total.expired), (2, 1, 1));
}

#[test]
fn over_the_bound_submit_says_overloaded_at_once_and_hands_the_closure_back() {
    let executor = builder(1, 1)
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
    assert_eq!(full_at(refused.reason), (None, 3));
    let code = refused.input;
    let other = executor.spawn(quiet, || 5);
    assert_eq!(
        other.refusal(),
        None,
        "a noisy table leaves room for its neighbour"
    );
    let full = executor.spawn(quiet, || 6);
    let reason = full.refusal().unwrap();
    assert_eq!(full_at(reason), (Some(0), 4));
    assert_eq!(full.wait(), Err(Error::Refused(reason)));

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
fn the_largest_bound_is_a_bound() {
    let executor = builder(1, 1).queue_limit(usize::MAX).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    assert_eq!(executor.spawn(table, || 1).wait(), Ok(1));
}

#[test]
fn cancelled_and_expired_tasks_make_room_in_a_full_queue() {
    let executor = builder(1, 1)
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
    let accepted = accepted_in_time(|| executor.submit_fn(table, None, |_| 1));
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
    // A ticket knows by itself that it has expired. Its task is counted once it is out of the queue.
    let begun = Instant::now();
    while executor.snapshot().total.expired == 0 && begun.elapsed() < HANG {
        std::thread::sleep(Duration::from_millis(1));
    }
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
    assert!(executor.remove_table(table).is_ok());
    assert!(executor.remove_table(table).is_err(), "it is gone");
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
fn a_table_of_another_executor_is_unknown() {
    let (own, other) = (executor(1, 1), executor(1, 1));
    // As many tables in both, and one of the other's has a slot that was used before.
    let tables = [&own, &other].map(|executor| {
        assert!(
            executor
                .remove_table(executor.add_closure_table("gone", 1))
                .is_ok()
        );
        [
            executor.add_table("lists", Lists::default()),
            executor.add_closure_table("t", 1),
        ]
    });
    for foreign in tables[1] {
        let query = Query::new([1.0]);
        let unknown = SubmitError::UnknownTable;
        let refused = own.submit(foreign, query.clone()).unwrap_err();
        assert_eq!((refused.reason, &refused.input), (unknown, &query));
        let refused = own.submit_fn(foreign, None, |_| 9).unwrap_err();
        assert_eq!(refused.reason, unknown);
        assert_eq!((refused.input)(&mut Context::default()), 9);
        assert_eq!(
            own.search(foreign, query).wait(),
            Err(Error::Refused(unknown))
        );
        assert_eq!(own.spawn(foreign, || ()).refusal(), Some(unknown));
        assert!(own.remove_table(foreign).is_err());
    }
    for (executor, [lists, closures]) in [(&own, tables[0]), (&other, tables[1])] {
        assert_eq!(
            executor
                .search(lists, Query::new([1.0]))
                .wait()
                .unwrap()
                .len(),
            Query::DEFAULT_TOP
        );
        assert_eq!(executor.spawn(closures, || 1).wait(), Ok(1));
    }
    let by_hand = TableId::default();
    assert_eq!(
        own.spawn(by_hand, || ()).refusal(),
        Some(SubmitError::UnknownTable)
    );
    assert_eq!(own.snapshot().total.accepted, 2);
}

#[test]
fn a_table_without_an_index_refuses_searches() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let refused = executor.submit(table, Query::new([1.0])).unwrap_err();
    assert_eq!(refused.reason, SubmitError::NotSearchable);
    assert_eq!(refused.input.vector(), [1.0], "the query comes back");
}
