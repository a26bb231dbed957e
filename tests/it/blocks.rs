//! Blocks: answers as one by one, in flat arrays, of any length through a queue of any size.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::hooked::{DIM, Hooked, answered, numbered, rows};
use crate::common::{Departing, Gate, HANG, OpenOnDrop, builder, executor, pass};
use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::ticket::BlockAnswers;
use chiplet::{
    Block, Class, Context, Error, Executor, Filter, Neighbor, Query, SearchError, Table, TableId,
};

/// The block's answers as single queries get them.
fn one_by_one(executor: &Executor, table: TableId, rows: &[f32], like: &Query) -> BlockAnswers {
    let mut expected = BlockAnswers::default();
    expected.k = like.k();
    for row in rows.chunks(DIM) {
        let mut query = like.clone();
        query.set_vector(row);
        let mut hits = executor.search(table, query).wait().unwrap();
        expected.found.push(hits.len() as u32);
        hits.resize(
            like.k(),
            Neighbor {
                id: u64::MAX,
                distance: f32::INFINITY,
            },
        );
        expected.ids.extend(hits.iter().map(|hit| hit.id));
        expected
            .distances
            .extend(hits.iter().map(|hit| hit.distance));
    }
    expected
}

#[test]
fn answers_are_those_of_single_queries() {
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    let even = Filter::matching(|id| id % 2 == 0);
    for (domains, cores) in [(1, 1), (1, 3), (2, 2)] {
        let executor = executor(domains, cores);
        let tables = [
            executor.add_table("hnsw", HnswTable::build(&rows(600), DIM, &config).unwrap()),
            executor.add_table("flat", FlatTable::build(rows(7), DIM, Metric::L2).unwrap()),
        ];
        for table in tables {
            for like in [
                Query::new([]),
                Query::new([])
                    .top(9)
                    .ef(30)
                    .filter(even.clone())
                    .radius(1e5),
            ] {
                for count in [1, 2, 63, 64, 65, 500] {
                    let asked = rows(count);
                    let expected = one_by_one(&executor, table, &asked, &like);
                    let block = Block::new(asked, DIM).like(like.clone());
                    let answers = executor.search_block(table, block).wait().unwrap();
                    assert_eq!(answers, expected, "{count} rows");
                }
            }
        }
        let total = executor.snapshot().total;
        assert_eq!(total.accepted, total.done);
    }
}

#[test]
fn a_long_block_of_a_real_table_goes_through_a_small_queue() {
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    let executor = builder(1, 3).queue_limit(8).build().unwrap();
    let tables = [
        executor.add_table("hnsw", HnswTable::build(&rows(600), DIM, &config).unwrap()),
        executor.add_table("flat", FlatTable::build(rows(30), DIM, Metric::L2).unwrap()),
    ];
    // The rows repeat, so that few single queries tell the answers to all.
    let (asked, times) = (rows(50), 200);
    let like = Query::new([]).top(3).class(Class::Bulk);
    for table in tables {
        let expected = one_by_one(&executor, table, &asked, &like);
        let block = Block::new(asked.repeat(times), DIM).like(like.clone());
        let answers = executor.search_block(table, block).wait().unwrap();
        assert_eq!(answers.len(), 50 * times);
        assert_eq!(answers.ids, expected.ids.repeat(times));
        assert_eq!(answers.distances, expected.distances.repeat(times));
        assert_eq!(answers.failed, []);
    }
}

#[test]
fn many_rows_go_through_few_places_in_parts_that_make_way() {
    let executor = builder(1, 2).queue_limit(4).build().unwrap();
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let (held, seen) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let reached = Arc::clone(&seen);
    let hook = move |n: f32| {
        held.wait();
        reached.fetch_max(n as usize, Ordering::Relaxed);
    };
    let table = executor.add_table("long", Hooked(hook, 1));
    let other = executor.add_closure_table("other", 1);
    let long = executor.submit_block(table, numbered(200_000)).unwrap();
    // The table may have three tasks in the queue, so there is a place for others whatever the block does.
    assert!(executor.snapshot().domains[0].queued <= 3);
    let seen_at_most = |seen: &AtomicUsize| seen.load(Ordering::Relaxed);
    let waits = {
        let seen = Arc::clone(&seen);
        executor.submit_fn(other, None, move |_| seen_at_most(&seen))
    };
    gate.open();
    let reached = waits.unwrap().wait().unwrap();
    assert!(reached < 100_000, "it waited for {reached} rows");
    let answers = long.wait().unwrap();
    assert_eq!(answered(&answers), 200_000);
    let snapshot = executor.snapshot();
    assert_eq!(snapshot.total.done, 200_001);
    assert_eq!(snapshot.total.accepted, 200_001);
    assert_eq!(
        snapshot.tables[0].wait.count(),
        200_000,
        "rows count, not parts"
    );
}

#[test]
fn the_last_part_goes_on_without_a_place() {
    let executor = Arc::new(
        builder(1, 2)
            .queue_limit(2)
            .table_queue_limit(2)
            .build()
            .unwrap(),
    );
    let other = executor.add_closure_table("other", 1);
    let (crowd, shed) = (Arc::downgrade(&executor), Arc::new(AtomicU64::new(0)));
    let refused = Arc::clone(&shed);
    // Whenever there is a place, others take it.
    let hook = move |_: f32| {
        for _ in 0..4 {
            let Some(executor) = crowd.upgrade() else {
                return;
            };
            match executor.submit_fn(other, None, |_| ()) {
                Ok(ticket) => ticket.detach(),
                Err(_) => _ = refused.fetch_add(1, Ordering::Relaxed),
            }
        }
    };
    let table = executor.add_table("t", Hooked(hook, 1));
    let answers = executor
        .search_block(table, numbered(1_000))
        .wait()
        .unwrap();
    assert_eq!(answered(&answers), 1_000);
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!(total.accepted, total.done);
    assert_eq!(
        total.shed,
        shed.load(Ordering::Relaxed),
        "a block that goes on is not refused"
    );
}

#[test]
fn each_row_has_its_own_filter() {
    let executor = executor(1, 2);
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let filters: Vec<_> = (0..200).map(|n| Filter::ids([n / 2 * 2])).collect();
    let block = numbered(200).filters(filters);
    let answers = executor.search_block(table, block).wait().unwrap();
    for row in 0..200 {
        assert_eq!(answers.found[row], u32::from(row % 2 == 0));
        let id = if row % 2 == 0 { row as u64 } else { u64::MAX };
        assert_eq!(answers.ids[row], id);
    }
    assert_eq!(answers.failed, [], "to find nothing is no failure");
}

#[test]
fn a_row_fails_alone() {
    let executor = executor(1, 2);
    let hook = |n: f32| assert!(n != 40.0, "row {n} fails");
    let panicked = Error::Panicked("row 40 fails".to_owned());
    for (together, failed) in [(1, 40..41), (100, 40..64)] {
        let executor = match together {
            1 => &executor,
            // One worker, and a first part of 16 rows: the second has 64.
            _ => &crate::common::executor(1, 1),
        };
        let table = executor.add_table("t", Hooked(hook, together));
        let mut rows: Vec<f32> = (0..300).map(|n| n as f32).collect();
        rows[200] = f32::NAN;
        let block = Block::new(rows, 1).like(Query::new([]).top(1));
        let answers = executor.search_block(table, block).wait().unwrap();
        let (at_panic, at_nan) = (answers.row(40).unwrap_err(), answers.row(200).unwrap_err());
        assert_eq!(*at_panic, panicked);
        let position = 0;
        assert!(
            matches!(at_nan, Error::Search(SearchError::NotFinite { position: at, .. }) if *at == position)
        );
        assert_eq!(answers.failed.last().unwrap().0, 200..201);
        if together == 1 {
            assert_eq!(answers.failed[0], (failed, panicked.clone()));
            assert_eq!(answered(&answers), 298);
        }
    }
    assert_eq!(executor.snapshot().total.panicked, 1);
}

#[test]
fn a_row_that_its_table_leaves_out_fails() {
    struct Careless;
    impl Table for Careless {
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

        /// Answers the first query twice, the second never, and one that nobody asked.
        fn search_each(
            &self,
            _: &[Query],
            _: &mut Context,
            answer: &mut chiplet::table::TakeAnswer<'_>,
        ) {
            for number in [0, 0, 7] {
                answer(
                    number,
                    Ok(&[Neighbor {
                        id: 3,
                        distance: 0.5,
                    }; 5]),
                );
            }
        }

        fn batch_size(&self) -> usize {
            2
        }
    }
    // One part at a time, so a call has two rows. It has one row where a part was cut short.
    let executor = builder(1, 1).queue_limit(1).build().unwrap();
    let table = executor.add_table("careless", Careless);
    let block = numbered(40).like(Query::new([]).top(2));
    let answers = executor.search_block(table, block).wait().unwrap();
    let text = "the table gave 1 answers to 2 queries".to_owned();
    let left_out = Error::Search(SearchError::Backend(text));
    let mut failed = 0;
    for row in 0..40 {
        match answers.row(row) {
            Ok(found) => assert_eq!(
                found,
                (&[3, 3][..], &[0.5; 2][..]),
                "no more than asked for"
            ),
            Err(error) => {
                assert_eq!(error, &left_out);
                failed += 1;
            }
        }
    }
    assert!((10..=20).contains(&failed), "{failed}");
}

#[test]
fn a_query_that_asks_for_nothing_fails_each_row_in_one_entry() {
    let executor = executor(1, 2);
    let table = executor.add_table("flat", FlatTable::build(rows(30), DIM, Metric::L2).unwrap());
    let block = Block::new(rows(1_000), DIM).like(Query::new([]).top(0));
    let answers = executor.search_block(table, block).wait().unwrap();
    assert_eq!(
        answers.failed,
        [(0..1_000, Error::Search(SearchError::ZeroTop))]
    );
    assert_eq!((answers.ids.len(), answers.found.len()), (0, 1_000));
}

/// A table whose row 2 waits at a gate, and a receiver that hears when it has been reached.
fn held_at_two(executor: &Executor) -> (TableId, Gate, std::sync::mpsc::Receiver<()>) {
    let (reached, reaches) = channel();
    let gate = Gate::default();
    let held = gate.clone();
    let hook = move |n: f32| {
        if n == 2.0 {
            reached.send(()).unwrap();
            held.wait();
        }
    };
    (executor.add_table("t", Hooked(hook, 1)), gate, reaches)
}

#[test]
fn a_dropped_ticket_ends_a_block_within_a_part() {
    let executor = executor(1, 1);
    let (table, gate, reaches) = held_at_two(&executor);
    let _open = OpenOnDrop(gate.clone());
    let running = executor.submit_block(table, numbered(1_000_000)).unwrap();
    reaches.recv_timeout(HANG).unwrap();
    drop(running);
    gate.open();
    executor.search(table, Query::new([0.0])).wait().unwrap();
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    // Two first parts of 16 rows had been accepted, of which three rows were begun.
    assert_eq!(
        (total.accepted, total.done, total.cancelled),
        (2 * 16 + 1, 3 + 1, 29)
    );
}

#[test]
fn a_detached_block_is_answered_to_its_end() {
    let executor = executor(1, 1);
    let table = executor.add_table("t", Hooked(|_| (), 1));
    executor
        .submit_block(table, numbered(5_000))
        .unwrap()
        .detach();
    executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!(executor.snapshot().total.done, 5_000);
}

#[test]
fn at_its_deadline_a_block_tells_what_it_has() {
    for polls in [false, true] {
        let executor = executor(1, 1);
        let (table, gate, reaches) = held_at_two(&executor);
        let _open = OpenOnDrop(gate.clone());
        let deadline = Instant::now() + Duration::from_millis(300);
        let block = numbered(100_000).like(Query::new([]).top(1).deadline(deadline));
        let ticket = executor.submit_block(table, block).unwrap();
        let told = match polls {
            true => pollster::block_on(ticket),
            false => ticket.wait(),
        };
        assert!(Instant::now() >= deadline);
        let told = told.unwrap();
        assert_eq!(
            told.failed,
            [(0..100_000, Error::Expired)],
            "its first part has not ended"
        );
        assert_eq!(told.ids, vec![u64::MAX; 100_000]);
        drop(reaches);
        gate.open();
        executor.shutdown(Shutdown::Drain(HANG));
        let total = executor.snapshot().total;
        assert_eq!((total.done, total.expired), (0, total.accepted), "as told");
    }
}

#[test]
fn what_was_found_before_the_deadline_is_told() {
    let executor = executor(1, 1);
    let deadline = Instant::now() + Duration::from_millis(500);
    let hook = move |n: f32| {
        if n == 1_000.0 {
            pass(deadline);
        }
    };
    let table = executor.add_table("t", Hooked(hook, 1));
    let block = numbered(100_000).like(Query::new([]).top(1).deadline(deadline));
    let told = executor.search_block(table, block).wait().unwrap();
    let found = answered(&told);
    // The part that was under way then may end before anybody asks.
    assert!(found < 1_000 + 64, "{found}");
    let missing: usize = told.failed.iter().map(|(rows, _)| rows.len()).sum();
    assert_eq!(found + missing, 100_000);
    assert!(told.failed.len() <= 3, "{:?}", told.failed);
    executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!(executor.snapshot().total.done, found as u64, "as told");
}

#[test]
fn a_drain_answers_all_of_it_and_an_abandon_what_has_begun() {
    for drains in [true, false] {
        let executor = Arc::new(executor(1, 2));
        let (table, gate, reaches) = held_at_two(&executor);
        let _open = OpenOnDrop(gate.clone());
        let ticket = executor.submit_block(table, numbered(20_000)).unwrap();
        reaches.recv_timeout(HANG).unwrap();
        let stopping = {
            let executor = Arc::clone(&executor);
            std::thread::spawn(move || match drains {
                true => executor.shutdown(Shutdown::Drain(HANG)),
                false => executor.shutdown(Shutdown::Abandon(HANG)),
            })
        };
        // The shutdown has begun when it refuses.
        while executor
            .submit_fn(table, None, |_| ())
            .map(|ticket| ticket.detach())
            .is_ok()
        {
            std::thread::yield_now();
        }
        gate.open();
        let answers = ticket.wait().unwrap();
        let report = stopping.join().unwrap();
        assert_eq!(report.still_running, 0);
        let found = answered(&answers);
        match drains {
            true => assert_eq!(found, 20_000),
            false => assert!(
                answers
                    .failed
                    .iter()
                    .all(|(_, error)| *error == Error::ShutDown)
            ),
        }
        let total = executor.snapshot().total;
        assert_eq!((total.queued, total.running), (0, 0));
        assert_eq!(total.accepted, total.ended());
    }
}

#[test]
fn a_block_ends_on_the_index_that_it_began_with() {
    let executor = executor(1, 1);
    let (table, gate, reaches) = held_at_two(&executor);
    let _open = OpenOnDrop(gate.clone());
    let ticket = executor.submit_block(table, numbered(1_000)).unwrap();
    reaches.recv_timeout(HANG).unwrap();
    executor
        .replace_table(table, FlatTable::build(rows(30), DIM, Metric::L2).unwrap())
        .unwrap();
    executor.remove_table(table).unwrap();
    gate.open();
    assert_eq!(answered(&ticket.wait().unwrap()), 1_000);
}

#[test]
fn counters_add_up_while_blocks_come_and_go() {
    let executor = Arc::new(
        builder(2, 2)
            .queue_limit(6)
            .table_queue_limit(4)
            .build()
            .unwrap(),
    );
    let hook = |n: f32| assert!(n != 11.0, "a row that fails");
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
                    let mut block = numbered(turn % 500);
                    if turn % 3 == 0 {
                        block =
                            block.like(Query::new([]).top(1).within(Duration::from_micros(200)));
                    }
                    match executor.submit_block(tables[turn % 2], block) {
                        Ok(ticket) if turn % 5 == 0 => drop(ticket),
                        Ok(ticket) => assert_eq!(ticket.wait().unwrap().len(), turn % 500),
                        Err(refused) => assert_eq!(refused.input.len(), turn % 500),
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
