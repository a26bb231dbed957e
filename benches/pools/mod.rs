//! The thread pools that people use today, and chiplet, behind one small trait.
//!
//! Each is used as its documentation says: a closure in, its result back through whatever the pool gives for
//! that; where it gives nothing, through a `oneshot` channel, as services do.

use std::future::Future;

use std::thread::available_parallelism;

use chiplet::topology::LevelChoice;
use chiplet::{Executor, TableId, Topology};

/// Threads of every pool: as many as this process may use processors.
pub fn workers() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Tasks that one submitter has on their way at once.
pub const BATCH: usize = 128;

/// A pool that runs closures.
pub trait Pool: Send + Sync {
    fn name(&self) -> &'static str;

    /// Runs one closure and waits for its result.
    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64;

    /// Hands [`BATCH`] closures over, then waits for all results; returns their sum.
    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64;
}

/// All pools, chiplet first.
pub fn all() -> Vec<Box<dyn Pool>> {
    vec![
        Box::new(Chiplet::new()),
        Box::new(Rayon::new()),
        Box::new(SpawnBlocking::new()),
        Box::new(AffinityPool::new()),
        Box::new(Vicinal::new()),
        Box::new(ThreadPool::new()),
    ]
}

/// chiplet on this machine's domains; where it has one, a plain pool like the others, not pinned.
pub struct Chiplet {
    executor: Executor,
    table: TableId,
}

impl Chiplet {
    pub fn new() -> Self {
        let machine = Topology::detect(LevelChoice::Auto).expect("the machine can be read");
        let topology = match machine.domains().len() {
            1 => Topology::uniform(1, workers() as u32, 32 << 20),
            _ => machine,
        };
        let executor = Executor::builder()
            .topology(topology)
            .max_workers(workers())
            .queue_limit(16 * BATCH)
            .build()
            .expect("the workers start");
        let table = executor.add_closure_table("table", 1 << 20);
        Self { executor, table }
    }
}

impl Pool for Chiplet {
    fn name(&self) -> &'static str {
        "chiplet"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let ticket = self.executor.spawn(self.table, move || code(argument));
        ticket.wait().expect("nothing here panics")
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let tickets: Vec<_> = (0..BATCH)
            .map(|_| self.executor.spawn(self.table, move || code(argument)))
            .collect();
        let results = tickets.into_iter().map(|ticket| ticket.wait());
        results
            .map(|result| result.expect("nothing here panics"))
            .sum()
    }
}

/// A rayon pool: `spawn` and a `oneshot` channel.
pub struct Rayon(rayon::ThreadPool);

impl Rayon {
    pub fn new() -> Self {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers())
            .build();
        Self(pool.expect("the workers start"))
    }
}

impl Pool for Rayon {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        one_by_channel(self, code, argument)
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        batch_by_channel(self, code, argument)
    }
}

/// The `threadpool` crate: `execute` and a `oneshot` channel.
pub struct ThreadPool(std::sync::Mutex<threadpool::ThreadPool>);

impl ThreadPool {
    pub fn new() -> Self {
        Self(std::sync::Mutex::new(
            threadpool::ThreadPool::new(workers()),
        ))
    }

    /// A handle of this thread's own; the pool's sender may not be shared.
    fn handle(&self) -> threadpool::ThreadPool {
        self.0
            .lock()
            .expect("nothing panics under this lock")
            .clone()
    }
}

impl Pool for ThreadPool {
    fn name(&self) -> &'static str {
        "threadpool"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        one_by_channel(&self.handle(), code, argument)
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        batch_by_channel(&self.handle(), code, argument)
    }
}

/// tokio's `spawn_blocking`, its join handles awaited on the submitting thread.
pub struct SpawnBlocking(tokio::runtime::Runtime);

impl SpawnBlocking {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(workers())
            .build();
        Self(runtime.expect("the runtime starts"))
    }
}

impl Pool for SpawnBlocking {
    fn name(&self) -> &'static str {
        "tokio spawn_blocking"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let handle = self.0.spawn_blocking(move || code(argument));
        pollster::block_on(handle).expect("nothing here panics")
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let spawn = |_| self.0.spawn_blocking(move || code(argument));
        await_all((0..BATCH).map(spawn).collect(), |result| {
            result.expect("nothing here panics")
        })
    }
}

/// The `affinitypool` crate.
pub struct AffinityPool(affinitypool::Threadpool);

impl AffinityPool {
    pub fn new() -> Self {
        Self(affinitypool::Threadpool::new(workers()))
    }
}

impl Pool for AffinityPool {
    fn name(&self) -> &'static str {
        "affinitypool"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        pollster::block_on(self.0.spawn(move || code(argument)))
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        // Its futures are handed over when they are made, and are not `Unpin`.
        let spawn = |_| Box::pin(self.0.spawn(move || code(argument)));
        await_all((0..BATCH).map(spawn).collect(), |result| result)
    }
}

/// The `vicinal` crate: tasks run on the processor they are submitted from.
pub struct Vicinal {
    // Its threads end with it.
    _pool: vicinal::Pool,
    scheduler: vicinal::Scheduler,
}

impl Vicinal {
    pub fn new() -> Self {
        let pool = vicinal::Pool::new();
        let scheduler = pool.scheduler();
        Self {
            _pool: pool,
            scheduler,
        }
    }
}

impl Pool for Vicinal {
    fn name(&self) -> &'static str {
        "vicinal"
    }

    fn run_one(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let handle = self.scheduler.spawn(move || code(argument));
        pollster::block_on(handle).unwrap_or_else(|_| panic!("nothing here panics"))
    }

    fn run_batch(&self, code: fn(u64) -> u64, argument: u64) -> u64 {
        let spawn = |_| self.scheduler.spawn(move || code(argument));
        await_all((0..BATCH).map(spawn).collect(), |result| {
            result.unwrap_or_else(|_| panic!("nothing here panics"))
        })
    }
}

fn await_all<F: Future>(handles: Vec<F>, value: impl Fn(F::Output) -> u64) -> u64 {
    handles
        .into_iter()
        .map(|handle| value(pollster::block_on(handle)))
        .sum()
}

/// A pool that takes closures and gives nothing back.
trait Spawn {
    fn spawn(&self, task: impl FnOnce() + Send + 'static);
}

impl Spawn for Rayon {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn(task);
    }
}

impl Spawn for threadpool::ThreadPool {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.execute(task);
    }
}

fn one_by_channel(pool: &impl Spawn, code: fn(u64) -> u64, argument: u64) -> u64 {
    send(pool, code, argument).recv().expect("the task runs")
}

fn batch_by_channel(pool: &impl Spawn, code: fn(u64) -> u64, argument: u64) -> u64 {
    let results: Vec<_> = (0..BATCH).map(|_| send(pool, code, argument)).collect();
    let values = results.into_iter().map(|result| result.recv());
    values.map(|value| value.expect("the task runs")).sum()
}

fn send(pool: &impl Spawn, code: fn(u64) -> u64, argument: u64) -> oneshot::Receiver<u64> {
    let (answer, result) = oneshot::channel();
    pool.spawn(move || {
        // The receiver waits until this is sent.
        let _ = answer.send(code(argument));
    });
    result
}
