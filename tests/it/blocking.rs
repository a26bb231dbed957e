//! Tasks that wait for something other than a core: their cores serve others meanwhile.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::rules::Rules;
use crate::common::{HANG, executor};
use chiplet::shutdown::Shutdown;
use chiplet::{BuildError, Context, Error, Executor, PlannerConfig, Topology};

fn with_substitutes(workers: u32, each: usize) -> Executor {
    Executor::builder()
        .topology(Topology::uniform(1, workers, 32 << 20))
        .substitutes(each)
        .build()
        .unwrap()
}

#[test]
fn the_core_of_a_task_that_blocks_serves_others() {
    for rules in Rules::ALL {
        let builder = Executor::builder().topology(Topology::uniform(1, 1, 32 << 20));
        let executor = rules
            .configure(builder, PlannerConfig::default())
            .build()
            .unwrap();
        let table = executor.add_closure_table("t", 1);
        // Each round blocks the thread that has served the one before.
        for round in 0..4 {
            let (done, waits) = channel();
            let blocked = executor.submit_fn(table, None, move |context: &mut Context| {
                context.block_in_place(|| waits.recv_timeout(HANG))
            });
            let other = executor.spawn(table, move || done.send(round));
            assert_eq!(blocked.unwrap().wait().unwrap(), Ok(round), "{rules:?}");
            other.wait().unwrap().unwrap();
        }
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.done), (8, 8), "{rules:?}");
    }
}

#[test]
fn as_many_tasks_block_at_once_as_there_are_workers_and_substitutes() {
    let executor = with_substitutes(2, 2);
    let table = executor.add_closure_table("t", 1);
    let all = Arc::new(Barrier::new(6));
    let tickets: Vec<_> = (0..24)
        .map(|_| {
            let all = Arc::clone(&all);
            let code =
                move |context: &mut Context| context.block_in_place(|| all.wait()).is_leader();
            executor.submit_fn(table, None, code).unwrap()
        })
        .collect();
    let leaders = tickets.into_iter().filter_map(|ticket| ticket.wait().ok());
    assert_eq!(leaders.filter(|&leads| leads).count(), 4);
    assert_eq!(executor.workers().len(), 2);
    assert_eq!(executor.snapshot().domains[0].workers, 2);
}

#[test]
fn a_task_may_wait_for_another_while_a_substitute_has_its_place_and_not_else() {
    for (substitutes, wanted) in [(0, Err(Error::WouldDeadlock)), (1, Ok(7))] {
        let executor = Arc::new(with_substitutes(1, substitutes));
        let table = executor.add_closure_table("t", 1);
        let inner = Arc::clone(&executor);
        let outer = executor.submit_fn(table, None, move |context: &mut Context| {
            let asked = inner.spawn(table, || 7);
            context.block_in_place(|| asked.wait())
        });
        assert_eq!(outer.unwrap().wait().unwrap(), wanted);
    }
}

#[test]
fn when_no_substitute_is_free_a_wait_for_ones_own_executor_is_refused() {
    let executor = Arc::new(with_substitutes(1, 1));
    let table = executor.add_closure_table("t", 1);
    let inner = Arc::clone(&executor);
    let outer = executor.submit_fn(table, None, move |context: &mut Context| {
        let again = Arc::clone(&inner);
        let middle = inner.submit_fn(table, None, move |context: &mut Context| {
            let innermost = again.spawn(table, || 7);
            context.block_in_place(|| innermost.wait())
        });
        context.block_in_place(|| middle.unwrap().wait())
    });
    let answer = outer.unwrap().wait().unwrap();
    assert_eq!(answer, Ok(Err(Error::WouldDeadlock)));
    // Nothing hangs afterwards.
    assert_eq!(executor.spawn(table, || 8).wait(), Ok(8));
}

#[test]
fn a_task_whose_substitute_blocks_meanwhile_may_not_wait_for_another() {
    let executor = Arc::new(with_substitutes(1, 1));
    let table = executor.add_closure_table("t", 1);
    let inner = Arc::clone(&executor);
    let [(free_first, first), (free_second, second)] = [(); 2].map(|()| channel::<()>());
    let (answers, answer) = channel();
    let outer = executor.submit_fn(table, None, move |context: &mut Context| {
        // The substitute takes the other task meanwhile, and keeps the place.
        context.block_in_place(|| first.recv_timeout(HANG).unwrap());
        let asked = inner.spawn(table, || 7);
        answers
            .send(context.block_in_place(|| asked.wait()))
            .unwrap();
    });
    let (blocks, blocked) = channel();
    let other = executor.submit_fn(table, None, move |context: &mut Context| {
        context.block_in_place(|| {
            blocks.send(()).unwrap();
            second.recv_timeout(HANG).unwrap();
        });
    });
    blocked.recv_timeout(HANG).unwrap();
    free_first.send(()).unwrap();
    assert_eq!(answer.recv_timeout(HANG), Ok(Err(Error::WouldDeadlock)));
    free_second.send(()).unwrap();
    outer.unwrap().wait().unwrap();
    other.unwrap().wait().unwrap();
}

#[test]
fn time_that_a_task_blocks_counts_for_its_report_and_not_as_load() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let long = Duration::from_millis(400);
    let blocked = executor.submit_fn(table, None, move |context: &mut Context| {
        context.block_in_place(|| std::thread::sleep(long));
    });
    let report = blocked.unwrap().with_report().wait().unwrap().1;
    assert!(report.service >= long, "{report:?}");
    let busy = executor.snapshot().domains[0].busy;
    assert!(busy < long / 2, "{busy:?}");
}

#[test]
fn a_panic_while_it_blocks_ends_the_block() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    for _ in 0..3 {
        let blocked = executor.submit_fn(table, None, |context: &mut Context| {
            context.block_in_place(|| panic!("inside"));
        });
        assert!(matches!(blocked.unwrap().wait(), Err(Error::Panicked(_))));
    }
    // As many as there are threads may block again.
    let (done, waits) = channel();
    let blocked = executor.submit_fn(table, None, move |context: &mut Context| {
        context.block_in_place(|| waits.recv_timeout(HANG))
    });
    executor.spawn(table, move || done.send(1)).detach();
    assert_eq!(blocked.unwrap().wait().unwrap(), Ok(1));
}

#[test]
fn workers_whose_tasks_block_may_be_ordered_away_and_back() {
    let executor = executor(2, 2);
    let tables = [0, 1].map(|_| executor.add_closure_table("t", 1));
    for _ in 0..10 {
        let (free, held) = channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let blocked: Vec<_> = (0..8)
            .map(|n| {
                let held = Arc::clone(&held);
                let code = move |context: &mut Context| {
                    context.block_in_place(|| held.lock().unwrap().recv_timeout(HANG))
                };
                executor.submit_fn(tables[n % 2], None, code).unwrap()
            })
            .collect();
        executor.restrict_to(&[3]).unwrap();
        let quick: Vec<_> = (0..8)
            .map(|n| executor.spawn(tables[n % 2], move || n))
            .collect();
        for _ in &blocked {
            free.send(()).unwrap();
        }
        executor.restrict_to(&[0, 1, 2, 3]).unwrap();
        for ticket in blocked {
            assert_eq!(ticket.wait().unwrap(), Ok(()));
        }
        for (n, ticket) in quick.into_iter().enumerate() {
            assert_eq!(ticket.wait(), Ok(n));
        }
    }
    assert_eq!(executor.snapshot().total.done, 160);
    let report = executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!((report.abandoned, report.still_running), (0, 0));
}

#[test]
fn a_drain_waits_for_tasks_that_block_and_for_their_substitutes() {
    let executor = with_substitutes(1, 1);
    let table = executor.add_closure_table("t", 1);
    let (done, waits) = channel();
    let blocked = executor.submit_fn(table, None, move |context: &mut Context| {
        context.block_in_place(|| waits.recv_timeout(HANG))
    });
    // Behind it, and started only because it blocks.
    let other = executor.spawn(table, move || done.send(5));
    let report = executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!((report.abandoned, report.still_running), (0, 0));
    assert_eq!(blocked.unwrap().wait().unwrap(), Ok(5));
    assert!(other.wait().unwrap().is_ok());
}

/// Takes at least so many bytes of stack.
fn recurse(bytes: usize) -> usize {
    const FRAME: usize = 4 << 10;
    let frame = std::hint::black_box([1_u8; FRAME]);
    match bytes.checked_sub(FRAME) {
        None => 0,
        Some(left) => recurse(left) + usize::from(frame[left % FRAME]),
    }
}

#[test]
fn workers_and_their_substitutes_have_the_stack_that_was_asked_for() {
    const DEEP: usize = 8 << 20;
    let builder = |bytes| {
        let machine = Topology::uniform(1, 1, 32 << 20);
        Executor::builder().topology(machine).stack_size(bytes)
    };
    // Without optimization a frame takes several times what it holds.
    let executor = builder(8 * DEEP).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (done, waits) = channel();
    let code = move |context: &mut Context| {
        // The substitute is at work meanwhile.
        let other = context.block_in_place(|| waits.recv_timeout(HANG));
        (other, recurse(DEEP))
    };
    let blocked = executor.submit_fn(table, None, code).unwrap();
    executor
        .spawn(table, move || done.send(recurse(DEEP)))
        .detach();
    let (other, own) = blocked.wait().unwrap();
    assert_eq!((other, own), (Ok(DEEP >> 12), DEEP >> 12));
    // The ends of the setting.
    let small = builder(0).build().unwrap();
    let table = small.add_closure_table("t", 1);
    assert_eq!(small.spawn(table, || 7).wait(), Ok(7));
    let error = builder(usize::MAX).build().unwrap_err();
    assert!(matches!(error, BuildError::Spawn { .. }), "{error}");
}
