//! What is counted while everything moves: snapshots that add up.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use common::executor;

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
