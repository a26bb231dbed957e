//! Tasks that share out their own work: every part once, in order, on whoever is free, and contained like the task
//! itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::rules::Rules;
use crate::common::{Gate, HANG, OpenOnDrop, builder, closure_table, executor, hold, pass, still};
use chiplet::shutdown::Shutdown;
use chiplet::{
    Class, Context, Error, Executor, Neighbor, Query, SearchError, Table, TableId, TableOptions,
};

/// What a closure on `table` returns.
fn run<T: Send + 'static>(
    executor: &Executor,
    table: TableId,
    code: impl FnOnce(&mut Context) -> T + Send + 'static,
) -> T {
    let ticket = executor.submit_fn(table, None, code).unwrap();
    ticket.wait().unwrap()
}

#[test]
fn parts_run_side_by_side_and_come_back_in_order() {
    let executor = executor(1, 3);
    let table = executor.add_closure_table("t", 1);
    let inside = Arc::new(AtomicUsize::new(0));
    let results = run(&executor, table, move |context| {
        context.par_map(3, move |part, context| {
            inside.fetch_add(1, Ordering::SeqCst);
            let begun = Instant::now();
            while inside.load(Ordering::SeqCst) < 3 {
                assert!(begun.elapsed() < HANG, "three workers take a part each");
                std::thread::yield_now();
            }
            (part, context.domain().is_some())
        })
    });
    assert_eq!(results, [(0, true), (1, true), (2, true)]);
    let steals = executor.snapshot().domains[0].steals;
    assert_eq!((steals.own, steals.domain), (1, 2));
}

#[test]
fn who_helps_a_bulk_task_leaves_between_parts_for_an_interactive_one_and_comes_back() {
    let executor = executor(1, 2);
    let bulk = TableOptions::new().class(Class::Bulk);
    let bulk = closure_table(&executor, "bulk", bulk);
    let table = executor.add_closure_table("t", 1);
    let begun = Arc::new(AtomicUsize::new(0));
    let (free, held) = channel::<()>();
    let held = std::sync::Mutex::new(held);
    let (entered, inside) = channel();
    let (leave, left) = channel::<()>();
    let left = std::sync::Mutex::new(left);
    let counted = Arc::clone(&begun);
    let shared = executor.submit_fn(bulk, None, move |context: &mut Context| {
        let runner = std::thread::current().id();
        context.par_map(100, move |part, _| {
            let at = counted.fetch_add(1, Ordering::SeqCst);
            let is_runner = std::thread::current().id() == runner;
            // Each of the two workers stays in its first part until it is told to go on.
            if at < 2 {
                entered.send(()).unwrap();
                let gate = if is_runner { &held } else { &left };
                gate.lock().unwrap().recv_timeout(HANG).unwrap();
            }
            part
        })
    });
    for _ in 0..2 {
        inside.recv_timeout(HANG).unwrap();
    }
    let seen = Arc::clone(&begun);
    let urgent = executor.spawn(table, move || seen.load(Ordering::SeqCst));
    leave.send(()).unwrap();
    assert_eq!(urgent.wait(), Ok(2), "no other part is begun before it");
    // The bulk task's own worker is still in its first part, so its helper runs all others.
    let began = Instant::now();
    while begun.load(Ordering::SeqCst) < 100 {
        assert!(began.elapsed() < HANG, "the helper comes back");
        std::thread::yield_now();
    }
    free.send(()).unwrap();
    let results = shared.unwrap().wait().unwrap();
    assert!(results.into_iter().eq(0..100));
}

#[test]
fn a_worker_whose_siblings_are_busy_runs_all_parts_itself() {
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let held = hold(&executor, table, 1, &gate);
    let results = run(&executor, table, |context| {
        context.par_map(100, |part, _| part)
    });
    assert!(results.into_iter().eq(0..100));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
}

#[test]
fn every_rule_and_no_executor_at_all_give_the_same_results() {
    let squares = |context: &mut Context| context.par_map(20, |part, _| part * part);
    let expected: Vec<usize> = (0..20).map(|part| part * part).collect();
    assert_eq!(squares(&mut Context::default()), expected);
    for rules in Rules::ALL {
        let executor = rules.configure(builder(2, 2), still()).build().unwrap();
        let table = executor.add_closure_table("t", 1);
        for _ in 0..20 {
            assert_eq!(run(&executor, table, squares), expected, "{rules:?}");
        }
    }
    let none: Vec<()> = Context::default().par_map(0, |_, _| ());
    assert!(none.is_empty());
}

#[test]
fn parts_may_share_out_their_own_work_while_others_do_the_same() {
    let executor = Arc::new(executor(2, 3));
    let tables: Vec<_> = (0..4)
        .map(|n| executor.add_closure_table(format!("{n}"), 1))
        .collect();
    let sum = |context: &mut Context| -> usize {
        let sums = context.par_map(4, |part, context| {
            let inner = context.par_map(4, move |inner, context| {
                context.par_map(2, move |leaf, _| 100 * part + 10 * inner + leaf)
            });
            inner.into_iter().flatten().sum::<usize>()
        });
        sums.into_iter().sum()
    };
    let expected = sum(&mut Context::default());
    crate::common::threads::scope(|scope| {
        for &table in &tables {
            let executor = &executor;
            scope.spawn(move || {
                for _ in 0..200 {
                    assert_eq!(run(executor, table, sum), expected);
                }
            });
        }
    });
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done), (800, 800));
}

#[test]
fn bytes_that_parts_report_count_for_the_task() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    for _ in 0..50 {
        let bytes = run(&executor, table, |context| {
            context.par_map(10, |_, context| context.add_bytes(7));
            context.bytes()
        });
        assert_eq!(bytes, 70);
    }
}

#[test]
fn what_the_code_holds_is_dropped_when_the_parts_are_done() {
    let executor = executor(1, 3);
    let table = executor.add_closure_table("t", 1);
    for _ in 0..200 {
        let left = run(&executor, table, |context| {
            let data = Arc::new(5);
            let held = Arc::clone(&data);
            context.par_map(3, move |part, _| part + *held);
            Arc::strong_count(&data)
        });
        assert_eq!(left, 1);
    }
}

#[test]
fn a_panic_of_a_part_goes_on_in_the_task_when_all_others_have_ended() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let (begun, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, busy) = (Arc::clone(&begun), Arc::clone(&inside));
    let ticket = executor.submit_fn::<_, ()>(table, None, move |context| {
        let parts = {
            let busy = Arc::clone(&busy);
            move |part: usize, _: &mut Context| {
                count.fetch_add(1, Ordering::SeqCst);
                busy.fetch_add(1, Ordering::SeqCst);
                if part == 3 {
                    busy.fetch_sub(1, Ordering::SeqCst);
                    panic!("the fourth part fails");
                }
                pass(Instant::now() + Duration::from_millis(2));
                busy.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| context.par_map(1_000, parts)));
        assert_eq!(busy.load(Ordering::SeqCst), 0, "none runs any more");
        std::panic::resume_unwind(outcome.unwrap_err());
    });
    let outcome = ticket.unwrap().wait();
    assert_eq!(
        outcome,
        Err(Error::Panicked("the fourth part fails".into()))
    );
    assert!(begun.load(Ordering::SeqCst) < 1_000, "no more is begun");
    assert_eq!(executor.spawn(table, || 7).wait(), Ok(7));
    let total = executor.snapshot().total;
    assert_eq!((total.panicked, total.done), (1, 1));
}

#[test]
fn the_first_error_ends_the_parts() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let outcome = run(&executor, table, move |context| {
        context.try_par_map(1_000, move |part, _| {
            count.fetch_add(1, Ordering::SeqCst);
            pass(Instant::now() + Duration::from_millis(1));
            if part < 5 { Ok(part) } else { Err(part) }
        })
    });
    // Part 6 may have failed while part 5 ran.
    assert_eq!(outcome, Err(5));
    assert!(begun.load(Ordering::SeqCst) < 1_000);
}

#[test]
fn parts_that_ask_begin_no_more_after_the_deadline_or_without_a_ticket() {
    let executor = executor(1, 2);
    let table = executor.add_closure_table("t", 1);
    let endless = || {
        let (began, begins) = channel();
        let code = move |context: &mut Context| {
            let outcome = context.try_par_map(1 << 17, move |_, context| {
                context.check()?;
                let _ = began.send(());
                pass(Instant::now() + Duration::from_millis(1));
                Ok::<(), SearchError>(())
            });
            assert_eq!(outcome, Err(SearchError::Stopped));
        };
        (code, begins)
    };
    let (code, begins) = endless();
    let deadline = Instant::now() + Duration::from_millis(200);
    let late = executor.submit_fn(table, Some(deadline), code);
    // Whether it is told that it is late or given what the closure returns then: both may come first.
    let _ = late.unwrap().wait();
    begins.recv_timeout(HANG).unwrap();
    let (code, begins) = endless();
    let dropped = executor.submit_fn(table, None, code).unwrap();
    begins.recv_timeout(HANG).unwrap();
    drop(dropped);
    assert_eq!(executor.shutdown(Shutdown::Drain(HANG)).still_running, 0);
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.ended(), total.panicked), (2, 2, 0));
}

/// Compares with its rows in blocks, wherever there is a worker for one.
struct Blocks(Arc<[f32]>);

impl Table for Blocks {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn size_bytes(&self) -> u64 {
        4 * self.0.len() as u64
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        query.check(1)?;
        let (rows, to, k) = (Arc::clone(&self.0), query.vector()[0], query.k());
        let parts = context.try_par_map(rows.len().div_ceil(100), move |part, context| {
            context.check()?;
            let block = 100 * part..rows.len().min(100 * (part + 1));
            context.add_bytes(4 * block.len() as u64);
            let mut near: Vec<Neighbor> = block
                .map(|row| Neighbor {
                    id: row as u64,
                    distance: (rows[row] - to).abs(),
                })
                .collect();
            near.sort_unstable();
            near.truncate(k);
            Ok::<_, SearchError>(near)
        })?;
        Ok(chiplet::table::merge_nearest(k, parts))
    }
}

#[test]
fn a_table_of_ones_own_searches_on_its_whole_domain() {
    let rows: Arc<[f32]> = (0..1_050).map(|row| (row * 7_919 % 1_051) as f32).collect();
    let alone = Blocks(Arc::clone(&rows));
    let executor = executor(2, 2);
    let table = executor.add_table("blocks", Blocks(rows));
    for n in 0..300 {
        let query = Query::new([n as f32 * 3.5]);
        let expected = alone.search(&query, &mut Context::default()).unwrap();
        assert_eq!(executor.search(table, query).wait(), Ok(expected));
    }
    let refused = executor.search(table, Query::new([0.0]).top(0)).wait();
    assert_eq!(refused, Err(SearchError::ZeroTop.into()));
}
