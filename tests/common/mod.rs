//! What the black-box tests share: a gate that holds tasks, tables with hooks, and small executors on made-up
//! machines.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod dice;
pub mod hooked;
pub mod lists;
pub mod load;
pub mod rules;
pub mod threads;
pub mod words;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use chiplet::{
    Builder, Context, Executor, Neighbor, PlannerConfig, Query, Refused, SearchError, SubmitError,
    Table, TableId, TableOptions, Ticket, Topology, TriggerConfig,
};
use chiplet_policy::WindowConfig;

/// Long enough for any machine; a test that waits this long has hung.
pub const HANG: Duration = Duration::from_secs(60);

/// Tasks that wait at a gate keep their workers busy until the test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let mut open = self.0.0.lock();
        self.0.1.wait_while(&mut open, |open| !*open);
    }
}

/// Opens a gate even if the test fails, so that dropping the executor does not wait for held workers.
pub struct OpenOnDrop(pub Gate);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// An executor on `domains` x `cores` made-up cores that never remaps.
pub fn executor(domains: u32, cores: u32) -> Executor {
    builder(domains, cores).build().unwrap()
}

/// What [`executor`] builds, to be changed.
pub fn builder(domains: u32, cores: u32) -> Builder {
    Executor::builder()
        .topology(Topology::uniform(domains, cores, 32 << 20))
        .planner(still())
}

/// The time of a remap never comes.
pub fn still() -> PlannerConfig {
    PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None))
}

/// A remap for any imbalance that has lasted for a fraction of a second.
pub fn restless() -> PlannerConfig {
    PlannerConfig::new()
        .windows(
            WindowConfig::new()
                .fast(Duration::from_millis(100))
                .slow(Duration::from_millis(400)),
        )
        .trigger(
            TriggerConfig::new()
                .cooldown(Some(Duration::from_millis(50)))
                .min_wait(0.0),
        )
}

/// A table that only closures search, with options.
pub fn closure_table(executor: &Executor, name: &str, options: TableOptions) -> TableId {
    let table = executor.add_closure_table(name, 1);
    executor.set_table_options(table, options).unwrap();
    table
}

/// The number of `table`'s main home.
pub fn home(executor: &Executor, table: TableId) -> u32 {
    executor.placement().homes(table).unwrap().main().domain.0
}

/// Of four new tables on two domains, the two that share a home: traffic to them alone is uneven.
pub fn neighbours(executor: &Executor) -> Vec<TableId> {
    let mut tables: Vec<_> = (0..4)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let first = home(executor, tables[0]);
    tables.retain(|&table| home(executor, table) == first);
    assert_eq!(tables.len(), 2, "new tables are spread evenly");
    tables
}

/// Returns after `time`: nothing but the clock tells of a deadline.
pub fn pass(time: Instant) {
    while Instant::now() < time {
        std::thread::yield_now();
    }
}

/// Panics when it is dropped, unless the thread is panicking already, which would abort the process.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor panics");
        }
    }
}

/// An empty table with a destructor.
pub struct Departing<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Departing<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<F: FnMut() + Send + Sync + 'static> Table for Departing<F> {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        0
    }

    fn size_bytes(&self) -> u64 {
        0
    }

    fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        Ok(Vec::new())
    }
}

/// Holds `count` workers at `gate`; returns when all of them are there.
pub fn hold(executor: &Executor, table: TableId, count: usize, gate: &Gate) -> Vec<Ticket<()>> {
    let (arrived, arrivals): (Sender<()>, Receiver<()>) = channel();
    let tickets = (0..count)
        .map(|_| {
            let gate = gate.clone();
            let arrived = arrived.clone();
            executor.spawn(table, move || {
                arrived.send(()).unwrap();
                gate.wait();
            })
        })
        .collect();
    for _ in 0..count {
        arrivals
            .recv_timeout(HANG)
            .expect("a worker takes each held task");
    }
    tickets
}

/// Whose bound a task was over, and the bound: a domain's, by its number, or the table's.
pub fn full_at(reason: SubmitError) -> (Option<u32>, usize) {
    match reason {
        SubmitError::Overloaded { domain, limit, .. } => (Some(domain), limit),
        SubmitError::TableOverloaded { limit, .. } => (None, limit),
        SubmitError::TableClosed => (None, 0),
        other => panic!("no queue was full: {other}"),
    }
}

/// What `submit` has accepted, once the executor has cleared away the dead tasks that hold the places.
pub fn accepted_in_time<T, I>(mut submit: impl FnMut() -> Result<T, Refused<I>>) -> T {
    let begun = Instant::now();
    loop {
        match submit() {
            Ok(accepted) => return accepted,
            Err(refused) => assert!(begun.elapsed() < HANG, "still {:?}", refused.reason),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
