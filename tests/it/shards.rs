//! One query over several tables: one deadline, one answer, and an error that names its table.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll, Waker};
use std::time::{Duration, Instant};

use crate::common::{Gate, HANG, OpenOnDrop, builder, executor, full_at, hold};
use chiplet::index::{FlatTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::ticket::{MultiSearch, MultiSearchPart};
use chiplet::{
    Context, Error, Executor, Neighbor, Query, QueryLimits, QueryParameter, SearchError,
    SubmitError, Table, TableId, Ticket,
};

const DIM: usize = 4;
const ROWS: usize = 300;
const SHARDS: usize = 5;

fn rows() -> Vec<f32> {
    (0..ROWS * DIM).map(|i| (i * 7919 % 1201) as f32).collect()
}

/// The rows, dealt out to the shards in turn: row `r` is row `r / SHARDS` of shard `r % SHARDS`.
fn shards(executor: &Executor, rows: &[f32]) -> Vec<TableId> {
    let shard = |number: usize| {
        let own = rows.chunks_exact(DIM).skip(number).step_by(SHARDS);
        let own: Vec<f32> = own.flatten().copied().collect();
        let table = FlatTable::build(own, DIM, Metric::L2).unwrap();
        executor.add_table(format!("shard {number}"), table)
    };
    (0..SHARDS).map(shard).collect()
}

/// A worker that is kept busy, so that what is submitted waits.
struct Held(OpenOnDrop, Vec<Ticket<()>>);

impl Held {
    fn only_worker_of(executor: &Executor) -> Self {
        let gate = Gate::default();
        let open = OpenOnDrop(gate.clone());
        let other = executor.add_closure_table("other", 1);
        Self(open, hold(executor, other, 1, &gate))
    }

    fn release(self) {
        let Self(open, held) = self;
        drop(open);
        held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    }
}

fn queries() -> impl Iterator<Item = Query> {
    (0..20).map(|n| Query::new([n as f32 * 60.0; DIM]).top(7))
}

#[test]
fn shards_answer_as_the_whole_does_by_waiting_and_by_polling() {
    let executor = executor(2, 2);
    let rows = rows();
    let shards = shards(&executor, &rows);
    let whole = FlatTable::build(rows, DIM, Metric::L2).unwrap();
    let whole = executor.add_table("whole", whole);
    for query in queries() {
        let truth = executor.search(whole, query.clone()).wait().unwrap();
        let distances = |hits: &[Neighbor]| hits.iter().map(|hit| hit.distance).collect::<Vec<_>>();
        for polls in [false, true] {
            let gathered = executor.submit_over(&shards, &query).unwrap();
            let hits = match polls {
                true => pollster::block_on(gathered).unwrap(),
                false => gathered.wait().unwrap(),
            };
            let of_whole = hits.iter().map(|(table, hit)| {
                let shard = shards.iter().position(|shard| shard == table).unwrap();
                (hit.id * SHARDS as u64 + shard as u64, hit.distance)
            });
            let found: Vec<_> = of_whole.collect();
            let hits: Vec<_> = hits.into_iter().map(|(_, hit)| hit).collect();
            assert_eq!(distances(&hits), distances(&truth));
            for (row, distance) in found {
                // Rows at one distance have another order there.
                let same = |hit: &&Neighbor| hit.distance == distance;
                let equals: Vec<_> = truth.iter().filter(same).collect();
                let last = truth.last().unwrap().distance;
                assert!(distance == last || equals.iter().any(|hit| hit.id == row));
            }
        }
    }
    let none = executor.submit_over(&[], &Query::new([0.0; DIM])).unwrap();
    assert_eq!(none.wait(), Ok(Vec::new()));
}

/// Polls once with a waker that does nothing.
fn poll_once(gathered: &mut MultiSearch) -> Poll<<MultiSearch as Future>::Output> {
    Pin::new(gathered).poll(&mut Polling::from_waker(Waker::noop()))
}

/// Searches until nobody waits for the answer.
struct Endless;

impl Table for Endless {
    fn dim(&self) -> usize {
        DIM
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        1
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        loop {
            context.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn what_polling_has_taken_is_there_for_who_waits_no_longer() {
    let executor = executor(1, 2);
    let mut shards = shards(&executor, &rows());
    let endless = executor.add_table("endless", Endless);
    shards.insert(1, endless);
    let query = queries().next().unwrap();
    let mut gathered = executor.submit_over(&shards, &query).unwrap();
    let begun = Instant::now();
    while executor.snapshot().total.done < SHARDS as u64 {
        assert!(begun.elapsed() < HANG, "the shards answer");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(poll_once(&mut gathered).is_pending());
    let parts = gathered.into_parts();
    assert_eq!(parts.len(), shards.len());
    for ((table, part), shard) in parts.into_iter().zip(shards) {
        assert_eq!(table, shard);
        match part {
            MultiSearchPart::Answered(hits) => {
                let truth = executor.search(table, query.clone()).wait();
                assert_eq!(Ok(hits), truth);
            }
            MultiSearchPart::Open(_) => assert_eq!(table, endless),
        }
    }
}

#[test]
fn waiting_ends_with_the_first_error_in_time() {
    let executor = executor(1, 2);
    let endless = executor.add_table("endless", Endless);
    let odd = FlatTable::build(vec![0.0; 2 * DIM], 2 * DIM, Metric::L2).unwrap();
    let odd = executor.add_table("of another dimension", odd);
    // If it waited for the first table, this would be its error.
    let query = queries().next().unwrap();
    let query = query.deadline(Instant::now() + Duration::from_secs(10));
    let gathered = executor.submit_over(&[endless, odd], &query).unwrap();
    assert_eq!(gathered.wait().unwrap_err().table, odd);
}

#[test]
fn waiting_inside_a_task_of_the_same_executor_is_refused() {
    let executor = Arc::new(executor(1, 1));
    let shards = shards(&executor, &rows());
    let table = executor.add_closure_table("t", 1);
    let (inner, first) = (Arc::clone(&executor), shards[0]);
    let task = executor.spawn(table, move || {
        let query = queries().next().unwrap();
        inner.submit_over(&shards, &query).unwrap().wait()
    });
    let error = task.wait().unwrap().unwrap_err();
    assert_eq!((error.table, error.error), (first, Error::WouldDeadlock));
}

#[test]
fn what_has_given_its_answer_has_no_other() {
    let executor = executor(1, 1);
    let mut shards = shards(&executor, &rows());
    for fails in [false, true] {
        if fails {
            let odd = FlatTable::build(vec![0.0; 2 * DIM], 2 * DIM, Metric::L2).unwrap();
            shards.push(executor.add_table("of another dimension", odd));
        }
        for again in [
            |gathered: MultiSearch| drop(gathered.wait()),
            |gathered: MultiSearch| drop(gathered.into_parts()),
            |mut gathered: MultiSearch| drop(poll_once(&mut gathered)),
        ] {
            let query = queries().next().unwrap();
            let mut gathered = executor.submit_over(&shards, &query).unwrap();
            let answer = pollster::block_on(&mut gathered);
            assert_eq!(answer.is_err(), fails);
            let again = std::panic::AssertUnwindSafe(|| again(gathered));
            assert!(std::panic::catch_unwind(again).is_err());
        }
    }
}

#[test]
fn a_table_that_fails_is_named_and_the_others_are_cancelled() {
    let executor = executor(1, 2);
    let mut shards = shards(&executor, &rows());
    let odd = FlatTable::build(vec![0.0; 2 * DIM], 2 * DIM, Metric::L2).unwrap();
    let odd = executor.add_table("of another dimension", odd);
    shards.insert(2, odd);
    // It would never end by itself.
    shards.push(executor.add_table("endless", Endless));
    for polls in [false, true] {
        let query = queries().next().unwrap();
        let gathered = executor.submit_over(&shards, &query).unwrap();
        let error = match polls {
            true => pollster::block_on(gathered).unwrap_err(),
            false => gathered.wait().unwrap_err(),
        };
        assert_eq!(error.table, odd);
        assert!(matches!(
            error.error,
            Error::Search(SearchError::WrongDimension { .. })
        ));
        assert!(error.to_string().contains(&odd.to_string()), "{error}");
    }
    let report = executor.shutdown(Shutdown::Drain(HANG));
    assert_eq!(report.still_running, 0, "the others were cancelled");
    let total = executor.snapshot().total;
    assert!(total.cancelled >= 2, "{total:?}");
}

#[test]
fn one_tables_refusal_leaves_nothing_of_the_query_behind() {
    let executor = builder(1, 1).table_queue_limit(2).build().unwrap();
    let shards = shards(&executor, &rows());
    let held = Held::only_worker_of(&executor);
    let query = queries().next().unwrap();
    let full: Vec<_> = (0..2)
        .map(|_| executor.submit(shards[3], query.clone()).unwrap())
        .collect();
    let refused = executor.submit_over(&shards, &query).unwrap_err();
    assert_eq!(refused.table, shards[3]);
    assert_eq!(full_at(refused.error), (None, 2));
    executor.remove_table(shards[4]).unwrap();
    let unknown = executor.submit_over(&shards[4..], &query).unwrap_err();
    assert_eq!(unknown.error, SubmitError::UnknownTable);
    held.release();
    full.into_iter()
        .for_each(|ticket| drop(ticket.wait().unwrap()));
    let hits = executor.submit_over(&shards[..4], &query).unwrap().wait();
    assert_eq!(hits.unwrap().len(), 7);
    let total = executor.snapshot().total;
    // Of the refused one three parts were accepted, and cancelled.
    assert_eq!((total.done, total.cancelled, total.shed), (7, 3, 1));
    assert_eq!((total.accepted, total.queued), (10, 0));
}

#[test]
fn the_tables_of_one_query_are_bounded() {
    let limits = QueryLimits::new().max_tables(Some(3));
    let executor = builder(1, 1).limits(limits).build().unwrap();
    let shards = shards(&executor, &rows());
    let query = queries().next().unwrap();
    assert!(executor.submit_over(&shards[..3], &query).is_ok());
    let refused = executor.submit_over(&shards, &query).unwrap_err();
    let (parameter, asked, limit) = (QueryParameter::Tables, SHARDS, 3);
    let over = SubmitError::OverLimit {
        parameter,
        asked,
        limit,
    };
    assert_eq!((refused.table, refused.error), (shards[3], over));
}

#[test]
fn the_deadline_is_one_for_all_tables_and_dropping_cancels_all() {
    let executor = Arc::new(executor(1, 1));
    let shards = shards(&executor, &rows());
    let held = Held::only_worker_of(&executor);
    let query = queries().next().unwrap();
    let soon = Instant::now() + Duration::from_millis(20);
    let late = query.clone().deadline(soon);
    for polls in [false, true] {
        let gathered = executor.submit_over(&shards, &late).unwrap();
        let error = match polls {
            true => pollster::block_on(gathered).unwrap_err(),
            false => gathered.wait().unwrap_err(),
        };
        assert_eq!((error.table, error.error), (shards[0], Error::Expired));
    }
    drop(executor.submit_over(&shards, &query).unwrap());
    let mut gathered = executor.submit_over(&shards, &query).unwrap();
    assert!(poll_once(&mut gathered).is_pending());
    let parts = gathered.into_parts();
    held.release();
    for (place, (table, part)) in parts.into_iter().enumerate() {
        assert_eq!(table, shards[place]);
        let MultiSearchPart::Open(ticket) = part else {
            panic!("its worker is held");
        };
        assert_eq!(ticket.wait().unwrap().len(), 7);
    }
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!(total.done, 1 + SHARDS as u64);
    assert_eq!(total.expired + total.cancelled, 3 * SHARDS as u64);
}
