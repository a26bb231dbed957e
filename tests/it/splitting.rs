//! Split queries: equal to unsplit ones, and cut short by a deadline, a dropped ticket or a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::lists::{LISTS, Lists, PER_LIST};
use crate::common::rules::Rules;
use crate::common::{Gate, HANG, OpenOnDrop, builder, hold, pass, still};
use chiplet::shutdown::Shutdown;
use chiplet::{Context, Error, Executor, Query, SearchError, SplitConfig, Table};

fn executor(rules: Rules, domains: u32, cores: u32) -> Executor {
    rules
        .configure(builder(domains, cores), still())
        .build()
        .unwrap()
}

#[test]
fn every_rule_gives_the_unsplit_answer() {
    for rules in Rules::ALL {
        let executor = executor(rules, 2, 3);
        let table = Lists::default();
        let queries: Vec<Query> = (0..200)
            .map(|n| Query::new([n as f32 / 2.0]).top(1 + n % 30))
            .collect();
        let direct: Vec<_> = queries
            .iter()
            .map(|query| table.search(query, &mut Context::default()).unwrap())
            .collect();
        let id = executor.add_table("lists", table);
        let tickets: Vec<_> = queries
            .into_iter()
            .map(|query| executor.submit(id, query).unwrap())
            .collect();
        for (ticket, direct) in tickets.into_iter().zip(direct) {
            assert_eq!(ticket.wait(), Ok(direct), "{rules:?}");
        }
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.done), (200, 200), "{rules:?}");
    }
}

#[test]
fn an_idle_domain_shares_one_query_and_a_single_worker_does_not_cut_it() {
    let scans = Arc::new(AtomicUsize::new(0));
    for (cores, split) in [(1, false), (4, true)] {
        scans.store(0, Ordering::SeqCst);
        let counted = Arc::clone(&scans);
        let executor = executor(Rules::Default, 1, cores);
        let lists = Lists::default().on_scan(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let id = executor.add_table("lists", lists);
        // Siblings count as helpers once they are asleep, so the first queries may find none.
        let cut = (0..1_000).any(|_| {
            scans.store(0, Ordering::SeqCst);
            executor.search(id, Query::new([3.0])).wait().unwrap();
            scans.load(Ordering::SeqCst) > 1
        });
        assert_eq!(cut, split, "{cores} cores");
    }
}

#[test]
fn a_deadline_that_passes_between_units_ends_the_query() {
    for rules in Rules::ALL {
        let deadline = Instant::now() + Duration::from_millis(50);
        let scans = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&scans);
        let lists = Lists::default().on_scan(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            pass(deadline);
        });
        let executor = executor(rules, 1, 2);
        let id = executor.add_table("lists", lists);
        let outcome = executor
            .search(id, Query::new([3.0]).deadline(deadline))
            .wait();
        assert_eq!(outcome, Err(Error::Expired));
        executor.shutdown(Shutdown::Drain(HANG));
        assert!(
            scans.load(Ordering::SeqCst) <= 2,
            "each worker scans at most the unit it had begun"
        );
        assert_eq!(executor.snapshot().total.expired, 1);
    }
}

#[test]
fn a_deadline_that_passes_before_an_uncut_scan_ends_the_query() {
    let deadline = Instant::now() + Duration::from_millis(50);
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let lists = Lists::default()
        .on_coarse(move |_| pass(deadline))
        .on_scan(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
    let executor = executor(Rules::Default, 1, 1);
    let id = executor.add_table("lists", lists);
    let outcome = executor
        .search(id, Query::new([3.0]).deadline(deadline))
        .wait();
    assert_eq!(outcome, Err(Error::Expired));
    executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!(scans.load(Ordering::SeqCst), 0);
}

#[test]
fn dropping_the_ticket_stops_a_running_query_at_its_next_unit() {
    for rules in Rules::ALL {
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let (arrived, arrivals) = channel();
        let scans = Arc::new(AtomicUsize::new(0));
        let (held, counted) = (gate.clone(), Arc::clone(&scans));
        let lists = Lists::default().on_scan(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            arrived.send(()).unwrap();
            held.wait();
        });
        let executor = executor(rules, 1, 2);
        let id = executor.add_table("lists", lists);
        let ticket = executor.search(id, Query::new([3.0]));
        arrivals.recv_timeout(HANG).unwrap();
        drop(ticket);
        gate.open();
        executor.shutdown(Shutdown::Drain(HANG));
        let total = executor.snapshot().total;
        assert_eq!((total.done, total.cancelled), (0, 1));
        assert!(scans.load(Ordering::SeqCst) <= 2);
    }
}

#[test]
fn a_query_whose_ticket_was_detached_runs_to_its_end() {
    for rules in Rules::ALL {
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let (arrived, arrivals) = channel();
        let scanned = Arc::new(AtomicUsize::new(0));
        let (held, counted) = (gate.clone(), Arc::clone(&scanned));
        let lists = Lists::default()
            .on_coarse(move |_| {
                arrived.send(()).unwrap();
                held.wait();
            })
            .on_scan(move |_, unit| {
                counted.fetch_add(unit.len(), Ordering::SeqCst);
            });
        let executor = executor(rules, 1, 2);
        let id = executor.add_table("lists", lists);
        let ticket = executor.search(id, Query::new([3.0]));
        arrivals.recv_timeout(HANG).unwrap();
        ticket.detach();
        gate.open();
        executor.shutdown(Shutdown::Drain(HANG));
        let total = executor.snapshot().total;
        assert_eq!((total.done, total.cancelled), (1, 0));
        assert_eq!(scanned.load(Ordering::SeqCst), LISTS as usize);
    }
}

#[test]
fn merge_is_given_the_parts_in_the_order_of_the_probes_however_they_finished() {
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (sent, merged) = channel();
    let lists = Lists::default()
        // Of two workers one waits in the first unit while the other scans the rest, one after the other.
        .on_scan(move |_, unit| {
            if unit.contains(&0) {
                gate.wait();
            } else if unit.end == LISTS as usize {
                gate.open();
            }
        })
        .on_merge(move |_, parts| {
            let first = |part: &Vec<chiplet::Neighbor>| {
                part.iter().map(|hit: &chiplet::Neighbor| hit.id).min()
            };
            sent.send(parts.iter().map(first).collect::<Vec<_>>())
                .unwrap();
        });
    let executor = executor(Rules::Default, 1, 2);
    let id = executor.add_table("lists", lists);
    let query = Query::new([3.0]).top((LISTS * PER_LIST) as usize);
    let mut ticket = executor.search(id, query);
    let answer = ticket.wait_for(HANG).expect("both workers take units");
    assert_eq!(answer.unwrap().len(), (LISTS * PER_LIST) as usize);
    let firsts = merged.try_recv().unwrap();
    assert!(firsts.len() > 2, "{firsts:?}");
    assert!(firsts.is_sorted(), "{firsts:?}");
}

#[test]
fn parts_are_merged_in_the_order_of_the_probes_however_large_their_units_were() {
    let (sent, merged) = channel();
    let lists = Lists::default().on_merge(move |_, parts| {
        let first = |part: &Vec<_>| part.iter().map(|hit: &chiplet::Neighbor| hit.id).min();
        sent.send(parts.iter().map(first).collect::<Vec<_>>())
            .unwrap();
    });
    let executor = executor(Rules::Default, 1, 4);
    let id = executor.add_table("lists", lists);
    for _ in 0..200 {
        let query = Query::new([3.0]).top((LISTS * PER_LIST) as usize);
        executor.search(id, query).wait().unwrap();
        let firsts = merged.try_recv().unwrap();
        assert!(firsts.is_sorted(), "{firsts:?}");
    }
}

/// Two workers, of which one is held by a task and the other inside the first unit of a query; then the first is let
/// go.
#[test]
fn a_sibling_that_becomes_free_joins_what_is_started_before_it_begins_something_new() {
    let (busy, gate) = (Gate::default(), Gate::default());
    let _open = (OpenOnDrop(busy.clone()), OpenOnDrop(gate.clone()));
    let (report, reports) = channel();
    let (held, scanned) = (gate.clone(), report.clone());
    let lists = Lists::default().on_scan(move |_, unit| {
        scanned.send(Some(unit.clone())).unwrap();
        if unit.start == 0 {
            held.wait();
        }
    });
    let executor = executor(Rules::Default, 1, 2);
    let id = executor.add_table("lists", lists);
    let first = hold(&executor, id, 1, &busy);
    let query = executor.search(id, Query::new([3.0]));
    // Nobody could help, so the unit is the largest that there is.
    let unit = reports.recv_timeout(HANG).unwrap();
    assert_eq!(unit, Some(0..4));
    let task = executor.spawn(id, move || report.send(None).unwrap());
    busy.open();
    let order: Vec<_> = (0..10)
        .map(|_| reports.recv_timeout(HANG).unwrap())
        .collect();
    let starts: Vec<_> = order
        .iter()
        .map(|unit| unit.as_ref().map(|unit| unit.start))
        .collect();
    // Nine units as large as one worker would have made them, and then the task.
    let mut expected: Vec<_> = (1..10).map(|unit| Some(4 * unit)).collect();
    expected.push(None);
    assert_eq!(starts, expected);
    gate.open();
    assert_eq!(query.wait().unwrap().len(), 10);
    task.wait().unwrap();
    first.into_iter().for_each(|ticket| ticket.wait().unwrap());
}

#[test]
fn a_panic_in_one_unit_fails_its_query_alone() {
    for rules in Rules::ALL {
        let turn = AtomicUsize::new(0);
        let lists = Lists::default().on_scan(move |_, _| {
            let turn = turn.fetch_add(1, Ordering::SeqCst);
            assert!(turn != 5, "the sixth scan fails");
        });
        let executor = executor(rules, 2, 2);
        let id = executor.add_table("lists", lists);
        let first = executor.search(id, Query::new([3.0])).wait();
        assert_eq!(first, Err(Error::Panicked("the sixth scan fails".into())));
        assert_eq!(
            executor.search(id, Query::new([3.0])).wait().unwrap().len(),
            10
        );
        let total = executor.snapshot().total;
        assert_eq!((total.panicked, total.done), (1, 1));
    }
}

/// Lists that two workers have to scan together, for what is merged of several units.
fn for_two(lists: Lists) -> Lists {
    let gate = Gate::default();
    // Of two workers one waits in the first unit while the other scans the rest.
    lists.on_scan(move |_, unit| {
        if unit.end == LISTS as usize {
            gate.open();
        } else if unit.contains(&0) {
            gate.wait();
        }
    })
}

#[test]
fn a_merge_that_fails_or_panics_fails_its_query_once() {
    for cores in [1, 2] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let lists = Lists::default().merging(move |query, parts, _| {
            assert_eq!(parts.len() > 1, cores > 1, "whether the query was cut");
            counted.fetch_add(1, Ordering::SeqCst);
            match query.k() {
                1 => Err(SearchError::Backend("row 7 is gone".into())),
                2 => panic!("the merge fails"),
                _ => Ok(()),
            }
        });
        let lists = if cores > 1 { for_two(lists) } else { lists };
        let executor = executor(Rules::Default, 1, cores);
        let id = executor.add_table("lists", lists);
        let ask = |k| executor.search(id, Query::new([3.0]).top(k)).wait();
        let refused = SearchError::Backend("row 7 is gone".into());
        assert_eq!(ask(1), Err(refused.into()));
        assert_eq!(ask(2), Err(Error::Panicked("the merge fails".into())));
        assert_eq!(ask(3).unwrap().len(), 3);
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.ended()), (3, 3), "{total:?}");
        assert_eq!((total.panicked, total.running), (1, 0), "{total:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_merge_knows_where_it_runs_and_that_its_deadline_has_passed() {
    for cores in [1, 2] {
        let deadline = Instant::now() + Duration::from_millis(200);
        let (ended, ends) = channel();
        let lists = Lists::default().merging(move |_, parts, context| {
            assert_eq!(parts.len() > 1, cores > 1, "whether the query was cut");
            assert!(context.domain().is_some());
            while !context.should_stop() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            context.check()
        });
        let lists = if cores > 1 { for_two(lists) } else { lists };
        let executor = executor(Rules::Default, 1, cores);
        let id = executor.add_table("lists", lists);
        let query = Query::new([3.0]).deadline(deadline);
        assert_eq!(executor.search(id, query).wait(), Err(Error::Expired));
        ends.recv_timeout(HANG).unwrap();
        executor.shutdown(Shutdown::Drain(HANG));
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.expired), (1, 1), "{total:?}");
    }
}

#[test]
fn what_a_merge_reads_is_traffic_of_its_table() {
    const READ: u64 = 1 << 40;
    for cores in [1, 2] {
        let lists = Lists::default().merging(move |_, parts, context| {
            assert_eq!(parts.len() > 1, cores > 1, "whether the query was cut");
            context.add_bytes(READ);
            Ok(())
        });
        let lists = if cores > 1 { for_two(lists) } else { lists };
        let executor = executor(Rules::Default, 1, cores);
        let id = executor.add_table("lists", lists);
        executor.search(id, Query::new([3.0])).wait().unwrap();
        // The balancer takes note of it once a second; of the lists themselves it would see 4 KB.
        let until = Instant::now() + HANG;
        while executor.snapshot().tables[0].traffic.slow < 1e6 {
            assert!(Instant::now() < until, "its bytes were not counted");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn what_the_table_refuses_is_the_tickets_error() {
    let executor = executor(Rules::Default, 1, 1);
    let id = executor.add_table("lists", Lists::default());
    let outcome = executor.search(id, Query::new([1.0, 2.0])).wait();
    assert_eq!(
        outcome,
        Err(Error::Search(SearchError::WrongDimension {
            expected: 1,
            got: 2
        }))
    );
    assert_eq!(
        executor.search(id, Query::new([1.0]).top(0)).wait(),
        Err(SearchError::ZeroTop.into())
    );
}

#[test]
fn a_minimum_unit_above_the_query_keeps_it_whole() {
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let lists = Lists::default().on_scan(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let split = SplitConfig::new().min_unit_bytes(Some(1 << 40));
    let executor = builder(1, 4).split(split).build().unwrap();
    let id = executor.add_table("lists", lists);
    for _ in 0..50 {
        executor.search(id, Query::new([3.0])).wait().unwrap();
    }
    assert_eq!(scans.load(Ordering::SeqCst), 50);
}
