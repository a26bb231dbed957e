//! Who runs the searches: chiplet's executor, or for comparison a plain rayon pool beside tokio.

pub(crate) mod background;
pub(crate) mod cores;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chiplet::shutdown::{Shutdown, ShutdownReport};
use chiplet::{
    BuildError, Context, Error, Executor, Neighbor, Query, SubmitError, Table, TableId,
    TableOptions,
};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::collection::table::CollectionTable;
use crate::config::{SchedulerKind, SchedulerSettings};

pub(crate) enum Scheduler {
    Chiplet {
        executor: Box<Executor>,
        workers: usize,
    },
    /// What a service without chiplet often does: one pool for all, unbounded, no deadline, no cancellation.
    Rayon(rayon::ThreadPool),
}

/// A collection's place in the scheduler.
#[derive(Clone)]
pub(crate) enum Slot {
    Table(TableId),
    Pool(Arc<CollectionTable>),
}

/// Why there is no scheduler.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchedulerError {
    #[error(transparent)]
    Machine(#[from] chiplet::topology::TopologyError),
    #[error(transparent)]
    Executor(#[from] BuildError),
    #[error("the pool could not be started: {0}")]
    Pool(#[from] rayon::ThreadPoolBuildError),
}

impl Scheduler {
    pub(crate) fn start(
        settings: &SchedulerSettings,
        on_remap: impl Fn(&chiplet::snapshot::RemapEvent) + Send + Sync + 'static,
    ) -> Result<Self, SchedulerError> {
        match settings.kind {
            SchedulerKind::Chiplet => {
                let topology = cores::detect(settings)?;
                let reserve = cores::reserve(settings, topology.core_count());
                let mut builder = Executor::builder()
                    .reserve_cores(reserve)
                    .name("search")
                    .on_remap(on_remap);
                // Checked when the settings were read.
                if let Ok(Some(pin)) = settings.pin() {
                    builder = builder.pin(pin);
                }
                if settings.workers > 0 {
                    builder = builder.max_workers(settings.workers);
                }
                let executor = builder
                    .queue_per_worker(settings.queue_per_worker)
                    .topology(topology)
                    .build()?;
                Ok(Self::Chiplet {
                    workers: executor.workers().len(),
                    executor: Box::new(executor),
                })
            }
            SchedulerKind::Rayon => Ok(Self::Rayon(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(settings.workers)
                    .thread_name(|number| format!("pool-{number}"))
                    .build()?,
            )),
        }
    }

    pub(crate) fn executor(&self) -> Option<&Executor> {
        match self {
            Self::Chiplet { executor, .. } => Some(executor),
            Self::Rayon(_) => None,
        }
    }

    /// Queries that may wait in each domain; 0 if there is no bound.
    pub(crate) fn queue_limit(&self) -> usize {
        self.executor().map_or(0, Executor::queue_limit)
    }

    /// Queries of one batch that may be under way: enough to keep every worker busy while answers travel, but not more
    /// than half of what a table may have waiting.
    pub(crate) fn batch_window(&self) -> usize {
        match self {
            Self::Chiplet { workers, executor } => {
                (2 * workers).min(table_limit(executor) / 2).max(1)
            }
            Self::Rayon(pool) => 2 * pool.current_num_threads(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Chiplet { .. } => "chiplet",
            Self::Rayon(_) => "rayon",
        }
    }

    pub(crate) fn add(&self, name: Arc<str>, table: CollectionTable) -> Slot {
        match self {
            Self::Chiplet { executor, .. } => {
                let options = TableOptions::new().queue_limit(Some(table_limit(executor)));
                Slot::Table(executor.add_table_with(name, table, options))
            }
            Self::Rayon(_) => Slot::Pool(Arc::new(table)),
        }
    }

    /// The NUMA nodes near a table's home; none where all are as near.
    pub(crate) fn nodes_of(&self, slot: &Slot) -> Vec<u32> {
        match (self, slot) {
            (Self::Chiplet { executor, .. }, Slot::Table(table)) => executor.nodes_of(*table),
            _ => Vec::new(),
        }
    }

    pub(crate) fn remove(&self, slot: &Slot) {
        if let (Self::Chiplet { executor, .. }, Slot::Table(table)) = (self, slot) {
            // Each collection's table is removed once, with the collection.
            let removed = executor.remove_table(*table);
            debug_assert!(removed.is_ok(), "{removed:?}");
        }
    }

    /// Begins a search and returns at once; the future ends with its answer, at `deadline` at the latest. Dropping it
    /// cancels what has not started.
    pub(crate) fn search(
        &self,
        slot: &Slot,
        query: Query,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Neighbor>, Error>> + Send + use<> {
        let begun = match (self, slot) {
            (Self::Chiplet { executor, .. }, Slot::Table(table)) => {
                Begun::Ticket(Ok(executor.search(*table, query.deadline(deadline))))
            }
            (Self::Rayon(pool), Slot::Pool(table)) => {
                let table = Arc::clone(table);
                let (answer, answered) = oneshot::channel();
                pool.spawn(move || {
                    let search = std::panic::AssertUnwindSafe(|| {
                        table.search(&query, &mut Context::default())
                    });
                    let result = match std::panic::catch_unwind(search) {
                        Ok(result) => result.map_err(Error::from),
                        Err(_) => Err(Error::Panicked("the search panicked".into())),
                    };
                    // Whoever asked may have hung up.
                    let _ = answer.send(result);
                });
                Begun::Pool(answered)
            }
            _ => unreachable!("a slot belongs to the scheduler that made it"),
        };
        begun.end(deadline)
    }

    /// Runs what a request of a collection needs besides its search, such as a filter, as a task of the collection's
    /// table: queued, bounded, shared and shed as its searches are, and on their threads. What it does it should stop
    /// when [`Watch::is_wanted`] says no. The future ends at `deadline` at the latest; dropping it cancels.
    pub(crate) fn run<T, F>(
        &self,
        slot: &Slot,
        deadline: Instant,
        code: F,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Watch<'_>) -> T + Send + 'static,
    {
        let begun = match (self, slot) {
            (Self::Chiplet { executor, .. }, Slot::Table(table)) => {
                let task = executor.submit_fn(*table, Some(deadline), move |context| {
                    let wanted = || !context.should_stop();
                    let watch = Watch::new(&wanted);
                    let result = code(&watch);
                    let bytes = watch.bytes.get();
                    context.add_bytes(bytes);
                    result
                });
                Begun::Ticket(task.map_err(|refused| refused.reason))
            }
            (Self::Rayon(pool), Slot::Pool(_)) => {
                let (answer, answered) = oneshot::channel();
                pool.spawn(move || {
                    let wanted = || !answer.is_closed() && Instant::now() < deadline;
                    let work = std::panic::AssertUnwindSafe(|| code(&Watch::new(&wanted)));
                    let result = std::panic::catch_unwind(work)
                        .map_err(|_| Error::Panicked("the task panicked".into()));
                    // Whoever asked may have hung up.
                    let _ = answer.send(result);
                });
                Begun::Pool(answered)
            }
            _ => unreachable!("a slot belongs to the scheduler that made it"),
        };
        begun.end(deadline)
    }

    /// Runs what is queued, for at most `patience`.
    pub(crate) fn drain(&self, patience: Duration) -> Option<ShutdownReport> {
        self.executor()
            .map(|executor| executor.shutdown(Shutdown::Drain(patience)))
    }
}

/// A collection's share of a domain's queue.
fn table_limit(executor: &Executor) -> usize {
    (executor.queue_limit() / 2).max(1)
}

enum Begun<T> {
    Ticket(Result<chiplet::Ticket<T>, SubmitError>),
    Pool(oneshot::Receiver<Result<T, Error>>),
}

impl<T: Send> Begun<T> {
    async fn end(self, deadline: Instant) -> Result<T, Error> {
        match self {
            // A ticket keeps its deadline by itself.
            Self::Ticket(Ok(ticket)) => ticket.await,
            Self::Ticket(Err(reason)) => Err(Error::Refused(reason)),
            Self::Pool(answered) => match timeout_at(deadline.into(), answered).await {
                Ok(answer) => answer.unwrap_or(Err(Error::ShutDown)),
                Err(_) => Err(Error::Expired),
            },
        }
    }
}

/// What a task of [`Scheduler::run`] asks and says while it runs.
pub(crate) struct Watch<'a> {
    wanted: &'a dyn Fn() -> bool,
    bytes: Cell<u64>,
}

impl<'a> Watch<'a> {
    fn new(wanted: &'a dyn Fn() -> bool) -> Self {
        Self {
            wanted,
            bytes: Cell::new(0),
        }
    }

    /// Whether somebody still waits, and the deadline has not passed.
    pub(crate) fn is_wanted(&self) -> bool {
        (self.wanted)()
    }

    /// Counts what was read, which places the table.
    pub(crate) fn read(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }
}

/// How long answers take at present, from which a client is told when to come back whom no queue of the executor has
/// refused, which knows how long it takes to empty: then as many requests are under way as may be.
#[derive(Default)]
pub(crate) struct Pace {
    /// Microseconds, a moving average.
    micros: AtomicU64,
}

impl Pace {
    const LEAST: Duration = Duration::from_millis(10);
    const MOST: Duration = Duration::from_secs(5);

    pub(crate) fn answered(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // A lost update among several threads moves an average by a thirty-second of one answer.
        let average = self.micros.load(Ordering::Relaxed);
        let next = average - average / 32 + took / 32;
        self.micros.store(next, Ordering::Relaxed);
    }

    pub(crate) fn retry_after(&self) -> Duration {
        Self::told(Duration::from_micros(self.micros.load(Ordering::Relaxed)))
    }

    /// What a client is told of a wait.
    pub(crate) fn told(wait: Duration) -> Duration {
        wait.clamp(Self::LEAST, Self::MOST)
    }
}
