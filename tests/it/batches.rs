//! Batches: answers as one by one, in order, behind one ticket, and every query ends exactly once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::hooked::{DIM, Hooked, rows};
use crate::common::lists::Lists;
use crate::common::{
    Departing, Gate, HANG, OpenOnDrop, accepted_in_time, builder, executor, full_at, hold, pass,
};
use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::ticket::Answers;
use chiplet::{
    Context, Error, Executor, Filter, Neighbor, Query, SearchError, SubmitError, Table, TableId,
    TableOptions,
};

/// Queries that differ in all that can be asked for; every 17th is refused.
fn mixed(count: usize) -> Vec<Query> {
    let query = |n: usize| {
        let x = (n * 331 % 1201) as f32;
        let mut query = Query::new([x, 1200.0 - x, x / 2.0, 3.0])
            .top(1 + n % 7)
            .ef(10 + n % 50);
        if n.is_multiple_of(3) {
            query = query.filter(Filter::matching(move |id| id % 2 == n as u64 % 2));
        }
        if n.is_multiple_of(5) {
            query = query.radius(1e5);
        }
        match n % 17 {
            13 => query.top(0),
            _ => query,
        }
    };
    (0..count).map(query).collect()
}

/// Each query's own ticket.
fn one_by_one(executor: &Executor, table: TableId, queries: &[Query]) -> Answers {
    let submit = |query: &Query| executor.search(table, query.clone()).wait();
    queries.iter().map(submit).collect()
}

#[test]
fn answers_are_those_of_single_queries() {
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    for (domains, cores) in [(1, 1), (1, 3), (2, 2)] {
        let executor = executor(domains, cores);
        let tables = [
            executor.add_table("hnsw", HnswTable::build(&rows(600), DIM, &config).unwrap()),
            executor.add_table(
                "flat",
                FlatTable::build(rows(300), DIM, Metric::L2).unwrap(),
            ),
        ];
        for table in tables {
            for count in [1, 2, 63, 64, 65, 200] {
                let queries = mixed(count);
                let expected = one_by_one(&executor, table, &queries);
                let answers = executor.search_batch(table, queries).wait().unwrap();
                assert_eq!(answers, expected, "{count} queries");
                if count > 13 {
                    let refused = Err(Error::Search(SearchError::ZeroTop));
                    assert_eq!(answers[13], refused, "its own error, amid the others");
                }
            }
        }
        let snapshot = executor.snapshot();
        let total = snapshot.total;
        let asked = 2 * 2 * (1 + 2 + 63 + 64 + 65 + 200);
        assert_eq!((total.accepted, total.done), (asked, asked));
        for table in &snapshot.tables {
            assert_eq!(table.wait.count(), asked / 2, "a query counts, not a part");
        }
    }
}

#[test]
fn a_table_that_can_be_cut_is_searched_whole() {
    let executor = executor(1, 2);
    let table = executor.add_table("lists", Lists::default());
    let queries: Vec<_> = (0..20).map(|n| Query::new([n as f32]).top(n + 1)).collect();
    let expected = one_by_one(&executor, table, &queries);
    let before = executor.snapshot().steals;
    let answers = executor.search_batch(table, queries).wait().unwrap();
    assert_eq!(answers, expected);
    let after = executor.snapshot().steals;
    let all = |steals: chiplet::snapshot::Steals| {
        steals.own + steals.domain + steals.remote + steals.rebalanced + steals.overflow
    };
    assert_eq!(all(after) - all(before), 2, "a part for each worker");
}

fn numbered(count: usize) -> Vec<Query> {
    (0..count).map(|n| Query::new([n as f32])).collect()
}

/// The numbers found, and how the others ended.
fn ids(answers: Answers) -> Vec<Result<u64, Error>> {
    let id = |answer: Result<Vec<Neighbor>, Error>| answer.map(|found| found[0].id);
    answers.into_iter().map(id).collect()
}

#[test]
fn bounds_hold_for_all_parts_or_none() {
    let executor = builder(1, 2)
        .queue_limit(3)
        .table_queue_limit(2)
        .build()
        .unwrap();
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let [other, third] = ["other", "third"].map(|name| executor.add_closure_table(name, 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, other, 2, &gate);
    let queued = executor.search(table, Query::new([7.0]));
    let refused = executor.submit_batch(table, numbered(2)).unwrap_err();
    assert_eq!(full_at(refused.reason), (None, 2));
    assert_eq!(refused.input, numbered(2), "the queries come back");
    // The last place is for a table of which nothing waits.
    let others = [other, third].map(|table| executor.spawn(table, || ()));
    let ticket = executor.search_batch(table, numbered(5));
    let full = ticket.refusal().unwrap();
    assert_eq!(full_at(full), (Some(0), 3));
    assert_eq!(ticket.wait(), Err(Error::Refused(full)));
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.queued, total.shed), (5, 3, 7));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    others.into_iter().for_each(|ticket| ticket.wait().unwrap());
    queued.wait().unwrap();

    let again = executor.submit_batch(table, refused.input).unwrap();
    assert_eq!(ids(again.wait().unwrap()), [Ok(0), Ok(1)]);
    let most = executor.search_batch(table, numbered(128));
    assert_eq!(most.wait().unwrap().len(), 128, "two parts");
    let total = executor.snapshot().total;
    assert_eq!(total.accepted, total.done);
}

#[test]
fn a_batch_is_cut_into_no_more_parts_than_a_small_limit_allows() {
    for (queue, own) in [(4, 4), (8, 3), (1, 1)] {
        let executor = builder(1, 8)
            .queue_limit(queue)
            .table_queue_limit(own)
            .build()
            .unwrap();
        let table = executor.add_table("t", Hooked(|_| (), 1));
        for count in [4, 5, 8, 64] {
            let batch = executor.submit_batch(table, numbered(count)).unwrap();
            assert_eq!(batch.wait().unwrap().len(), count);
        }
    }
}

#[test]
fn a_batch_that_no_queue_can_hold_is_fed_to_it() {
    for (queue, own) in [
        (1, None),
        (4, None),
        (512, None),
        (512, Some(1)),
        (4, Some(3)),
    ] {
        let executor = builder(1, 2).queue_limit(queue).build().unwrap();
        let table = executor.add_table("t", Hooked(|_| (), 1));
        let options = TableOptions::new().queue_limit(own);
        executor.set_table_options(table, options).unwrap();
        let counts = [64 * own.unwrap_or(queue) + 1, 64 * queue + 65];
        for count in counts {
            let batch = executor.submit_batch(table, numbered(count)).unwrap();
            let found = ids(batch.wait().unwrap());
            assert!(found.into_iter().eq((0..count as u64).map(Ok)), "{count}");
        }
        let total = executor.snapshot().total;
        let all = counts.iter().sum::<usize>() as u64;
        assert_eq!((total.accepted, total.done, total.shed), (all, all, 0));
    }
}

#[test]
fn a_batch_that_is_fed_ends_as_a_whole() {
    const COUNT: usize = 1_000;
    let bounded = || builder(1, 1).queue_limit(1).build().unwrap();
    // Its queue is full: it is refused as one part, however long it is.
    let executor = bounded();
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let queued = executor.search(table, Query::new([7.0]));
    let refused = executor.submit_batch(table, numbered(COUNT)).unwrap_err();
    assert_eq!(full_at(refused.reason).1, 1);
    assert_eq!(refused.input.len(), COUNT);
    assert_eq!(executor.snapshot().total.shed, 64);
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    queued.wait().unwrap();

    // Two ways to end before its end; what no part has reached ends so, too.
    for shuts_down in [true, false] {
        let executor = bounded();
        let (reached, reaches) = channel();
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let held = gate.clone();
        let hook = move |n: f32| {
            if n == 2.0 {
                reached.send(()).unwrap();
                held.wait();
            }
        };
        let table = executor.add_table("t", Hooked(hook, 1));
        let soon = Instant::now() + Duration::from_millis(50);
        let mut queries = numbered(COUNT);
        if !shuts_down {
            let late = |query: &mut Query| *query = query.clone().deadline(soon);
            queries.iter_mut().for_each(late);
        }
        let batch = executor.submit_batch(table, queries).unwrap();
        reaches.recv_timeout(HANG).unwrap();
        let (batch, end) = match shuts_down {
            true => {
                executor.shutdown(Shutdown::Abandon(Duration::from_millis(1)));
                gate.open();
                (batch.wait(), Error::ShutDown)
            }
            false => (batch.wait(), Error::Expired),
        };
        gate.open();
        let answers = ids(batch.unwrap());
        let done = answers.iter().filter(|answer| answer.is_ok()).count();
        assert!(done < COUNT / 2, "{done}");
        for (number, answer) in answers.into_iter().enumerate() {
            let as_told = [Ok(number as u64), Err(end.clone())];
            assert_eq!(answer, as_told[usize::from(number >= done)], "{number}");
        }
    }
}

#[test]
fn dead_parts_make_room() {
    let executor = builder(1, 1)
        .queue_limit(2)
        .table_queue_limit(2)
        .build()
        .unwrap();
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    drop(executor.search_batch(table, numbered(100)));
    let accepted = accepted_in_time(|| executor.submit_batch(table, numbered(65)));
    let total = executor.snapshot().total;
    assert_eq!((total.queued, total.cancelled), (65, 100));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(accepted.wait().unwrap().len(), 65);
}

#[test]
fn a_dropped_ticket_cancels_parts_that_wait_and_queries_whose_turn_has_not_come() {
    let executor = executor(1, 1);
    let (reached, reaches) = channel();
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = gate.clone();
    let hook = move |n: f32| {
        if n == 2.0 {
            reached.send(()).unwrap();
            held.wait();
        }
    };
    let table = executor.add_table("t", Hooked(hook, 1));
    let running = executor.submit_batch(table, numbered(100)).unwrap();
    reaches.recv_timeout(HANG).unwrap();
    drop(running);
    let detached = executor.submit_batch(table, numbered(2)).unwrap();
    detached.detach();
    gate.open();
    executor.search(table, Query::new([0.0])).wait().unwrap();
    let total = executor.snapshot().total;
    assert_eq!((total.done, total.cancelled), (3 + 2 + 1, 97));
}

#[test]
fn a_query_expires_alone() {
    let executor = executor(1, 1);
    let soon = Instant::now() + Duration::from_millis(50);
    let hook = move |n: f32| {
        if n == 1.0 {
            pass(soon);
        }
    };
    for together in [1, 2] {
        let table = executor.add_table("t", Hooked(hook, together));
        let mut queries = numbered(6);
        let past = Instant::now();
        queries[0] = queries[0].clone().deadline(past);
        queries[4] = queries[4].clone().deadline(soon);
        let answers = executor.search_batch(table, queries).wait().unwrap();
        let expired = Err(Error::Expired);
        let expected = [expired.clone(), Ok(1), Ok(2), Ok(3), expired, Ok(5)];
        assert_eq!(ids(answers), expected);
    }
    let total = executor.snapshot().total;
    assert_eq!((total.done, total.expired), (8, 4));
}

#[test]
fn at_the_last_deadline_a_batch_tells_what_it_has() {
    for polls in [false, true] {
        let executor = executor(1, 2);
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let held = gate.clone();
        let hook = move |n: f32| {
            if n == 3.0 {
                held.wait();
            }
        };
        let table = executor.add_table("t", Hooked(hook, 1));
        let deadline = Instant::now() + Duration::from_millis(300);
        let in_time = |query: Query| query.deadline(deadline);
        let queries = numbered(4).into_iter().map(in_time).collect();
        let ticket = executor.submit_batch(table, queries).unwrap();
        let told = match polls {
            true => pollster::block_on(ticket),
            false => ticket.wait(),
        };
        assert!(Instant::now() >= deadline);
        let told = ids(told.unwrap());
        // The part that is held has not ended; on a machine that was busy for so long, neither has the other.
        let expired = || Err(Error::Expired);
        let both = told == [Ok(0), Ok(1), expired(), expired()];
        let none = told == [(); 4].map(|()| expired());
        assert!(both || none, "{told:?}");
        gate.open();
        executor.shutdown(Shutdown::Drain(HANG));
        let total = executor.snapshot().total;
        let done = told.iter().filter(|answer| answer.is_ok()).count() as u64;
        assert_eq!((total.done, total.expired), (done, 4 - done), "as told");
    }
}

#[test]
fn a_panic_fails_the_queries_of_its_call() {
    let executor = executor(1, 1);
    let hook = |n: f32| assert!(n != 4.0, "query {n} fails");
    let panicked = Err(Error::Panicked("query 4 fails".to_owned()));
    for (together, failed) in [(0, 4..5), (1, 4..5), (3, 3..6), (100, 0..8)] {
        let table = executor.add_table("t", Hooked(hook, together));
        let answers = executor.search_batch(table, numbered(8)).wait().unwrap();
        for (n, answer) in ids(answers).into_iter().enumerate() {
            match failed.contains(&n) {
                true => assert_eq!(answer, panicked),
                false => assert_eq!(answer, Ok(n as u64)),
            }
        }
    }
    assert_eq!(executor.snapshot().total.panicked, 1 + 1 + 3 + 8);
}

#[test]
fn a_table_that_answers_too_few_queries_fails_them() {
    struct Short;
    impl Table for Short {
        fn dim(&self) -> usize {
            1
        }

        fn len(&self) -> usize {
            1
        }

        fn size_bytes(&self) -> u64 {
            1
        }

        fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
            Ok(Vec::new())
        }

        fn search_batch(
            &self,
            _: &[Query],
            _: &mut Context,
        ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
            vec![Ok(Vec::new())]
        }

        fn batch_size(&self) -> usize {
            2
        }
    }
    let executor = executor(1, 1);
    let table = executor.add_table("short", Short);
    let answers = executor.search_batch(table, numbered(3)).wait().unwrap();
    let text = "the table gave 1 answers to 2 queries".to_owned();
    let failed = Err(Error::Search(SearchError::Backend(text)));
    assert_eq!(answers, [failed.clone(), failed, Ok(Vec::new())]);
}

#[test]
fn an_empty_batch_is_answered_at_once() {
    let executor = executor(1, 1);
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let ticket = executor.submit_batch(table, Vec::new()).unwrap();
    assert!(ticket.is_finished());
    assert_eq!(ticket.wait(), Ok(Vec::new()));
    drop(executor.search_batch(table, Vec::new()));
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(executor.snapshot().total.accepted, 1);
    let closures = executor.add_closure_table("closures", 1);
    for (table, reason) in [
        (TableId::default(), SubmitError::UnknownTable),
        (closures, SubmitError::NotSearchable),
    ] {
        for queries in [Vec::new(), numbered(3)] {
            let refused = executor.submit_batch(table, queries.clone()).unwrap_err();
            assert_eq!((refused.reason, refused.input), (reason, queries));
        }
    }
}

#[test]
fn counters_add_up_while_batches_come_and_go() {
    let executor = Arc::new(
        builder(2, 2)
            .queue_limit(40)
            .table_queue_limit(30)
            .build()
            .unwrap(),
    );
    let hook = |n: f32| assert!(n != 11.0, "a query that fails");
    let tables = [1, 4].map(|together| executor.add_table("t", Hooked(hook, together)));
    let stop = AtomicBool::new(false);
    crate::common::threads::scope(|scope| {
        for client in 0..3 {
            let (executor, stop) = (&executor, &stop);
            scope.spawn(move || {
                for turn in client.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut queries = numbered(turn % 150);
                    if turn % 3 == 0 {
                        let now = Instant::now();
                        queries = queries.into_iter().map(|q| q.deadline(now)).collect();
                    }
                    match executor.submit_batch(tables[turn % 2], queries) {
                        Ok(ticket) if turn % 5 == 0 => drop(ticket),
                        Ok(ticket) => assert_eq!(ticket.wait().unwrap().len(), turn % 150),
                        Err(refused) => assert_eq!(refused.input.len(), turn % 150),
                    }
                }
            });
        }
        let _stop = Departing(|| stop.store(true, Ordering::Relaxed));
        let mut seen = HashSet::new();
        while seen.len() < 300 {
            let snapshot = executor.snapshot();
            let of_tables = snapshot.tables.iter().map(|table| table.counts);
            for counts in of_tables.chain([snapshot.total]) {
                let now = counts.queued + counts.running + counts.ended();
                assert_eq!(counts.accepted, now);
            }
            seen.insert(snapshot.total.ended());
        }
    });
}
