//! Tasks that share out their own work, while workers come, go to sleep and leave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chiplet_table::{Context, SearchError};
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use super::{PATIENCE, any_builder, assert_complete, builder};
use crate::checks::checks;
use crate::{Error, Shutdown};

/// Results are whole and in their order, whoever ran the parts, and parts may share out again.
fn parts() {
    let executor = Arc::new(builder(1, 3).build().unwrap());
    let table = executor.add_closure_table("t", 1);
    let other = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || assert_eq!(executor.spawn(table, || 7).wait(), Ok(7)))
    };
    let whole = |context: &mut Context| {
        context.par_map(3, |part, context| {
            thread::yield_now();
            context.par_map(2, move |inner, _| {
                thread::yield_now();
                10 * part + inner
            })
        })
    };
    let ticket = executor.submit_fn(table, None, whole).unwrap();
    assert_eq!(
        ticket.wait(),
        Ok(vec![vec![0, 1], vec![10, 11], vec![20, 21]])
    );
    other.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
}

/// A part that panics, or fails, ends its task alone, once all parts that had begun have ended.
fn failing_part() {
    let executor = any_builder(1, 2).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let inside = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&inside);
    let panics = move |context: &mut Context| {
        let inside = Arc::clone(&seen);
        let code = move |part, _: &mut Context| {
            inside.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            // Quietly: a panic prints.
            if part == 1 {
                std::panic::resume_unwind(Box::new("the second part fails"));
            }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| context.par_map(3, code)));
        assert_eq!(seen.load(Ordering::SeqCst), 0, "all have ended");
        std::panic::resume_unwind(panic.unwrap_err());
    };
    let ticket = executor.submit_fn::<_, ()>(table, None, panics).unwrap();
    assert_eq!(
        ticket.wait(),
        Err(Error::Panicked("the second part fails".into()))
    );
    let fails = |context: &mut Context| {
        context.try_par_map(3, |part, _| {
            thread::yield_now();
            match part {
                0 => Ok(()),
                part => Err(part),
            }
        })
    };
    // A later part may have failed before the first of those that do was begun.
    let error = executor.submit_fn(table, None, fails).unwrap().wait();
    assert!(matches!(error, Ok(Err(1 | 2))));
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
}

/// A ticket is dropped while parts run that ask whether they are wanted.
fn dropped_parts() {
    let executor = builder(1, 2).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let parts = |context: &mut Context| -> Result<Vec<()>, SearchError> {
        context.try_par_map(3, |_, context| {
            thread::yield_now();
            context.check()
        })
    };
    let ticket = executor.submit_fn(table, None, parts).unwrap();
    thread::yield_now();
    drop(ticket);
    assert_eq!(executor.spawn(table, || 7).wait(), Ok(7));
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
}

checks! {
    parts_come_back_in_order: parts without LastPartWakes;
    a_failing_part_fails_its_task_alone: failing_part without LastPartWakes;
    nobody_waits_for_dropped_parts: dropped_parts without;
}
