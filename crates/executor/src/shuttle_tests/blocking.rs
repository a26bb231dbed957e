//! Tasks that block, each with a substitute in its worker's place.

use std::sync::Arc;

use chiplet_table::Context;
use shuttle::sync::mpsc::channel;
use shuttle::thread;

use super::{PATIENCE, assert_complete, builder};
use crate::checks::checks;
use crate::{Error, Shutdown};

/// On one worker, tasks that block until another has run: whoever has the worker's place runs it.
fn blocking() {
    let executor = Arc::new(builder(1, 1).build().unwrap());
    let table = executor.add_closure_table("t", 1);
    for n in 0..3 {
        let (done, waits) = channel();
        let blocked = executor.submit_fn(table, None, move |context: &mut Context| {
            context.block_in_place(|| waits.recv().unwrap())
        });
        executor
            .spawn(table, move || done.send(n).unwrap())
            .detach();
        assert_eq!(blocked.unwrap().wait(), Ok(n));
    }
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 6);
}

/// Tasks wait for others of the same executor while their core goes and comes back. None waits in vain: a wait that no
/// substitute covers is refused.
fn waiting_for_ones_own() {
    let executor = Arc::new(builder(2, 1).build().unwrap());
    let tables = [0, 1].map(|_| executor.add_closure_table("t", 1));
    let outer = tables.map(|table| {
        let inner = Arc::clone(&executor);
        let code = move |context: &mut Context| {
            let asked = inner.spawn(table, || 7);
            context.block_in_place(|| asked.wait())
        };
        executor.submit_fn(table, None, code).unwrap()
    });
    let restless = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            executor.restrict_to(&[1]).unwrap();
            executor.restrict_to(&[0, 1]).unwrap();
        })
    };
    for ticket in outer {
        let answer = ticket.wait().unwrap();
        assert!(matches!(answer, Ok(7) | Err(Error::WouldDeadlock)));
    }
    restless.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 4);
}

checks! {
    a_task_that_blocks_leaves_its_place_to_another: blocking without BlockCallsSubstitute StandbyTakesPlace;
    a_wait_for_ones_own_executor_ends: waiting_for_ones_own without;
}
