//! Everything at once under all rules: tables come and go, tickets are kept, dropped and detached, tasks
//! expire and panic, queues overflow, homes move, and two threads shut down. Every accepted task ends exactly once.

use std::time::Instant;

use crate::common::load::{Load, assert_adds_up};
use crate::common::rules::Rules;
use crate::common::{HANG, builder, restless};
use chiplet::Executor;
use chiplet::shutdown::Shutdown;

/// Tasks that must have ended before the shutdown.
const TASKS: u64 = 2_500;

/// Looks until enough tasks have ended; each look must add up.
fn watch(executor: &Executor) {
    let begun = Instant::now();
    loop {
        let snapshot = executor.snapshot();
        assert_adds_up(&snapshot);
        if snapshot.total.ended() >= TASKS {
            return;
        }
        assert!(begun.elapsed() < HANG, "tasks do not end: {snapshot:?}");
    }
}

fn every_task_ends_once(rules: Rules, seed: u64, first: Shutdown) {
    let executor = rules
        .configure(builder(3, 2), restless())
        .queue_limit(32)
        .build()
        .unwrap();
    let load = Load::new(executor, 12);
    crate::common::threads::scope(|scope| {
        for client in 0..3 {
            let load = &load;
            scope.spawn(move || load.client(3 * seed + client));
        }
        scope.spawn(|| load.steward(seed));
        watch(&load.executor);
        scope.spawn(|| load.executor.shutdown(first));
        load.executor.shutdown(Shutdown::Drain(HANG));
    });
    let total = load.settle().total;
    for (what, count) in [
        ("done", total.done),
        ("expired", total.expired),
        ("cancelled", total.cancelled),
        ("panicked", total.panicked),
        ("refused", total.shed),
    ] {
        assert!(count > 0, "{rules:?}: no task ended as {what}");
    }
}

#[test]
fn every_accepted_task_ends_once_while_two_drain() {
    for (seed, rules) in Rules::ALL.into_iter().enumerate() {
        every_task_ends_once(rules, seed as u64, Shutdown::Drain(HANG));
    }
}

#[test]
fn every_accepted_task_ends_once_while_one_abandons_what_another_drains() {
    for (seed, rules) in Rules::ALL.into_iter().enumerate() {
        every_task_ends_once(rules, 100 + seed as u64, Shutdown::Abandon(HANG));
    }
}
