//! What a search learns from its context: that nobody waits for it any more, and where it runs.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{HANG, executor, pass};
use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric};
use chiplet::{Context, Error, Filter, Neighbor, Query, SearchError, Table};

/// A table whose search never ends by itself, but asks whether it is still wanted.
struct Endless(Sender<()>);

impl Table for Endless {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        4
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let _ = self.0.send(());
        loop {
            context.check()?;
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn a_search_that_asks_stops_at_its_deadline_and_when_its_ticket_goes() {
    let executor = executor(1, 1);
    let (started, starts) = channel();
    let table = executor.add_table("endless", Endless(started));
    let answer = executor
        .search(table, Query::new([0.0]).within(Duration::from_millis(20)))
        .wait();
    assert_eq!(answer, Err(Error::Expired));
    starts.recv_timeout(HANG).unwrap();
    let dropped = executor.search(table, Query::new([0.0]));
    starts.recv_timeout(HANG).unwrap();
    drop(dropped);
    // The only worker comes back.
    assert_eq!(executor.spawn(table, || 7).wait(), Ok(7));
    let total = executor.snapshot().total;
    assert_eq!((total.expired, total.cancelled, total.done), (1, 1, 1));
}

#[test]
fn a_closure_learns_where_it_runs_and_that_it_is_wanted() {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    let code =
        move |context: &mut Context| (context.domain(), context.node(), context.should_stop());
    let answer = executor.submit_fn(table, None, code).unwrap().wait();
    let home = &executor.topology().domains()[0];
    assert_eq!(answer, Ok((Some(home.id), Some(home.node), false)));
}

/// What `table` says to `query` if nobody waits for the answer by the time it begins.
fn too_late(table: Arc<dyn Table>, query: Query) -> (Result<Vec<Neighbor>, SearchError>, u64) {
    let executor = executor(1, 1);
    let id = executor.add_closure_table("t", 1);
    let (sender, answers) = channel();
    // Long enough for the closure to begin, even on a busy machine.
    let deadline = Instant::now() + Duration::from_millis(200);
    let search = move |context: &mut Context| {
        pass(deadline);
        let answer = table.search(&query, context);
        sender.send((answer, context.bytes())).unwrap();
    };
    let ticket = executor.submit_fn(id, Some(deadline), search).unwrap();
    // Whether it is told that it is late or given what the closure returns: both may come first.
    let _ = ticket.wait();
    answers.recv_timeout(HANG).unwrap()
}

const ROWS: usize = 40_000;

fn rows() -> Vec<f32> {
    (0..ROWS * 4)
        .map(|i| ((i * 7_919) % 10_007) as f32)
        .collect()
}

#[test]
fn an_exact_search_stops_soon() {
    let table = FlatTable::build(rows(), 4, Metric::L2).unwrap();
    let whole = table.size_bytes();
    let (answer, bytes) = too_late(Arc::new(table), Query::new([1.0; 4]));
    assert_eq!(answer, Err(SearchError::Stopped));
    assert!(bytes < whole, "{bytes} of {whole}");
}

#[test]
fn a_graph_stops_walking_and_scanning_and_answers_the_next_query_as_before() {
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(16);
    let table = Arc::new(HnswTable::build(&rows(), 4, &config).unwrap());
    let query = || Query::new([5_000.0; 4]);
    let expected = table.search(&query(), &mut Context::default()).unwrap();
    let walk = query().ef(4_000);
    let filtered = walk.clone().filter(Filter::matching(|id| id % 2 == 0));
    // So few are allowed that all are compared.
    let scan = query().filter(Filter::matching(|id| id % 20_000 == 7));
    for slow in [walk, filtered, scan] {
        let (answer, _) = too_late(Arc::clone(&table) as _, slow);
        assert_eq!(answer, Err(SearchError::Stopped));
        let again = table.search(&query(), &mut Context::default()).unwrap();
        assert_eq!(again, expected);
    }
}
