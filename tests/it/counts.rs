//! What is counted while everything moves: snapshots that add up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::common::executor;

#[test]
fn snapshots_add_up_while_everything_moves() {
    let executor = executor(3, 2);
    let tables: Vec<_> = (0..6)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let stop = AtomicUsize::new(0);
    crate::common::threads::scope(|scope| {
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
fn what_came_since_is_the_difference_and_what_is_so_now_stays() {
    let executor = executor(1, 2);
    let [kept, gone] = ["kept", "gone"].map(|name| executor.add_closure_table(name, 1));
    let run = |table, count: usize| {
        (0..count).for_each(|_| executor.spawn(table, || ()).wait().unwrap());
    };
    run(kept, 3);
    run(gone, 5);
    let first = executor.snapshot();
    executor.remove_table(gone).unwrap();
    let new = executor.add_closure_table("new", 1);
    run(kept, 2);
    run(new, 4);
    let now = executor.snapshot();
    let interval = now.since(&first);
    let of = |table| {
        let mut tables = interval.tables.iter();
        let table = tables.find(|snapshot| snapshot.id == table).unwrap();
        (table.counts.done, table.wait.count(), table.service.count())
    };
    assert_eq!((of(kept), of(new)), ((2, 2, 2), (4, 4, 4)));
    assert_eq!(interval.tables.len(), 2, "what was removed is left out");
    let total = interval.total;
    assert_eq!((total.accepted, total.done, total.queued), (6, 6, 0));
    let domain = &interval.domains[0];
    assert_eq!(
        (domain.done, domain.wait.count(), domain.workers),
        (6, 6, 2)
    );
    assert_eq!(interval.steals.own + interval.steals.domain, 6);
    assert!(domain.busy <= now.domains[0].busy);
    let nothing = now.since(&now);
    assert_eq!((nothing.total.accepted, nothing.steals.own), (0, 0));
    assert_eq!(nothing.tables[0].service.count(), 0);
}
