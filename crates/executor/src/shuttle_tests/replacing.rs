//! A table's index is replaced while others submit to it and it is removed.

use super::*;

/// Finds its version.
struct Version(u64);

impl Table for Version {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        self.0
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        thread::yield_now();
        context.add_bytes(1);
        let (id, distance) = (self.0, 0.0);
        Ok(vec![Neighbor { id, distance }])
    }
}

/// One replaces and then removes, two submit: what is asked after a replacement has returned is not answered by the
/// index before, and everything is counted, on whatever index it ran.
fn replacement() {
    let planner =
        PlannerConfig::new().windows(WindowConfig::new().fast(Duration::from_millis(100)));
    let executor = Arc::new(builder(1, 1).planner(planner).build().unwrap());
    let table = executor.add_table("versions", Version(0));
    let there = Arc::new(AtomicU32::new(0));
    let clients = [0, 1].map(|_| {
        let (executor, there) = (Arc::clone(&executor), Arc::clone(&there));
        thread::spawn(move || {
            let mut accepted = 0;
            for _ in 0..3 {
                let least = u64::from(there.load(Ordering::SeqCst));
                match executor.submit(table, Query::new([0.0])) {
                    Ok(ticket) => {
                        accepted += 1;
                        let found = ticket.wait().unwrap()[0].id;
                        assert!((least..=2).contains(&found), "{found} after {least}");
                    }
                    Err(refused) => assert_eq!(refused.reason, SubmitError::UnknownTable),
                }
            }
            accepted
        })
    });
    let other = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || executor.remove_table(table))
    };
    for number in [1, 2] {
        let version = Version(u64::from(number));
        if executor.replace_table(table, version).is_err() {
            break;
        }
        there.store(number, Ordering::SeqCst);
    }
    assert!(other.join().unwrap().is_ok(), "it is removed once");
    assert!(executor.replace_table(table, Version(3)).is_err());
    assert!(executor.snapshot().tables.is_empty());
    let accepted = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, accepted);
}

/// Finds its version, and is copied.
struct Moving {
    version: u64,
    node: u32,
    copied: Arc<AtomicU32>,
}

impl Table for Moving {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        4
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        vec![(self.node, 4)]
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        for _ in 0..4 {
            thread::yield_now();
            if !pace(1) {
                return Ok(None);
            }
        }
        self.copied.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Box::new(Self {
            version: self.version,
            node: nodes[0],
            copied: Arc::clone(&self.copied),
        })))
    }

    fn search(&self, _: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        thread::yield_now();
        context.add_bytes(1 << 30);
        let (id, distance) = (self.version, 0.0);
        Ok(vec![Neighbor { id, distance }])
    }
}

/// A table's memory is copied to the other socket while its index is replaced: the copy of the old one never takes the
/// place of the new one, whatever of both comes first.
fn copying() {
    let windows = WindowConfig::new()
        .fast(Duration::from_nanos(10))
        .slow(Duration::from_nanos(10));
    let trigger = TriggerConfig::new().cooldown(None);
    let planner = PlannerConfig::new().windows(windows).trigger(trigger);
    let machine = Topology::builder()
        .domain(1 << 20, 1)
        .package()
        .domain(1 << 20, 1);
    let executor = Executor::builder()
        .topology(machine.build().unwrap())
        .believe_nodes(true)
        .planner(planner)
        .build()
        .unwrap();
    let copied = Arc::new(AtomicU32::new(0));
    let version = |version, node| Moving {
        version,
        node,
        copied: Arc::clone(&copied),
    };
    let table = executor.add_table("versions", version(0, 0));
    executor.restrict_to(&[1]).unwrap();
    let ask = || executor.search(table, Query::new([0.0])).wait().unwrap()[0].id;
    let mut asked = 0;
    // Until it is copied, or its memory rests.
    while copied.load(Ordering::SeqCst) == 0 && asked < 3 {
        assert_eq!(ask(), 0);
        asked += 1;
    }
    assert!(executor.replace_table(table, version(1, 1)).is_ok());
    for _ in 0..3 {
        assert_eq!(ask(), 1, "what was copied is another index");
    }
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, asked + 3);
}

checks! {
    a_copy_takes_the_place_of_its_own_index: copying without CopyIsOfIndex;
    a_replaced_table_is_accounted_for: replacement without RetireWaitsForReplaced;
}
