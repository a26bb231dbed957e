//! What one domain's load means for the others: their own room, and their help.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    Gate, HANG, OpenOnDrop, accepted_in_time, builder, executor, full_at, hold, home,
};
use chiplet::StealConfig;

#[test]
fn an_overloaded_domain_does_not_keep_another_from_clearing_its_dead() {
    let executor = builder(2, 1)
        .queue_limit(8)
        .table_queue_limit(8)
        .build()
        .unwrap();
    let full = executor.add_closure_table("full", 1);
    let dead = executor.add_closure_table("dead", 1);
    assert_ne!(home(&executor, full), home(&executor, dead));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = [full, dead].map(|table| hold(&executor, table, 1, &gate));
    let _living: Vec<_> = (0..8).map(|_| executor.spawn(full, || ())).collect();
    for _ in 0..8 {
        drop(executor.spawn(dead, || ()));
    }
    let refused = executor.spawn(full, || ());
    // Every place is a cancelled task's.
    let _accepted = accepted_in_time(|| executor.submit_fn(dead, None, |_| ()));
    let full_at = full_at(refused.refusal().unwrap());
    assert_eq!(full_at, (Some(home(&executor, full)), 8));
}

#[test]
fn no_worker_sleeps_while_another_queue_is_worth_crossing_for() {
    // The workers of domains 0 and 1 are held and four tasks wait for each: the price, with three workers and a
    // cold factor of 2. Domain 2 gets idle and can spare its three workers, one for each queue and more.
    let patient = StealConfig::new().max_wait(Duration::MAX);
    let executor = builder(3, 3).steal(patient).build().unwrap();
    let tables: Vec<_> = (0..3)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let homes: BTreeSet<_> = tables.iter().map(|&table| home(&executor, table)).collect();
    assert_eq!(homes.len(), 3);
    let (busy, idle, taken) = (Gate::default(), Gate::default(), Gate::default());
    let _open = [&busy, &idle, &taken].map(|gate| OpenOnDrop(gate.clone()));
    let _held = [
        hold(&executor, tables[0], 3, &busy),
        hold(&executor, tables[1], 3, &busy),
        hold(&executor, tables[2], 3, &idle),
    ];
    let (sent, arrivals) = channel();
    let _queued: Vec<_> = (0..8)
        .map(|n| {
            let (sent, taken) = (sent.clone(), taken.clone());
            executor.spawn(tables[n % 2], move || {
                sent.send(n % 2).unwrap();
                taken.wait();
            })
        })
        .collect();
    idle.open();
    let mut helped = [(); 2].map(|()| arrivals.recv_timeout(HANG).expect("both workers help"));
    helped.sort_unstable();
    assert_eq!(helped, [0, 1]);
}

#[test]
fn all_idle_workers_of_the_others_help_a_flooded_domain() {
    let executor = executor(4, 4);
    let tables: Vec<_> = (0..4)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let homes: BTreeSet<_> = tables.iter().map(|&table| home(&executor, table)).collect();
    assert_eq!(homes.len(), 4);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    // All four workers of the flooded domain are busy without an end, and one of each other domain.
    let _endless: Vec<_> = [4, 1, 1, 1]
        .into_iter()
        .zip(&tables)
        .map(|(count, &table)| hold(&executor, table, count, &gate))
        .collect();
    // Nothing of it is refused, and nine tasks are under way at the same time. What waits for the last workers is less
    // than any price, and nobody submits any more: only its age tells that it should be taken.
    let _helped = hold(&executor, tables[0], 9, &gate);
    let flood: Vec<_> = (0..300)
        .map(|n| executor.spawn(tables[0], move || n))
        .collect();
    gate.open();
    for (n, ticket) in flood.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
}

#[test]
fn busy_workers_take_what_waits_behind_a_worker_that_is_stuck() {
    // One worker each. One is stuck until all that waits behind it has run; the other has more to do than that.
    let executor = executor(2, 1);
    let stuck = executor.add_closure_table("stuck", 1);
    let busy = executor.add_closure_table("busy", 1);
    assert_ne!(home(&executor, stuck), home(&executor, busy));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, stuck, 1, &gate);
    let behind: Vec<_> = (0..20).map(|n| executor.spawn(stuck, move || n)).collect();
    let (done, ends) = channel();
    let executor = &executor;
    // Ever more work for the other, so that it never is idle.
    thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            while ends.try_recv().is_err() && begun.elapsed() < HANG {
                let work = || {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_micros(100) {}
                };
                // Refused now and then, which leaves the queue full.
                let _ = executor.submit_fn(busy, None, move |_| work());
            }
        });
        for (n, mut ticket) in behind.into_iter().enumerate() {
            assert_eq!(ticket.wait_for(HANG), Some(Ok(n)));
        }
        done.send(()).unwrap();
    });
}
