//! The pools that services use today: a closure a query, no idea of tables or caches.

use anyhow::Context as _;

use super::{Job, Pool, Workers};
use crate::bench::arguments::Graph;
use crate::bench::tables::Tables;

/// A rayon pool of its own.
pub(super) struct Rayon {
    pool: rayon::ThreadPool,
    tables: &'static Tables,
    graph: Graph,
}

impl Rayon {
    pub(super) fn start(
        workers: &Workers,
        tables: &'static Tables,
        graph: Graph,
    ) -> anyhow::Result<Self> {
        let confined = workers.clone();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers.count)
            .thread_name(|index| format!("rayon-{index}"))
            .start_handler(move |_| confined.confine())
            .build()
            .context("the rayon pool did not start")?;
        Ok(Self {
            pool,
            tables,
            graph,
        })
    }
}

impl Pool for Rayon {
    fn send(&self, job: Job) {
        let (tables, graph) = (self.tables, self.graph);
        self.pool.spawn(move || answer(tables, graph, job));
    }
}

/// tokio's pool for blocking work, with as many threads as the others have workers.
pub(super) struct SpawnBlocking {
    runtime: tokio::runtime::Runtime,
    tables: &'static Tables,
    graph: Graph,
}

impl SpawnBlocking {
    pub(super) fn start(
        workers: &Workers,
        tables: &'static Tables,
        graph: Graph,
    ) -> anyhow::Result<Self> {
        let confined = workers.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(workers.count)
            .thread_name("tokio")
            // A thread that a sender makes would otherwise stay on the sender's core.
            .on_thread_start(move || confined.confine())
            .build()
            .context("the tokio runtime did not start")?;
        Ok(Self {
            runtime,
            tables,
            graph,
        })
    }
}

impl Pool for SpawnBlocking {
    fn send(&self, job: Job) {
        let (tables, graph) = (self.tables, self.graph);
        // The handle is dropped: the answer goes to the completion.
        self.runtime
            .spawn_blocking(move || answer(tables, graph, job));
    }
}

fn answer(tables: &Tables, graph: Graph, job: Job) {
    let table = tables.all[job.table].index(graph);
    let hits = table.search(&job.query, &mut chiplet_executor::Context::default());
    job.done.finish(hits.ok().as_deref());
}
