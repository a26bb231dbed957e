//! The caller's code may panic in a destructor, and may call the executor from one: neither stops a worker or the
//! balancer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use crate::common::lists::Lists;
use crate::common::{Bomb, Departing, Gate, HANG, OpenOnDrop, executor, hold};
use chiplet::shutdown::Shutdown;
use chiplet::{Context, Error, Executor, Query};

#[test]
fn panicking_destructors_of_captures_and_answers_do_not_kill_a_worker() {
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
fn a_panicking_capture_of_an_expired_closure_does_not_kill_a_worker() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let bomb = Bomb;
    let expired = executor
        .submit_fn(table, Some(Instant::now()), move |_| drop(bomb))
        .unwrap();
    assert_eq!(expired.wait(), Err(Error::Expired));
    let mut next = executor.spawn(table, || 1);
    assert_eq!(next.wait_for(HANG), Some(Ok(1)));
}

#[test]
fn a_panicking_attachment_of_a_query_that_many_worked_on_kills_none_of_them() {
    let executor = executor(1, 3);
    let table = executor.add_table("lists", Lists::default());
    for _ in 0..200 {
        let query = Query::new([3.0]).attach(Arc::new(Bomb));
        let ticket = executor.submit(table, query).unwrap();
        // Whoever lets go of the query last drops it: perhaps a worker that finds an old invitation, perhaps this
        // thread.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ticket.wait())));
    }
    let all = executor.submit_fn(table, None, |context| context.par_map(3, |part, _| part));
    assert_eq!(all.unwrap().wait(), Ok(vec![0, 1, 2]));
    assert_eq!(executor.shutdown(Shutdown::Drain(HANG)).still_running, 0);
    assert_eq!(executor.snapshot().total.done, 201);
}

#[test]
fn panicking_destructors_of_a_tasks_parts_do_not_kill_a_worker() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    for _ in 0..50 {
        let captured = Bomb;
        let parts = move |context: &mut Context| {
            let results = context.par_map(4, move |part, _| {
                let _ = &captured;
                assert!(part != 2, "the third part fails");
                Bomb
            });
            drop(results);
        };
        let ticket = executor.submit_fn(table, None, parts).unwrap();
        let outcome = ticket.wait();
        assert_eq!(outcome, Err(Error::Panicked("the third part fails".into())));
    }
    assert_eq!(executor.spawn(table, || 3).wait(), Ok(3));
}

#[test]
fn a_panic_payload_that_panics_when_dropped_does_not_kill_a_worker() {
    struct Cruel;
    impl Drop for Cruel {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb);
        }
    }
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    // Nobody waits for the answer when it is there, so the worker drops it.
    executor.spawn(table, || Cruel).detach();
    gate.open();
    let mut next = executor.spawn(table, || 1);
    assert_eq!(next.wait_for(HANG), Some(Ok(1)));
}

#[test]
fn a_table_may_ask_the_executor_while_it_is_dropped() {
    let executor = Arc::new(executor(1, 1));
    let back: Arc<OnceLock<Weak<Executor>>> = Arc::default();
    back.set(Arc::downgrade(&executor)).unwrap();
    let (sent, answers) = channel();
    let asks = Departing(move || {
        let executor = back.get().and_then(Weak::upgrade).unwrap();
        let version = executor.placement().version();
        let accepted = executor.snapshot().total.accepted;
        drop(executor);
        sent.send((version > 0, accepted)).unwrap();
    });
    let id = executor.add_table("t", asks);
    executor.remove_table(id).unwrap();
    assert_eq!(answers.recv_timeout(HANG), Ok((true, 0)));
}

#[test]
fn a_table_whose_destructor_panics_does_not_stop_the_balancer() {
    let executor = executor(1, 1);
    let (sent, dropped) = channel();
    let told = sent.clone();
    let loud = Departing(move || {
        told.send("loud").unwrap();
        drop(Bomb);
    });
    let loud = executor.add_table("loud", loud);
    let quiet = Departing(move || sent.send("quiet").unwrap());
    let quiet = executor.add_table("quiet", quiet);
    executor.remove_table(loud).unwrap();
    assert_eq!(dropped.recv_timeout(HANG), Ok("loud"));
    executor.remove_table(quiet).unwrap();
    assert_eq!(dropped.recv_timeout(HANG), Ok("quiet"));
}
