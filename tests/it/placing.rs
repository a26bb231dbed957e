//! Tables live where the time that they ask for finds room, whatever bytes they report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::rules::Rules;
use crate::common::{Departing, HANG, builder, home, neighbours, restless};
use chiplet::{Executor, TableId};

/// Takes a while and reads nothing.
fn long() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Whether `there` comes true while `client` is called over and over.
fn comes_true(client: impl Fn() + Sync, there: impl Fn() -> bool) -> bool {
    let stop = AtomicBool::new(false);
    crate::common::threads::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                client();
            }
        });
        let _stop = Departing(|| stop.store(true, Ordering::Relaxed));
        let begun = Instant::now();
        while !there() {
            if begun.elapsed() > HANG {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    })
}

/// Returns once the balancer has looked at what was used: it then drops a removed table's index.
fn a_tick_passes(executor: &Executor) {
    let (dropped, drops) = channel();
    let gone = executor.add_table("gone", Departing(move || dropped.send(()).unwrap()));
    executor.remove_table(gone).unwrap();
    drops.recv_timeout(HANG).expect("the balancer ticks");
}

/// Of four tables on two domains, two on each: those on domain 0 and those on domain 1.
fn pairs(executor: &Executor) -> (Vec<TableId>, Vec<TableId>) {
    let first = neighbours(executor);
    let placement = executor.placement();
    let others = placement.iter().map(|(table, _)| table);
    let others = others.filter(|table| !first.contains(table)).collect();
    (first, others)
}

fn apart(executor: &Executor, tables: &[TableId]) -> bool {
    home(executor, tables[0]) != home(executor, tables[1])
}

/// One pair takes long and reports no bytes, the other is quick and reads much. By time the first is pulled apart, by
/// bytes the second.
#[test]
fn tables_are_placed_by_what_the_setting_says() {
    for (rules, by_time) in [(Rules::Default, true), (Rules::ByBytes, false)] {
        let executor = rules.configure(builder(2, 1), restless()).build().unwrap();
        let (slow, quick) = pairs(&executor);
        let client = || {
            let mut tickets = Vec::new();
            for (tables, bytes) in [(&slow, 0), (&quick, 1 << 30)] {
                for &table in tables {
                    let task = executor.submit_fn(table, None, move |context| {
                        context.add_bytes(bytes);
                        if bytes == 0 {
                            long();
                        }
                    });
                    tickets.push(task.unwrap());
                }
            }
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        };
        let pulled_apart = if by_time { &slow } else { &quick };
        assert!(
            comes_true(client, || apart(&executor, pulled_apart)),
            "{rules:?}"
        );
    }
}

#[test]
fn what_was_refused_counts_as_load() {
    // One worker cannot be busy for more than its time, so what exceeds that was refused.
    let executor = builder(1, 1)
        .planner(restless())
        .queue_limit(2)
        .build()
        .unwrap();
    let table = executor.add_closure_table("flooded", 1);
    let client = || {
        if let Ok(ticket) = executor.submit_fn(table, None, |_| long()) {
            ticket.detach();
        } else {
            std::thread::yield_now();
        }
    };
    let load = || executor.snapshot().tables[0].load.fast;
    assert!(comes_true(client, || load() > 2.0), "{}", load());
}

#[test]
fn what_expired_before_it_started_counts_as_load() {
    let executor = builder(1, 1).planner(restless()).build().unwrap();
    let table = executor.add_closure_table("late", 1);
    let client = || {
        let deadline = Instant::now() + Duration::from_millis(6);
        // The queue takes all of them, and the worker has time for few.
        let tickets: Vec<_> = (0..12)
            .map(|_| {
                executor
                    .submit_fn(table, Some(deadline), |_| long())
                    .unwrap()
            })
            .collect();
        for ticket in tickets {
            drop(ticket.wait());
        }
    };
    let load = || executor.snapshot().tables[0].load.fast;
    assert!(comes_true(client, || load() > 2.0), "{}", load());
}

#[test]
fn while_placement_is_held_no_time_passes_for_it() {
    let executor = builder(2, 1).planner(restless()).build().unwrap();
    let table = neighbours(&executor)[0];
    let load = || {
        let snapshot = executor.snapshot();
        let found = snapshot.tables.iter().find(|found| found.id == table);
        found.expect("the table is there").load.fast
    };
    let busy = comes_true(
        || executor.spawn(table, long).wait().unwrap(),
        || load() > 0.0,
    );
    assert!(busy);
    executor.hold_placement(true);
    let held = load();
    // Long against the windows of these tests, for which no tick tells that time has passed.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(load(), held);
    executor.hold_placement(false);
    assert!(comes_true(
        || std::thread::sleep(Duration::from_millis(1)),
        || load() < held / 2.0
    ));
}

#[test]
fn what_is_used_while_placement_is_held_is_left_out() {
    let executor = builder(2, 1)
        .planner(restless())
        .queue_limit(2)
        .build()
        .unwrap();
    let (busy, _) = pairs(&executor);
    let remaps = executor.snapshot().remaps;
    executor.hold_placement(true);
    let done = || executor.snapshot().total.done;
    // Long against the windows of these tests, and some of it is refused.
    let flood = || {
        for &table in &busy {
            match executor.submit_fn(table, None, |_| long()) {
                Ok(ticket) => ticket.detach(),
                Err(_) => std::thread::yield_now(),
            }
        }
    };
    assert!(comes_true(flood, || done() >= 500));
    let idle = || {
        let total = executor.snapshot().total;
        total.queued + total.running == 0
    };
    assert!(comes_true(std::thread::yield_now, idle));
    executor.hold_placement(false);
    let loads = || {
        let tables = executor.snapshot().tables;
        tables.iter().map(|table| table.load.fast).sum::<f64>()
    };
    // What was used is nobody's load, and nothing moves for it.
    for _ in 0..30 {
        assert_eq!(loads(), 0.0, "in workers' time");
        a_tick_passes(&executor);
    }
    assert_eq!(executor.snapshot().remaps, remaps);
}
