//! Who may wait on a ticket: an async runtime, a plain thread, and a task of another executor.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Gate, HANG, OpenOnDrop, executor, hold};
use chiplet::Error;

#[test]
fn tokio_awaits_tickets_on_many_tasks_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let executor = Arc::new(executor(2, 2));
    let table = executor.add_closure_table("t", 1);
    let sum: u64 = runtime.block_on(async {
        let tasks: Vec<_> = (0..300_u64)
            .map(|n| {
                let executor = Arc::clone(&executor);
                tokio::spawn(async move { executor.spawn(table, move || n).await.unwrap() })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 299 * 300 / 2);
}

#[test]
fn a_tokio_timeout_drops_the_ticket_and_so_cancels_the_task() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    // The paused clock jumps to the timeout as soon as nothing else can happen.
    let outcome = runtime.block_on(async {
        let ticket = executor.spawn(table, || panic!("must not run"));
        tokio::time::timeout(Duration::from_secs(3), ticket)
            .await
            .map(|_| ())
    });
    assert!(outcome.is_err());
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    executor.spawn(table, || ()).wait().unwrap();
    assert_eq!(executor.snapshot().total.cancelled, 1);
}

#[test]
fn a_plain_thread_waits_with_and_without_a_limit() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let mut ticket = executor.spawn(table, || 8);
    assert_eq!(ticket.wait_for(Duration::ZERO), None);
    assert!(!ticket.is_finished());
    gate.open();
    assert_eq!(ticket.wait_for(HANG), Some(Ok(8)));
    for ticket in held {
        ticket.wait().unwrap();
    }
}

#[test]
fn the_longest_limit_is_no_limit() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let mut ticket = executor.spawn(table, || 4);
    assert_eq!(ticket.wait_for(Duration::MAX), Some(Ok(4)));
}

#[test]
fn a_task_of_another_executor_may_wait() {
    let outer = executor(1, 1);
    let inner = Arc::new(executor(1, 1));
    let front = outer.add_closure_table("front", 1);
    let back = inner.add_closure_table("back", 1);
    let searcher = Arc::clone(&inner);
    let answer = outer.spawn(front, move || {
        searcher.spawn(back, || 21).wait().map(|n| 2 * n)
    });
    assert_eq!(answer.wait(), Ok(Ok(42)));
}

#[test]
fn a_ticket_wakes_only_the_last_task_that_polled_it() {
    // Moving a ticket between tasks: the second must be woken though the first polled before.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let mut ticket = executor.spawn(table, || 5);
    let answer: Result<i32, Error> = runtime.block_on(async {
        let first = std::future::poll_fn(|context| {
            let poll = std::pin::Pin::new(&mut ticket).poll(context);
            std::task::Poll::Ready(poll.is_pending())
        });
        assert!(first.await);
        let second = tokio::spawn(ticket);
        gate.open();
        second.await.unwrap()
    });
    assert_eq!(answer, Ok(5));
    for ticket in held {
        ticket.wait().unwrap();
    }
}
