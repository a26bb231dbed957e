//! Split queries: equal to unsplit ones, and cut short by a deadline, a dropped ticket or a panic.

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chiplet::{
    Error, Executor, Neighbor, Probe, Query, SearchError, SplitConfig, SplitTable, Strategy, Table,
    Topology, Work,
};
use common::{Gate, still};

const LISTS: u64 = 40;
const PER_LIST: u64 = 25;

/// One-dimensional values in lists, with a hook before each scan.
struct Lists<H> {
    before_scan: H,
}

fn value(id: u64) -> f32 {
    // A fixed scatter with many ties.
    ((id * 7919) % 97) as f32
}

impl<H: Fn() + Send + Sync + 'static> Table for Lists<H> {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        (LISTS * PER_LIST) as usize
    }

    fn size_bytes(&self) -> u64 {
        LISTS * PER_LIST * 4
    }

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        let probes = self.coarse(query, work)?;
        let part = self.scan(query, &probes, 0..probes.len(), work)?;
        Ok(self.merge(query, vec![part]))
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl<H: Fn() + Send + Sync + 'static> SplitTable for Lists<H> {
    fn coarse(&self, query: &Query, _: &mut Work) -> Result<Vec<Probe>, SearchError> {
        query.check(1)?;
        let probe = |list| Probe {
            list,
            distance: list as f32,
            cost_bytes: 1 << 20,
        };
        Ok((0..LISTS).map(probe).collect())
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        work: &mut Work,
    ) -> Result<Vec<Neighbor>, SearchError> {
        (self.before_scan)();
        let lists = probes[unit].iter().map(|probe| probe.list);
        let mut found: Vec<Neighbor> = lists
            .flat_map(|list| list * PER_LIST..(list + 1) * PER_LIST)
            .map(|id| Neighbor {
                id,
                distance: (value(id) - query.vector()[0]).abs(),
            })
            .collect();
        work.add_bytes(4 * found.len() as u64);
        found.sort_unstable();
        found.truncate(query.k());
        Ok(found)
    }
}

fn executor(strategy: Strategy, domains: u32, cores: u32) -> Executor {
    Executor::builder()
        .topology(Topology::uniform(domains, cores, 32 << 20))
        .strategy(strategy)
        .planner(still())
        .build()
        .unwrap()
}

#[test]
fn every_strategy_gives_the_unsplit_answer() {
    for strategy in Strategy::ALL {
        let executor = executor(strategy, 2, 3);
        let table = Lists { before_scan: || () };
        let queries: Vec<Query> = (0..200)
            .map(|n| Query::new([n as f32 / 2.0]).top(1 + n % 30))
            .collect();
        let direct: Vec<_> = queries
            .iter()
            .map(|query| table.search(query, &mut Work::default()).unwrap())
            .collect();
        let id = executor.add_table("lists", table);
        let tickets: Vec<_> = queries
            .into_iter()
            .map(|query| executor.submit(id, query).unwrap())
            .collect();
        for (ticket, direct) in tickets.into_iter().zip(direct) {
            assert_eq!(ticket.wait(), Ok(direct), "{strategy}");
        }
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.done), (200, 200), "{strategy}");
    }
}

#[test]
fn an_idle_domain_shares_one_query_and_a_single_worker_does_not_cut_it() {
    let scans = Arc::new(AtomicUsize::new(0));
    for (cores, split) in [(1, false), (4, true)] {
        scans.store(0, Ordering::SeqCst);
        let counted = Arc::clone(&scans);
        let executor = executor(Strategy::CCD_AWARE, 1, cores);
        let before_scan = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        let id = executor.add_table("lists", Lists { before_scan });
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
    let deadline = Instant::now() + Duration::from_millis(50);
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let before_scan = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        while Instant::now() < deadline {
            std::thread::yield_now();
        }
    };
    let executor = executor(Strategy::GLOBAL_STEAL, 1, 2);
    let id = executor.add_table("lists", Lists { before_scan });
    let outcome = executor
        .search(id, Query::new([3.0]).deadline(deadline))
        .wait();
    assert_eq!(outcome, Err(Error::Expired));
    assert!(
        scans.load(Ordering::SeqCst) <= 2,
        "each worker scans at most the unit it had begun"
    );
    assert_eq!(executor.snapshot().total.expired, 1);
}

#[test]
fn dropping_the_ticket_stops_a_running_query_at_its_next_unit() {
    let gate = Gate::default();
    let (arrived, arrivals) = std::sync::mpsc::channel();
    let scans = Arc::new(AtomicUsize::new(0));
    let (held, counted) = (gate.clone(), Arc::clone(&scans));
    let before_scan = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        arrived.send(()).unwrap();
        held.wait();
    };
    let executor = executor(Strategy::GLOBAL_STEAL, 1, 2);
    let id = executor.add_table("lists", Lists { before_scan });
    let other = executor.add_closure_table("other", 1);
    let ticket = executor.search(id, Query::new([3.0]));
    arrivals.recv_timeout(common::HANG).unwrap();
    drop(ticket);
    gate.open();
    executor.spawn(other, || ()).wait().unwrap();
    let cancelled = std::iter::repeat_with(|| executor.snapshot().total)
        .find(|total| total.ended() == 2)
        .map(|total| total.cancelled);
    assert_eq!(cancelled, Some(1));
    assert!(scans.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_panic_in_one_unit_fails_its_query_alone() {
    let turn = AtomicUsize::new(0);
    let before_scan = move || {
        assert!(
            turn.fetch_add(1, Ordering::SeqCst) != 5,
            "the sixth scan fails"
        );
    };
    let executor = executor(Strategy::GLOBAL_STEAL, 2, 2);
    let id = executor.add_table("lists", Lists { before_scan });
    let first = executor.search(id, Query::new([3.0])).wait();
    assert_eq!(first, Err(Error::Panicked("the sixth scan fails".into())));
    assert_eq!(
        executor.search(id, Query::new([3.0])).wait().unwrap().len(),
        10
    );
    let total = executor.snapshot().total;
    assert_eq!((total.panicked, total.done), (1, 1));
}

#[test]
fn what_the_table_refuses_is_the_tickets_error() {
    let executor = executor(Strategy::default(), 1, 1);
    let id = executor.add_table("lists", Lists { before_scan: || () });
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
    let before_scan = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let split = SplitConfig {
        min_unit_bytes: 1 << 40,
        ..SplitConfig::default()
    };
    let executor = Executor::builder()
        .topology(Topology::uniform(1, 4, 0))
        .split(split)
        .planner(still())
        .build()
        .unwrap();
    let id = executor.add_table("lists", Lists { before_scan });
    for _ in 0..50 {
        executor.search(id, Query::new([3.0])).wait().unwrap();
    }
    assert_eq!(scans.load(Ordering::SeqCst), 50);
}
