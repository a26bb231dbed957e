//! The report that comes with an answer: the counters' own figures, and where the work was done.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::common::lists::Lists;
use crate::common::{Gate, HANG, OpenOnDrop, builder, executor, hold, home, pass};
use chiplet::snapshot::Latencies;
use chiplet::{
    Class, DomainId, Error, Executor, LeftHome, Query, Report, StealConfig, TableOptions, Ticket,
};
use parking_lot::Mutex;

/// Whether `time` is the one value of the histogram, which keeps it to 7 %.
fn is_only_value(time: Duration, latencies: &Latencies) -> bool {
    let slack = time / 13 + Duration::from_micros(2);
    let below = latencies.count_at_most(time.saturating_sub(slack));
    (below, latencies.count_at_most(time + slack)) == (0, 1) && latencies.count() == 1
}

#[test]
fn the_figures_are_the_counters() {
    for polls in [false, true] {
        let executor = executor(1, 1);
        let (held, table) = (
            executor.add_closure_table("held", 1),
            executor.add_closure_table("t", 1),
        );
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let _held = hold(&executor, held, 1, &gate);
        let submitted = Instant::now();
        let ticket = executor.spawn(table, || {
            pass(Instant::now() + Duration::from_millis(3));
            7
        });
        pass(submitted + Duration::from_millis(20));
        gate.open();
        let reported = ticket.with_report();
        let (answer, report) = match polls {
            true => pollster::block_on(reported),
            false => reported.wait(),
        }
        .unwrap();
        assert_eq!(answer, 7);
        assert!(report.wait >= Duration::from_millis(10), "{report:?}");
        assert!(report.service >= Duration::from_millis(3), "{report:?}");
        assert!(report.wait + report.service <= submitted.elapsed());
        let Report {
            domain,
            units,
            left_home,
            ..
        } = report;
        assert_eq!((domain, units, left_home), (DomainId(0), 1, None));
        let snapshot = executor.snapshot();
        let counted = snapshot.tables.iter().find(|counted| counted.id == table);
        let counted = counted.unwrap();
        assert!(is_only_value(report.wait, &counted.wait));
        assert!(is_only_value(report.service, &counted.service));
    }
}

#[test]
fn a_cut_query_tells_its_units_and_that_siblings_are_at_home_too() {
    let executor = executor(1, 4);
    let threads = Arc::new(Mutex::new(Vec::<ThreadId>::new()));
    let [coarse, scans] = [(); 2].map(|()| Arc::clone(&threads));
    let lists = Lists::default()
        .on_coarse(move |_| *coarse.lock() = vec![thread::current().id()])
        .on_scan(move |_, _| scans.lock().push(thread::current().id()));
    let table = executor.add_table("lists", lists);
    let begun = Instant::now();
    // Siblings count as helpers once they are asleep, so the first queries may find none.
    loop {
        let ticket = executor.search(table, Query::new([3.0])).with_report();
        let (found, report) = ticket.wait().unwrap();
        assert_eq!(found.len(), Query::DEFAULT_TOP);
        let threads = std::mem::take(&mut *threads.lock());
        assert_eq!(report.units as usize, threads.len() - 1);
        let stolen = threads.iter().any(|&scan| scan != threads[0]);
        assert_eq!((report.left_home, report.domain), (None, DomainId(0)));
        assert_eq!(executor.snapshot().steals.domain > 0, stolen);
        if stolen {
            return;
        }
        assert!(begun.elapsed() < HANG, "no sibling ever helped");
    }
}

#[test]
fn what_another_domain_took_says_so() {
    let executor = executor(2, 2);
    let table = executor.add_closure_table("t", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 2, &gate);
    // Their own workers are held, so idle ones of the other domain come for them.
    let tickets: Vec<_> = (0..4).map(|_| executor.spawn(table, || ())).collect();
    let mut reports = Vec::new();
    for ticket in tickets {
        let mut ticket = ticket.with_report();
        let answer = ticket.wait_for(HANG).expect("it is run elsewhere");
        reports.push(answer.unwrap().1);
    }
    gate.open();
    // On a busy machine one of those was run elsewhere itself, and its place at home was free.
    reports.extend(
        held.into_iter()
            .map(|ticket| ticket.with_report().wait().unwrap().1),
    );
    let at_home = home(&executor, table);
    for report in &reports {
        assert_eq!(report.left_home.is_some(), report.domain.0 != at_home);
    }
    let stolen = counted(&executor, &reports)[3];
    assert!(stolen > 0);
}

/// How many tasks stayed at home, were rebalanced, found it full, and were stolen, by their reports, which are all that
/// there are. The counters say the same.
fn counted(executor: &Executor, reports: &[Report]) -> [u64; 4] {
    let of = |reasons: &[Option<LeftHome>]| {
        let reports = reports.iter();
        let reports = reports.filter(|report| reasons.contains(&report.left_home));
        reports.count() as u64
    };
    let stolen = [LeftHome::StolenByIdle, LeftHome::StolenByBusy].map(Some);
    let told = [
        of(&[None]),
        of(&[Some(LeftHome::Rebalanced)]),
        of(&[Some(LeftHome::Overflow)]),
        of(&stolen),
    ];
    let steals = executor.snapshot().steals;
    let counts = [
        steals.own,
        steals.rebalanced,
        steals.overflow,
        steals.remote,
    ];
    assert_eq!(counts, told);
    told
}

fn report<T>(ticket: Ticket<T>) -> Report {
    let told = ticket.with_report().wait_for(HANG).expect("it is run");
    told.unwrap().1
}

#[test]
fn what_its_home_had_no_room_for_says_so() {
    // Home holds one task besides those that run, so the others go on to queues whose workers are idle. What waits is
    // not worth a steal.
    let patient = StealConfig::new().max_wait(Duration::MAX);
    let executor = builder(4, 2).queue_limit(1).steal(patient);
    let executor = executor.build().unwrap();
    let table = executor.add_closure_table("t", 1);
    // Nor does a busy worker that looks at the home's queue before its own take bulk work from there.
    let bulk = TableOptions::new().class(Class::Bulk);
    executor.set_table_options(table, bulk).unwrap();
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    // One after the other: there is room for one.
    let held = [(); 2].map(|()| hold(&executor, table, 1, &gate));
    let waits = executor.spawn(table, || ());
    let at_home = home(&executor, table);
    let mut reports = Vec::new();
    while reports.len() < 300 {
        // None, if the workers of the others are not idle yet.
        if let Ok(ticket) = executor.submit_fn(table, None, |_| ()) {
            let report = report(ticket);
            assert_ne!(report.domain.0, at_home);
            reports.push(report);
        }
    }
    gate.open();
    reports.extend(held.into_iter().flatten().chain([waits]).map(report));
    assert_eq!(counted(&executor, &reports), [3, 0, 300, 0]);
}

#[test]
fn what_would_have_waited_longer_at_home_says_so() {
    let executor = executor(2, 1);
    let tables: Vec<_> = (0..12)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let (here, there): (Vec<_>, Vec<_>) = tables
        .into_iter()
        .partition(|&table| home(&executor, table) == 0);
    let busy = || pass(Instant::now() + Duration::from_millis(1));
    // So long do their tasks take.
    let warm = |&table| report(executor.spawn(table, busy));
    let mut reports: Vec<_> = here.iter().map(warm).collect();
    // No worker is idle, so that none steals; and no table asks for too much.
    let gates = [(); 2].map(|()| Gate::default());
    let _open = gates.each_ref().map(|gate| OpenOnDrop(gate.clone()));
    let mut tickets = hold(&executor, here[0], 1, &gates[0]);
    tickets.extend(hold(&executor, there[0], 1, &gates[1]));
    tickets.extend((0..18).map(|n| executor.spawn(here[n % here.len()], busy)));
    gates[1].open();
    gates[0].open();
    reports.extend(tickets.into_iter().map(report));
    let [_, rebalanced, overflow, _] = counted(&executor, &reports);
    assert!(rebalanced > 0 && overflow == 0, "{rebalanced} {overflow}");
}

#[test]
fn without_an_answer_there_is_no_report() {
    let executor = builder(1, 1).queue_limit(1).build().unwrap();
    let table = executor.add_table("lists", Lists::default());
    let panicked = executor.spawn(table, || panic!("as it should"));
    let told: Result<((), Report), Error> = panicked.with_report().wait();
    assert!(matches!(told, Err(Error::Panicked(_))), "{told:?}");
    let wrong = executor.search(table, Query::new([1.0, 2.0])).with_report();
    assert!(matches!(wrong.wait(), Err(Error::Search(_))));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let late = Query::new([1.0]).within(Duration::from_millis(5));
    let late = executor.search(table, late).with_report();
    let refused = executor.search(table, Query::new([1.0])).with_report();
    assert!(refused.is_finished() && refused.refusal().is_some());
    assert!(matches!(refused.wait(), Err(Error::Refused(_))));
    assert!(matches!(late.wait(), Err(Error::Expired)));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
}

#[test]
fn a_batch_has_one_report_for_all_its_parts() {
    let executor = executor(1, 2);
    let table = executor.add_table("lists", Lists::default());
    let batch = |count| (0..count).map(|n| Query::new([n as f32])).collect();
    let ticket = executor.search_batch(table, batch(150)).with_report();
    let (answers, report) = ticket.wait().unwrap();
    assert_eq!(answers.len(), 150);
    assert_eq!((report.units, report.left_home), (3, None));
    let counted = &executor.snapshot().tables[0];
    let first = counted.wait.percentile(0.0);
    assert!(report.wait <= first + first / 13 + Duration::from_micros(2));
    // The histogram has each part's time once for each of its 50 queries.
    let sum = counted.service.sum().as_secs_f64() / 50.0;
    let own = report.service.as_secs_f64();
    assert!((own - sum).abs() <= sum / 13.0 + 6e-6, "{own} {sum}");

    let empty = executor.search_batch(table, Vec::new()).with_report();
    let (answers, report) = empty.wait().unwrap();
    assert_eq!((answers.len(), report.units), (0, 0));
    assert_eq!(report.wait + report.service, Duration::ZERO);
}

#[test]
fn parts_that_come_too_late_are_not_in_the_report() {
    let executor = executor(1, 1);
    let table = executor.add_table("lists", Lists::default());
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let late = vec![Query::new([1.0]).within(Duration::from_millis(5))];
    let (answers, report) = executor
        .search_batch(table, late)
        .with_report()
        .wait()
        .unwrap();
    assert_eq!(answers, [Err(Error::Expired)]);
    assert_eq!((report.units, report.domain), (0, DomainId(0)));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
}
