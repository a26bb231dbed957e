//! The baselines as thread pools: each worker has a queue, and queries go to the queues in turn.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::JoinHandle;

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use chiplet_topology::{Topology, pin};
use crossbeam_deque::{Injector, Steal};
use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{Parker, Unparker};
use parking_lot::Mutex;

use crate::split::{Done, Split, guarded};
use crate::{Splitting, Stealing, Strategy};

/// How often a worker looks again before it sleeps: some 5-10 us, as chiplet's own do.
const ROUNDS: u32 = 32;

/// A pool under one of the strategies that do not know the machine.
///
/// ```
/// use std::sync::Arc;
/// use chiplet_baselines::{Pool, Strategy};
/// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
/// use chiplet_topology::Topology;
///
/// struct Nothing;
/// impl Table for Nothing {
///     fn dim(&self) -> usize { 1 }
///     fn len(&self) -> usize { 0 }
///     fn size_bytes(&self) -> u64 { 0 }
///     fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> { Ok(Vec::new()) }
/// }
///
/// let pool = Pool::start(&Strategy::GLOBAL_STEAL, &Topology::uniform(1, 2, 32 << 20), 2, 512)?;
/// let (table, (answer, found)) = (Arc::new(Nothing) as Arc<dyn Table>, std::sync::mpsc::channel());
/// let sent = pool.search(&table, Query::new([0.5]), move |found| answer.send(found).unwrap());
/// assert!(sent.is_ok());
/// assert_eq!(found.recv()?, Ok(Vec::new()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Job {
    table: Arc<dyn Table>,
    query: Query,
    done: Done,
}

struct Seat {
    domain: u32,
    queue: Injector<Job>,
    /// Tasks in the queue, or about to be.
    queued: AtomicUsize,
    asleep: AtomicBool,
    unparker: Unparker,
    /// What this worker has taken: of its own, from its domain, from another.
    taken: [AtomicU64; 3],
}

struct Shared {
    strategy: Strategy,
    seats: Box<[CachePadded<Seat>]>,
    turn: CachePadded<AtomicUsize>,
    /// Queries with lists to take.
    open: CachePadded<Mutex<VecDeque<Arc<Split>>>>,
    opened: CachePadded<AtomicUsize>,
    limit: usize,
    closed: AtomicBool,
}

impl Pool {
    /// Starts `workers` threads. On this machine each is tied to one domain of `topology`, the domains in turn. `limit`
    /// is the most that may wait for each worker.
    ///
    /// # Errors
    /// The system has refused a thread.
    ///
    /// # Panics
    /// Without workers, or if the strategy is one of the executor's ([`Strategy::is_chiplets`]).
    pub fn start(
        strategy: &Strategy,
        topology: &Topology,
        workers: usize,
        limit: usize,
    ) -> io::Result<Self> {
        assert!(workers > 0, "a pool has at least one worker");
        assert!(!strategy.is_chiplets(), "{strategy} is the executor's");
        let domains = topology.domains();
        // A core of each domain in turn, until all have had their cores.
        let deepest = domains.iter().map(|domain| domain.cores.len()).max();
        let places: Vec<_> = (0..deepest.unwrap_or(1))
            .flat_map(|core| {
                domains
                    .iter()
                    .filter(move |domain| core < domain.cores.len())
            })
            .cycle()
            .take(workers)
            .collect();
        let parkers: Vec<Parker> = (0..workers).map(|_| Parker::new()).collect();
        let seats = places.iter().zip(&parkers).map(|(place, parker)| {
            CachePadded::new(Seat {
                domain: place.id.0,
                queue: Injector::new(),
                queued: AtomicUsize::new(0),
                asleep: AtomicBool::new(false),
                unparker: parker.unparker().clone(),
                taken: Default::default(),
            })
        });
        let shared = Arc::new(Shared {
            strategy: *strategy,
            seats: seats.collect(),
            turn: CachePadded::default(),
            open: CachePadded::default(),
            opened: CachePadded::default(),
            limit: limit.max(1),
            closed: AtomicBool::new(false),
        });
        let mut pool = Self {
            shared,
            threads: Vec::new(),
        };
        for (index, (parker, place)) in parkers.into_iter().zip(places).enumerate() {
            let pinned = topology.is_this_machine();
            let cpus: Option<Vec<u32>> = pinned.then(|| place.cpus());
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name(format!("pool-{}-{index}", place.id.0));
            pool.threads.push(thread.spawn(move || {
                if let Some(cpus) = cpus
                    && let Err(error) = pin::pin_current_thread(&cpus)
                {
                    eprintln!("chiplet: a baseline's worker is not tied to its domain: {error}");
                }
                Worker {
                    shared,
                    index,
                    parker,
                }
                .run();
            })?);
        }
        Ok(pool)
    }

    /// Searches `table`; `done` is told the answer on the worker that has it.
    ///
    /// # Errors
    /// The query and `done`, if as many wait for the worker whose turn it is as may.
    pub fn search<F>(&self, table: &Arc<dyn Table>, query: Query, done: F) -> Result<(), (Query, F)>
    where
        F: FnOnce(Result<Vec<Neighbor>, SearchError>) + Send + 'static,
    {
        let shared = &*self.shared;
        let turn = shared.turn.fetch_add(1, Ordering::Relaxed) % shared.seats.len();
        let seat = &shared.seats[turn];
        if seat.queued.fetch_add(1, Ordering::Relaxed) >= shared.limit {
            seat.queued.fetch_sub(1, Ordering::Relaxed);
            return Err((query, done));
        }
        seat.queue.push(Job {
            table: Arc::clone(table),
            query,
            done: Box::new(done),
        });
        fence(Ordering::SeqCst);
        if !shared.wake(turn) && shared.strategy.stealing == Stealing::Anywhere {
            shared.wake_any(1);
        }
        Ok(())
    }

    /// Queries and lists that workers took from their own queues, from their domains' others, and from other domains.
    pub fn steals(&self) -> [u64; 3] {
        let seats = self.shared.seats.iter();
        seats.fold([0; 3], |sum, seat| {
            [0, 1, 2].map(|level| sum[level] + seat.taken[level].load(Ordering::Relaxed))
        })
    }
}

/// Ends the workers; what waits is dropped.
impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for seat in &self.shared.seats {
            seat.unparker.unpark();
        }
        for thread in self.threads.drain(..) {
            // A panic of a `done` has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Wakes a worker if it sleeps.
    fn wake(&self, worker: usize) -> bool {
        let seat = &self.seats[worker];
        let woken =
            seat.asleep.load(Ordering::Relaxed) && seat.asleep.swap(false, Ordering::SeqCst);
        if woken {
            seat.unparker.unpark();
        }
        woken
    }

    fn wake_any(&self, mut wanted: usize) {
        for worker in 0..self.seats.len() {
            if wanted == 0 {
                return;
            }
            wanted -= usize::from(self.wake(worker));
        }
    }

    /// A query with lists to take; those without are forgotten.
    fn open(&self) -> Option<Arc<Split>> {
        if self.opened.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut open = self.open.lock();
        while let Some(first) = open.front() {
            if first.is_open() {
                return Some(Arc::clone(first));
            }
            open.pop_front();
            self.opened.fetch_sub(1, Ordering::Relaxed);
        }
        None
    }

    /// Whether there is something for `worker`.
    fn is_any(&self, worker: usize) -> bool {
        let steals = self.strategy.stealing == Stealing::Anywhere;
        !self.seats[worker].queue.is_empty()
            || (steals && self.seats.iter().any(|seat| !seat.queue.is_empty()))
            || self.open().is_some()
    }
}

struct Worker {
    shared: Arc<Shared>,
    index: usize,
    parker: Parker,
}

impl Worker {
    fn run(self) {
        while !self.shared.closed.load(Ordering::Relaxed) {
            if !self.step() {
                self.sleep();
            }
        }
    }

    /// Does one thing: a query of its own, a list of anybody's query, a query of anybody's queue.
    fn step(&self) -> bool {
        if let Some(job) = self.take(self.index) {
            self.search(job);
            return true;
        }
        if self.scan(self.shared.open()) {
            return true;
        }
        if self.shared.strategy.stealing != Stealing::Anywhere {
            return false;
        }
        let seats = &self.shared.seats;
        let queued = |victim: &usize| seats[*victim].queued.load(Ordering::Relaxed);
        let longest = (0..seats.len()).filter(|&other| other != self.index);
        match longest
            .max_by_key(queued)
            .and_then(|victim| self.take(victim))
        {
            Some(job) => {
                self.search(job);
                true
            }
            None => false,
        }
    }

    fn take(&self, from: usize) -> Option<Job> {
        let seat = &self.shared.seats[from];
        loop {
            match seat.queue.steal() {
                Steal::Success(job) => {
                    seat.queued.fetch_sub(1, Ordering::Relaxed);
                    self.count(from);
                    return Some(job);
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    fn count(&self, from: usize) {
        let seats = &self.shared.seats;
        let level = match from == self.index {
            true => 0,
            false if seats[from].domain == seats[self.index].domain => 1,
            false => 2,
        };
        seats[self.index].taken[level].fetch_add(1, Ordering::Relaxed);
    }

    fn search(&self, job: Job) {
        let Job { table, query, done } = job;
        let splits = self.shared.strategy.splitting == Splitting::AllCores;
        let several = self.shared.seats.len() > 1;
        let split = table.as_split().filter(|_| splits && several);
        let mut context = Context::default();
        let Some(split) = split else {
            return done(guarded(|| table.search(&query, &mut context)));
        };
        let coarse = guarded(|| Ok((split.coarse(&query, &mut context)?, split.grain().max(1))));
        let (probes, grain) = match coarse {
            Ok(coarse) => coarse,
            Err(error) => return done(Err(error)),
        };
        if probes.len() <= grain {
            return done(guarded(|| table.search(&query, &mut context)));
        }
        let barrier = self.shared.strategy.stealing == Stealing::Never;
        let waiting = barrier.then_some(self.index);
        let split = Split::new(Arc::clone(&table), query, probes, grain, done, waiting);
        let split = Arc::new(split);
        self.shared.open.lock().push_back(Arc::clone(&split));
        self.shared.opened.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.shared.wake_any(split.units() - 1);
        while self.scan_of(&split) {}
        while barrier && !split.is_answered() && !self.shared.closed.load(Ordering::Relaxed) {
            // It takes nothing but lists until all of its own are done.
            if !self.scan(self.shared.open()) {
                self.park(|| split.is_answered() || self.shared.open().is_some());
            }
        }
    }

    fn scan(&self, open: Option<Arc<Split>>) -> bool {
        open.is_some_and(|split| self.scan_of(&split))
    }

    /// Scans one list of a query. False if there was none left.
    fn scan_of(&self, split: &Split) -> bool {
        let Some(answered) = split.scan_next() else {
            return false;
        };
        self.count(split.waiting.unwrap_or(self.index));
        if answered && let Some(waiting) = split.waiting {
            self.shared.seats[waiting].unparker.unpark();
        }
        true
    }

    /// Looks again for a moment, and then sleeps until there is something.
    fn sleep(&self) {
        for round in 0..ROUNDS {
            for _ in 0..1 << round.min(3) {
                std::hint::spin_loop();
            }
            if self.shared.is_any(self.index) {
                return;
            }
        }
        self.park(|| self.shared.is_any(self.index));
    }

    /// Parks, unless there is something to do by the time that others see it asleep.
    fn park(&self, is_any: impl Fn() -> bool) {
        let seat = &self.shared.seats[self.index];
        seat.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_any() && !self.shared.closed.load(Ordering::SeqCst) {
            self.parker.park();
        }
        seat.asleep.store(false, Ordering::SeqCst);
    }
}
