//! Everything at once under every strategy: tables come and go, tickets are kept, dropped and detached, tasks
//! expire and panic, queues overflow, homes move, and two threads shut down. Every accepted task ends exactly once.

mod common;

use std::time::Instant;

use chiplet::Executor;
use chiplet::shutdown::Shutdown;
use chiplet_baselines::Strategy;
use common::load::{Load, assert_adds_up};
use common::{HANG, builder, restless};

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

fn every_task_ends_once(strategy: Strategy, seed: u64, first: Shutdown) {
    let executor = strategy
        .configure(builder(3, 2), restless())
        .queue_limit(32)
        .build()
        .unwrap();
    let load = Load::new(executor, 12);
    common::threads::scope(|scope| {
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
        assert!(count > 0, "{strategy}: no task ended as {what}");
    }
}

#[test]
fn every_accepted_task_ends_once_while_two_drain() {
    for (seed, strategy) in Strategy::CHIPLETS.into_iter().enumerate() {
        every_task_ends_once(strategy, seed as u64, Shutdown::Drain(HANG));
    }
}

#[test]
fn every_accepted_task_ends_once_while_one_abandons_what_another_drains() {
    for (seed, strategy) in Strategy::CHIPLETS.into_iter().enumerate() {
        every_task_ends_once(strategy, 100 + seed as u64, Shutdown::Abandon(HANG));
    }
}
