//! What is counted while everything moves: snapshots that add up, and remaps only where homes are followed.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use chiplet::{Executor, Strategy};
use common::{Departing, HANG, builder, executor, neighbours, restless};

/// Returns after a tick of the balancer: it drops a table that was removed before.
fn tick(executor: &Executor) {
    let (sent, dropped) = channel();
    let table = executor.add_table("departing", Departing(move || sent.send(()).unwrap()));
    executor.remove_table(table).unwrap();
    let told = dropped.recv_timeout(HANG);
    told.expect("the balancer comes to its tick");
}

#[test]
fn snapshots_add_up_while_everything_moves() {
    let executor = executor(3, 2);
    let tables: Vec<_> = (0..6)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let stop = AtomicUsize::new(0);
    common::threads::scope(|scope| {
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

#[test]
fn a_baseline_that_follows_no_homes_reports_no_moves_of_them() {
    let remaps_in = |strategy, ticks: usize| {
        let executor = builder(2, 1)
            .planner(restless())
            .strategy(strategy)
            .build()
            .unwrap();
        let uneven = neighbours(&executor);
        let stop = AtomicBool::new(false);
        common::threads::scope(|scope| {
            scope.spawn(|| {
                for &table in uneven.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let task = executor.submit_fn(table, None, |work| work.add_bytes(1 << 24));
                    task.unwrap().wait().unwrap();
                }
            });
            let _stop = Departing(|| stop.store(true, Ordering::Relaxed));
            let passed = (0..ticks).find(|_| {
                tick(&executor);
                executor.snapshot().remaps > 0
            });
            (passed, executor.snapshot().remaps)
        })
    };
    let (ticks, _) = remaps_in(Strategy::CCD_AWARE, usize::MAX);
    let ticks = ticks.expect("uneven traffic is evened out");
    assert_eq!(remaps_in(Strategy::ROUND_ROBIN, 2 * ticks + 10), (None, 0));
}
