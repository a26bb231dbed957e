//! A table's memory follows its home to another socket: answers stay, and whatever fails leaves the table as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::common::{HANG, restless};
use chiplet::shutdown::Shutdown;
use chiplet::{Builder, Context, Executor, Neighbor, Query, SearchError, Table, TableId, Topology};
use parking_lot::Mutex;

const MIB: u64 = 1 << 20;

/// Two sockets of a domain each, with nodes 0 and 1.
fn two_sockets() -> Builder {
    let topology = Topology::builder()
        .domain(32 * MIB, 1)
        .package()
        .domain(32 * MIB, 1);
    Executor::builder()
        .topology(topology.build().unwrap())
        .believe_nodes(true)
        .planner(restless())
}

/// What becomes of a copy.
#[derive(Clone)]
enum Fate {
    Made,
    Refused,
    Panics,
    /// Elsewhere than it was told.
    Astray,
    /// Says that it has begun, and goes on until it is told to stop.
    Endless(Sender<()>),
}

/// An index of 16 MiB that finds its version, and says on which node it was searched.
struct Placed {
    version: u64,
    node: u32,
    fate: Fate,
    copies: Arc<AtomicU32>,
    /// When the latest copy was begun.
    begun: Arc<Mutex<Option<Instant>>>,
    dropped: Arc<AtomicU32>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Table for Placed {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        16 * MIB
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        vec![(self.node, self.size_bytes())]
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.copies.fetch_add(1, Ordering::SeqCst);
        *self.begun.lock() = Some(Instant::now());
        let node = match self.fate {
            Fate::Refused => return Err(SearchError::Backend("no memory".to_owned())),
            Fate::Panics => panic!("a copy that panics"),
            Fate::Astray => self.node,
            _ => nodes[0],
        };
        let mut left = self.size_bytes() / MIB;
        while left > 0 {
            match &self.fate {
                Fate::Endless(began) => _ = began.send(()),
                _ => left -= 1,
            }
            if !pace(MIB) {
                return Ok(None);
            }
        }
        Ok(Some(Box::new(Self {
            version: self.version,
            node,
            fate: self.fate.clone(),
            copies: Arc::clone(&self.copies),
            begun: Arc::clone(&self.begun),
            dropped: Arc::clone(&self.dropped),
        })))
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        context.add_bytes(self.size_bytes());
        let (id, distance) = (self.version, self.node as f32);
        Ok(vec![Neighbor { id, distance }])
    }
}

struct Counted {
    copies: Arc<AtomicU32>,
    begun: Arc<Mutex<Option<Instant>>>,
    dropped: Arc<AtomicU32>,
}

impl Counted {
    fn new() -> Self {
        Self {
            copies: Arc::default(),
            begun: Arc::default(),
            dropped: Arc::default(),
        }
    }

    fn on_node(&self, node: u32, version: u64, fate: Fate) -> Placed {
        Placed {
            version,
            node,
            fate,
            copies: Arc::clone(&self.copies),
            begun: Arc::clone(&self.begun),
            dropped: Arc::clone(&self.dropped),
        }
    }
}

/// The version that is found, and the node of its memory.
fn found(executor: &Executor, table: TableId) -> (u64, u32) {
    let hits = executor.search(table, Query::new([0.0])).wait().unwrap();
    (hits[0].id, hits[0].distance as u32)
}

/// Searches until that comes true.
fn until(executor: &Executor, table: TableId, there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < HANG, "it does not come");
        found(executor, table);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns once the copier has looked at all tables, and moved another one meanwhile. `table` answers as it did.
fn another_is_moved(executor: &Executor, table: TableId, answer: (u64, u32)) {
    let before = executor.snapshot().copied_tables;
    let other = executor.add_table("other", Counted::new().on_node(0, 9, Fate::Made));
    until(executor, other, || {
        assert_eq!(found(executor, table), answer);
        executor.snapshot().copied_tables > before
    });
}

/// A table with memory on node 0 that has to live on the other socket.
fn moved_away(builder: Builder, placed: Placed) -> (Executor, TableId) {
    let executor = builder.build().unwrap();
    let table = executor.add_table("moved", placed);
    assert_eq!(found(&executor, table).1, 0);
    assert_eq!(executor.snapshot().tables[0].memory, [(0, 16 * MIB)]);
    executor.restrict_to(&[1]).unwrap();
    (executor, table)
}

#[test]
fn memory_follows_its_table_to_the_other_socket() {
    let counted = Counted::new();
    let (executor, table) = moved_away(two_sockets(), counted.on_node(0, 7, Fate::Made));
    until(&executor, table, || executor.snapshot().copied_tables == 1);
    assert_eq!(found(&executor, table), (7, 1));
    let snapshot = executor.snapshot();
    assert_eq!(snapshot.copied_bytes, 16 * MIB);
    assert_eq!(snapshot.tables[0].memory, [(1, 16 * MIB)]);
    assert_eq!(snapshot.tables[0].copies, 1);
    // The original goes with the last query that may search it.
    until(&executor, table, || {
        counted.dropped.load(Ordering::SeqCst) == 1
    });
    // What is added near the workers that are left stays.
    let near = executor.add_table("near", counted.on_node(1, 8, Fate::Made));
    for _ in 0..100 {
        assert_eq!(found(&executor, near), (8, 1));
    }
    another_is_moved(&executor, near, (8, 1));
    assert_eq!(counted.copies.load(Ordering::SeqCst), 1);
    let total = executor.snapshot().total;
    assert_eq!(total.accepted, total.done);
}

#[test]
fn a_copy_that_fails_leaves_the_table_where_it_is() {
    for fate in [Fate::Refused, Fate::Panics, Fate::Astray] {
        let counted = Counted::new();
        let (executor, table) = moved_away(two_sockets(), counted.on_node(0, 7, fate));
        until(&executor, table, || {
            counted.copies.load(Ordering::SeqCst) == 1
        });
        for _ in 0..2 {
            another_is_moved(&executor, table, (7, 0));
        }
        assert_eq!(
            counted.copies.load(Ordering::SeqCst),
            1,
            "not tried again at once"
        );
        assert_eq!(executor.snapshot().copied_tables, 2, "the others");
    }
}

#[test]
fn who_wants_no_copies_gets_none() {
    let counted = Counted::new();
    let builder = two_sockets().copy_rate(None);
    let (executor, table) = moved_away(builder, counted.on_node(0, 7, Fate::Made));
    // As long as it takes where copies are made.
    let others = Counted::new();
    let (copies, other) = moved_away(two_sockets(), others.on_node(0, 7, Fate::Made));
    until(&copies, other, || {
        assert_eq!(found(&executor, table), (7, 0));
        copies.snapshot().copied_tables == 1
    });
    assert_eq!(counted.copies.load(Ordering::SeqCst), 0);
}

#[test]
fn an_index_that_was_replaced_meanwhile_is_not_put_back() {
    let counted = Counted::new();
    let (begins, begun) = channel();
    let (executor, table) = moved_away(two_sockets(), counted.on_node(0, 7, Fate::Endless(begins)));
    until(&executor, table, || begun.try_recv().is_ok());
    executor
        .replace_table(table, counted.on_node(1, 8, Fate::Made))
        .unwrap();
    // The copy is given up half way.
    until(&executor, table, || {
        counted.dropped.load(Ordering::SeqCst) == 1
    });
    assert_eq!(found(&executor, table), (8, 1));
    assert_eq!(executor.snapshot().copied_tables, 0);
}

#[test]
fn a_shutdown_waits_for_no_copy() {
    let counted = Counted::new();
    let (begins, begun) = channel();
    let (executor, table) = moved_away(two_sockets(), counted.on_node(0, 7, Fate::Endless(begins)));
    until(&executor, table, || begun.try_recv().is_ok());
    executor.shutdown(Shutdown::Drain(HANG));
    drop(executor);
    assert_eq!(counted.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn copies_are_made_no_faster_than_they_may() {
    let counted = Counted::new();
    let builder = two_sockets().copy_rate(Some(64 * MIB));
    let begins = Arc::clone(&counted.begun);
    let (executor, table) = moved_away(builder, counted.on_node(0, 7, Fate::Made));
    until(&executor, table, || executor.snapshot().copied_tables == 1);
    // A quarter of a second; the first piece does not wait.
    let begun = begins.lock().expect("it was copied");
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_table_with_homes_on_both_sockets_has_a_copy_on_each() {
    let counted = Counted::new();
    let executor = two_sockets().memory_budget(16 * MIB).build().unwrap();
    let table = executor.add_table("hot", counted.on_node(0, 7, Fate::Made));
    let executor = &executor;
    let (near, far) = (AtomicU64::new(0), AtomicU64::new(0));
    crate::common::threads::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let begun = Instant::now();
                while far.load(Ordering::SeqCst) < 100 && begun.elapsed() < HANG {
                    // Busy enough to need both domains.
                    let code = |_: &mut Context| {
                        let begun = Instant::now();
                        while begun.elapsed() < Duration::from_micros(300) {}
                    };
                    let busy = executor
                        .submit_fn(table, None, code)
                        .map(|ticket| ticket.wait());
                    assert!(busy.is_ok_and(|done| done.is_ok()));
                    let (version, node) = found(executor, table);
                    assert_eq!(version, 7);
                    [&near, &far][node as usize].fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(far.into_inner() >= 100, "{near:?} answers of the first");
    let snapshot = executor.snapshot();
    assert_eq!(snapshot.tables[0].copies, 2);
    assert_eq!(snapshot.tables[0].memory, [(0, 16 * MIB), (1, 16 * MIB)]);
}
