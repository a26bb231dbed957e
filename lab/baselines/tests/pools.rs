//! The baselines answer as an unsplit search does, under each of their rules, and lose nothing.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chiplet_baselines::{Pool, Strategy};
use chiplet_table::{Context, Neighbor, Probe, Query, SearchError, SplitTable, Table};
use chiplet_topology::Topology;

const BASELINES: [Strategy; 3] = [
    Strategy::ROUND_ROBIN,
    Strategy::FORK_JOIN,
    Strategy::GLOBAL_STEAL,
];

/// A test that waits this long has hung.
const HANG: Duration = Duration::from_secs(60);

const LISTS: u64 = 8;
const PER_LIST: u64 = 5;

/// The numbers 0 to 39 in lists of five. A query for -1 panics, one for -2 waits at the gate.
#[derive(Default)]
struct Numbers {
    gate: Arc<(Mutex<bool>, Condvar)>,
    scans: AtomicUsize,
}

impl Numbers {
    fn meet(&self, query: &Query) {
        match query.vector()[0] {
            -1.0 => panic!("as the test wants it"),
            -2.0 => {
                let open = self.gate.0.lock().unwrap();
                drop(self.gate.1.wait_while(open, |open| !*open).unwrap());
            }
            _ => {}
        }
    }
}

impl Table for Numbers {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        (LISTS * PER_LIST) as usize
    }

    fn size_bytes(&self) -> u64 {
        1
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for Numbers {
    fn coarse(&self, query: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
        query.check(1)?;
        self.meet(query);
        let probe = |list| Probe {
            list,
            distance: 0.0,
            cost_bytes: 1,
        };
        Ok((0..LISTS).map(probe).collect())
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        _: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        let ids = probes[unit]
            .iter()
            .flat_map(|probe| probe.list * PER_LIST..(probe.list + 1) * PER_LIST);
        let distance = |id: u64| (id as f32 - query.vector()[0]).abs();
        let found = ids.map(|id| Neighbor {
            id,
            distance: distance(id),
        });
        Ok(chiplet_table::merge_nearest(
            query.k(),
            vec![found.collect()],
        ))
    }
}

type Answer = Result<Vec<Neighbor>, SearchError>;

fn pool(strategy: &Strategy, workers: u32, limit: usize) -> Pool {
    let machine = Topology::uniform(2, workers.div_ceil(2), 32 << 20);
    Pool::start(strategy, &machine, workers as usize, limit).unwrap()
}

fn send(pool: &Pool, table: &Arc<dyn Table>, at: f32, to: &Sender<(f32, Answer)>) -> bool {
    let to = to.clone();
    let done = move |found| drop(to.send((at, found)));
    pool.search(table, Query::new([at]).top(7), done).is_ok()
}

fn next(answers: &Receiver<(f32, Answer)>) -> (f32, Answer) {
    answers.recv_timeout(HANG).expect("every query is answered")
}

#[test]
fn each_gives_the_unsplit_answer() {
    for strategy in BASELINES {
        let numbers = Arc::new(Numbers::default());
        let table: Arc<dyn Table> = Arc::clone(&numbers) as _;
        let pool = pool(&strategy, 4, 1_000);
        let (to, answers) = channel();
        for n in 0..200 {
            assert!(send(&pool, &table, n as f32 / 5.0, &to));
        }
        for _ in 0..200 {
            let (at, found) = next(&answers);
            let query = Query::new([at]).top(7);
            let whole = Numbers::default().search(&query, &mut Context::default());
            assert_eq!(found, whole, "{strategy}");
        }
        let scans = numbers.scans.load(Ordering::Relaxed) as u64;
        let expected = match strategy == Strategy::ROUND_ROBIN {
            true => 200,
            false => 200 * LISTS,
        };
        assert_eq!(scans, expected, "{strategy}");
        assert!(pool.steals().iter().sum::<u64>() >= 200, "{strategy}");
    }
}

#[test]
fn only_stealing_serves_the_queues_of_workers_that_are_held() {
    for strategy in BASELINES {
        let numbers = Arc::new(Numbers::default());
        let table: Arc<dyn Table> = Arc::clone(&numbers) as _;
        let pool = pool(&strategy, 4, 1_000);
        let (to, answers) = channel();
        // Held in turn: the first three of four workers.
        for _ in 0..3 {
            assert!(send(&pool, &table, -2.0, &to));
        }
        for n in 0..40 {
            assert!(send(&pool, &table, n as f32, &to));
        }
        // Where nothing is stolen a quarter of them is the free worker's, and it may have been one of the three.
        let steals = strategy == Strategy::GLOBAL_STEAL;
        if steals {
            for _ in 0..40 {
                assert!(next(&answers).0 >= 0.0);
            }
        }
        *numbers.gate.0.lock().unwrap() = true;
        numbers.gate.1.notify_all();
        for _ in 0..if steals { 3 } else { 43 } {
            assert!(next(&answers).1.is_ok());
        }
        if strategy == Strategy::ROUND_ROBIN {
            assert_eq!(pool.steals(), [43, 0, 0]);
        }
        if steals {
            assert!(pool.steals()[1..].iter().any(|&taken| taken > 0));
        }
    }
}

#[test]
fn a_full_queue_hands_the_query_back_and_a_panic_ends_one_query() {
    for strategy in BASELINES {
        let numbers = Arc::new(Numbers::default());
        let table: Arc<dyn Table> = Arc::clone(&numbers) as _;
        let pool = pool(&strategy, 2, 2);
        let (to, answers) = channel();
        let sent = (0..20).filter(|_| send(&pool, &table, -2.0, &to)).count();
        assert!((2..=6).contains(&sent), "{strategy}: {sent}");
        *numbers.gate.0.lock().unwrap() = true;
        numbers.gate.1.notify_all();
        for _ in 0..sent {
            assert!(next(&answers).1.is_ok());
        }
        assert!(send(&pool, &table, -1.0, &to));
        assert!(matches!(next(&answers).1, Err(SearchError::Backend(_))));
        for _ in 0..2 {
            assert!(send(&pool, &table, 3.0, &to));
            assert_eq!(next(&answers).1.unwrap()[0].id, 3);
        }
    }
}
