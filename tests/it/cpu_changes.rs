//! Cpus are taken away from a serving executor and given back: workers stand by, tables and queued tasks move, and
//! nothing is lost. On made-up machines, through `Executor::restrict_to`; what the kernel takes away goes the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use crate::common::lists::Lists;
use crate::common::rules::Rules;
use crate::common::{Gate, HANG, OpenOnDrop, builder, executor, hold, home, neighbours, still};
use chiplet::shutdown::Shutdown;
use chiplet::snapshot::RemapReason;
use chiplet::topology::{LevelChoice, TopologyError};
use chiplet::{Error, Executor, Query, SubmitError, Topology};

fn at_work(executor: &Executor) -> Vec<usize> {
    let workers = executor.workers();
    workers
        .iter()
        .filter(|worker| worker.at_work)
        .map(|worker| worker.index)
        .collect()
}

#[test]
fn what_waits_in_a_domain_that_goes_is_run_by_another() {
    let executor = executor(2, 2);
    let tables = neighbours(&executor);
    let (table, domain) = (tables[0], home(&executor, tables[0]));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 2, &gate);
    // Too few to be worth crossing for: without a move they wait for the held workers.
    let queued: Vec<_> = (0..2).map(|n| executor.spawn(table, move || n)).collect();

    let left: Vec<u32> = (0..4).filter(|cpu| cpu / 2 != domain).collect();
    executor.restrict_to(&left).unwrap();
    for (n, ticket) in queued.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n), "while the old workers are still held");
    }
    assert_ne!(home(&executor, table), domain);
    let new = executor.spawn(table, || std::thread::current().name().unwrap().to_owned());
    let new = new.wait().unwrap();
    assert!(!new.contains(&format!("-{domain}-")), "{new} is off duty");
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());

    let snapshot = executor.snapshot();
    let of_domain = |id: u32| {
        snapshot
            .domains
            .iter()
            .find(|domain| domain.id.0 == id)
            .unwrap()
    };
    assert_eq!(
        (of_domain(domain).workers, of_domain(1 - domain).workers),
        (0, 2)
    );
    assert_eq!((snapshot.total.done, snapshot.total.accepted), (5, 5));
}

#[test]
fn a_domain_that_comes_back_serves_again() {
    let executor = executor(2, 2);
    executor.restrict_to(&[2, 3]).unwrap();
    assert_eq!(at_work(&executor), [2, 3]);
    let table = executor.add_closure_table("added while domain 0 was away", 1);
    assert_eq!(home(&executor, table), 1);
    executor.restrict_to(&[0, 1]).unwrap();
    assert_eq!(at_work(&executor), [0, 1]);
    assert_eq!(home(&executor, table), 0);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 2, &gate);
    assert_eq!(executor.snapshot().domains[0].busy_workers, 2);
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    executor.restrict_to(&[0, 1, 2, 3]).unwrap();
    assert_eq!(at_work(&executor), [0, 1, 2, 3]);
}

#[test]
fn a_part_of_a_domain_keeps_its_tables_at_home() {
    let (send, events) = mpsc::channel();
    let executor = builder(2, 4)
        .on_remap(move |event| send.send(event.reason).unwrap())
        .build()
        .unwrap();
    let table = executor.add_closure_table("t", 1);
    executor.restrict_to(&[1, 4, 5, 6, 7]).unwrap();
    assert_eq!(at_work(&executor), [1, 4, 5, 6, 7]);
    assert_eq!(home(&executor, table), 0);
    assert!(events.try_recv().is_err(), "nothing had to move");
    executor.restrict_to(&[4, 5]).unwrap();
    let reason = events.recv_timeout(HANG).expect("the table had to move");
    assert_eq!(
        reason,
        RemapReason::Resized {
            workers_before: 5,
            workers_after: 2
        }
    );
    assert_eq!(executor.spawn(table, || 1).wait(), Ok(1));
}

/// Three CCDs of four cores under a quota of three CPUs: one domain has all workers, and keeps them while it can.
#[test]
fn workers_that_a_quota_has_packed_stay_in_their_domain() {
    let machine = (0..3).fold(Topology::builder(), |machine, _| {
        machine.domain(32 << 20, 4)
    });
    let machine = machine.quota(3_000).build().unwrap();
    let executor = Executor::builder().topology(machine).build().unwrap();
    let domains: Vec<u32> = (executor.workers().iter())
        .map(|worker| worker.domain.0)
        .collect();
    assert_eq!(domains, [0, 0, 0]);
    let all: Vec<u32> = (0..12).collect();
    // Other domains have cores for all three, and nobody to work there.
    executor.restrict_to(&all[2..]).unwrap();
    assert_eq!(at_work(&executor).len(), 2);
    executor.restrict_to(&all).unwrap();
    assert_eq!(at_work(&executor), [0, 1, 2]);
    // With nothing left at home all of them share what there is.
    executor.restrict_to(&all[4..]).unwrap();
    assert_eq!(at_work(&executor), [0, 1, 2]);
    let table = executor.add_closure_table("t", 1);
    assert_eq!(executor.spawn(table, || 1).wait(), Ok(1));
}

/// On this very machine, as only real cpus are pinned to.
#[test]
fn workers_leave_forbidden_cpus_even_where_none_of_theirs_is_left() {
    let executor = Executor::builder()
        .level(LevelChoice::L2)
        .max_workers(1)
        .build()
        .unwrap();
    let domains: Vec<Vec<u32>> = (executor.topology().domains().iter())
        .map(|domain| domain.cpus())
        .collect();
    let started_in = executor.workers()[0].domain;
    let elsewhere = (executor.topology().domains().iter())
        .position(|domain| domain.id != started_in)
        .map(|at| domains[at].clone());
    let Some(mut elsewhere) = elsewhere else {
        println!("skipped: this machine has one domain at level L2");
        return;
    };
    elsewhere.sort_unstable();
    assert_ne!(executor.workers()[0].granted, elsewhere);
    executor.restrict_to(&elsewhere).unwrap();
    let workers = executor.workers();
    assert_eq!((workers.len(), workers[0].at_work), (1, true));
    assert_eq!(workers[0].granted, elsewhere);
    let table = executor.add_closure_table("t", 1);
    let running_on = executor.spawn(table, chiplet_topology::pin::current_affinity);
    assert_eq!(running_on.wait().unwrap(), elsewhere);
}

#[test]
fn no_cpu_of_its_own_is_refused_and_changes_nothing() {
    let executor = executor(2, 2);
    let error = executor.restrict_to(&[17]).unwrap_err();
    assert!(
        matches!(error, TopologyError::NothingLeft { .. }),
        "{error}"
    );
    assert_eq!(at_work(&executor).len(), 4);
}

/// Submits without a pause while cpus come and go every few hundred microseconds.
fn nothing_is_lost(rules: Rules, how: Shutdown) {
    let executor = rules
        .configure(builder(3, 2), still())
        .queue_limit(64)
        .build()
        .unwrap();
    let tables: Vec<_> = (0..6)
        .map(|n| match n % 2 {
            0 => executor.add_closure_table(format!("t{n}"), 1),
            _ => executor.add_table(format!("t{n}"), Lists::default()),
        })
        .collect();
    let (ran, accepted) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    crate::common::threads::scope(|scope| {
        for client in 0..2 {
            let (executor, tables, ran) = (&executor, &tables, &ran);
            let (accepted, stop) = (&accepted, &stop);
            scope.spawn(move || {
                let mut tickets = Vec::new();
                for turn in client.. {
                    let table = tables[turn % tables.len()];
                    if turn % 2 == 0 {
                        let ran = Arc::clone(ran);
                        let code = move |_: &mut chiplet::Context| {
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        match executor.submit_fn(table, None, code) {
                            Ok(ticket) => tickets.push(ticket),
                            Err(refused) if refused.reason == SubmitError::ShuttingDown => break,
                            Err(_) => std::thread::yield_now(),
                        }
                    } else if let Ok(ticket) = executor.submit(table, Query::new([3.0])) {
                        ticket.detach();
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                    if tickets.len() > 40 || stop.load(Ordering::Relaxed) {
                        for ticket in tickets.drain(..) {
                            accepted.fetch_add(1, Ordering::Relaxed);
                            assert!(matches!(ticket.wait(), Ok(()) | Err(Error::ShutDown)));
                        }
                    }
                }
                accepted.fetch_add(tickets.len() as u64, Ordering::Relaxed);
                for ticket in tickets {
                    assert!(matches!(ticket.wait(), Ok(()) | Err(Error::ShutDown)));
                }
            });
        }
        let begun = Instant::now();
        for (turn, cpus) in [&[0, 1][..], &[2, 5], &[0, 1, 2, 3, 4, 5], &[4], &[1, 2, 3]]
            .into_iter()
            .cycle()
            .take(60)
            .enumerate()
        {
            executor.restrict_to(cpus).unwrap();
            assert_eq!(at_work(&executor).len(), cpus.len());
            // Each machine is served on before the next comes.
            while executor.snapshot().total.ended() < 20 * turn as u64 {
                assert!(
                    begun.elapsed() < HANG,
                    "{rules:?}: {:?}",
                    executor.snapshot()
                );
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        executor.restrict_to(&[2, 3]).unwrap();
        scope.spawn(|| executor.restrict_to(&[4, 5]).unwrap());
        let report = executor.shutdown(how);
        assert_eq!(report.still_running, 0);
    });
    let total = executor.snapshot().total;
    let accepted = accepted.into_inner();
    assert_eq!(
        (total.accepted, total.ended()),
        (accepted, accepted),
        "{rules:?}: {total:?}"
    );
    assert_eq!((total.queued, total.running), (0, 0));
}

#[test]
fn nothing_is_lost_while_cpus_come_and_go_until_a_drain() {
    for rules in Rules::ALL {
        nothing_is_lost(rules, Shutdown::Drain(HANG));
    }
}

#[test]
fn nothing_is_lost_while_cpus_come_and_go_until_the_rest_is_abandoned() {
    for rules in Rules::ALL {
        nothing_is_lost(rules, Shutdown::Abandon(HANG));
    }
}
