//! Another index behind the id of a table that is searched all the while: nothing is lost, and the old one goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::lists::Lists;
use crate::common::{
    Departing, Gate, HANG, OpenOnDrop, builder, executor, hold, neighbours, restless,
};
use chiplet::{Context, Neighbor, Query, SearchError, SplitTable, SubmitError, Table, TableError};

/// An index that finds its version, and counts that it was dropped.
struct Version {
    number: u64,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Version {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Table for Version {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        self.number
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        context.add_bytes(1 << 20);
        let (id, distance) = (self.number, 0.0);
        Ok(vec![Neighbor { id, distance }])
    }
}

fn version(number: u64, dropped: &Arc<AtomicUsize>) -> Version {
    let dropped = Arc::clone(dropped);
    Version { number, dropped }
}

/// Returns once `count` indexes have been dropped.
fn wait_for(dropped: &AtomicUsize, count: usize) {
    let begun = Instant::now();
    while dropped.load(Ordering::SeqCst) < count {
        assert!(begun.elapsed() < HANG, "an index is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(dropped.load(Ordering::SeqCst), count);
}

#[test]
fn replacing_under_load_loses_nothing_and_is_in_order() {
    const VERSIONS: u64 = 200;
    // Homes move all the while.
    let executor = builder(2, 1).planner(restless()).build().unwrap();
    neighbours(&executor);
    let dropped = Arc::new(AtomicUsize::new(0));
    let table = executor.add_table("versions", version(0, &dropped));
    // The last version of which `replace_table` has returned, and the last that may be there.
    let (there, coming) = (AtomicU64::new(0), AtomicU64::new(0));
    let asked = AtomicU64::new(VERSIONS);
    crate::common::threads::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while there.load(Ordering::SeqCst) < VERSIONS {
                    let least = there.load(Ordering::SeqCst);
                    let tickets =
                        [(); 8].map(|()| executor.submit(table, Query::new([0.5])).unwrap());
                    asked.fetch_add(8, Ordering::SeqCst);
                    let most = coming.load(Ordering::SeqCst);
                    for ticket in tickets {
                        let found = ticket.wait().unwrap()[0].id;
                        let may = least..=most;
                        assert!(may.contains(&found), "{found} is not of {may:?}");
                    }
                }
            });
        }
        // A client that fails shall not leave the others waiting for the last version.
        let _end = Departing(|| there.store(VERSIONS, Ordering::SeqCst));
        for number in 1..=VERSIONS {
            coming.store(number, Ordering::SeqCst);
            assert!(
                executor
                    .replace_table(table, version(number, &dropped))
                    .is_ok()
            );
            there.store(number, Ordering::SeqCst);
            let found = executor.search(table, Query::new([0.5])).wait().unwrap();
            assert_eq!(found[0].id, number);
        }
    });
    let asked = asked.into_inner();
    let snapshot = executor.snapshot();
    let of_table = snapshot.tables.iter().find(|of| of.id == table).unwrap();
    assert_eq!(&*of_table.name, "versions");
    let counts = of_table.counts;
    assert_eq!((counts.accepted, counts.done), (asked, asked));
    assert_eq!(of_table.service.count(), asked, "latencies go on");
    wait_for(&dropped, VERSIONS as usize);
    assert!(executor.remove_table(table).is_ok());
    wait_for(&dropped, VERSIONS as usize + 1);
    assert_eq!(executor.snapshot().total.done, asked);
}

#[test]
fn what_was_accepted_ends_on_the_old_index() {
    let executor = executor(1, 1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let table = executor.add_table("t", version(1, &dropped));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let old = executor.search(table, Query::new([0.0]));
    assert!(executor.replace_table(table, version(2, &dropped)).is_ok());
    let new = executor.search(table, Query::new([0.0]));
    assert!(executor.replace_table(table, version(3, &dropped)).is_ok());
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    assert_eq!(old.wait().unwrap()[0].id, 1);
    assert_eq!(new.wait().unwrap()[0].id, 2);
    wait_for(&dropped, 2);
    // With what was queued on an old index the table may go, and is counted until that has ended.
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, 1, &gate);
    let old = executor.search(table, Query::new([0.0]));
    assert!(executor.replace_table(table, version(4, &dropped)).is_ok());
    assert!(executor.remove_table(table).is_ok());
    wait_for(&dropped, 2);
    assert_eq!(executor.snapshot().total.queued, 1);
    gate.open();
    for ticket in held {
        ticket.wait().unwrap();
    }
    assert_eq!(old.wait().unwrap()[0].id, 3);
    wait_for(&dropped, 4);
    assert_eq!(executor.snapshot().total.done, 5);
}

#[test]
fn a_query_that_is_cut_meets_one_index_only() {
    let executor = executor(1, 2);
    let (reached, reaches) = channel();
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = gate.clone();
    let slow = Lists::default().on_coarse(move |_| {
        reached.send(()).unwrap();
        held.wait();
    });
    let whole = Lists::default()
        .search_whole(&Query::new([0.5]), &mut Context::default())
        .unwrap();
    let table = executor.add_table("lists", slow);
    let ticket = executor.search(table, Query::new([0.5]));
    reaches.recv_timeout(HANG).unwrap();
    let other = Lists::default().on_scan(|_, _| panic!("the query is the old index's"));
    assert!(executor.replace_table(table, other).is_ok());
    gate.open();
    assert_eq!(ticket.wait().unwrap(), whole);
}

#[test]
fn nothing_is_put_behind_an_id_that_searches_nothing() {
    let executor = Arc::new(executor(1, 1));
    let closures = executor.add_closure_table("t", 1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let refused = executor.replace_table(closures, version(1, &dropped));
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, TableError::NoIndex);
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the caller has it back");
    drop(refused.input);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let refused = executor.submit(closures, Query::new([0.0])).unwrap_err();
    assert_eq!(refused.reason, SubmitError::NotSearchable);

    let table = executor.add_table("gone", version(2, &dropped));
    assert!(executor.remove_table(table).is_ok());
    // Its destructor may use the executor.
    let (inner, count) = (Arc::clone(&executor), Arc::clone(&dropped));
    let asking = Departing(move || {
        inner.snapshot();
        count.fetch_add(1, Ordering::SeqCst);
    });
    let refused = executor.replace_table(table, asking).unwrap_err();
    assert_eq!(refused.reason, TableError::Unknown);
    drop(refused);
    assert_eq!(executor.spawn(closures, || 1).wait(), Ok(1));
    wait_for(&dropped, 3);
    let kept: Arc<dyn Table> = Arc::new(version(3, &dropped));
    assert!(executor.replace_table(table, Arc::clone(&kept)).is_err());
    assert_eq!(Arc::strong_count(&kept), 1);
}
