//! The pools that services use today: a closure a query, no idea of tables or caches.

use anyhow::Context as _;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::{Builder, Runtime};

use super::{Job, Pool, Workers};
use crate::bench::arguments::Graph;
use crate::bench::tables::BuiltTable;

/// A pool that runs closures, and searches in them.
pub(super) struct Closures<P> {
    pub(super) pool: P,
    pub(super) tables: &'static [BuiltTable],
    pub(super) graph: Graph,
}

/// Hands a closure over. The answer goes to the completion, so nothing comes back.
pub(super) trait Spawn: Send + Sync {
    fn spawn(&self, task: impl FnOnce() + Send + 'static);
}

impl<P: Spawn> Pool for Closures<P> {
    fn send(&self, job: Job) {
        let (tables, graph) = (self.tables, self.graph);
        self.pool.spawn(move || {
            let table = tables[job.table].index(graph);
            let hits = table.search(&job.query, &mut chiplet_table::Context::default());
            job.done.finish(hits.ok().as_deref());
        });
    }
}

impl Spawn for ThreadPool {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.spawn(task);
    }
}

/// A rayon pool of its own.
pub(super) fn rayon(workers: &Workers) -> anyhow::Result<ThreadPool> {
    let confined = workers.clone();
    ThreadPoolBuilder::new()
        .num_threads(workers.count)
        .thread_name(|index| format!("rayon-{index}"))
        .start_handler(move |_| confined.confine())
        .build()
        .context("the rayon pool did not start")
}

impl Spawn for Runtime {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.spawn_blocking(task);
    }
}

/// tokio's pool for blocking work, with as many threads as the others have workers.
pub(super) fn spawn_blocking(workers: &Workers) -> anyhow::Result<Runtime> {
    let confined = workers.clone();
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(workers.count)
        .thread_name("tokio")
        // A thread that a sender makes would otherwise stay on the sender's core.
        .on_thread_start(move || confined.confine())
        .build()
        .context("the tokio runtime did not start")
}
