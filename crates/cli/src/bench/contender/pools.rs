//! The pools that services use today: a closure a query, no idea of tables or caches.

use std::sync::Arc;

use anyhow::Context as _;

use super::{Contender, Job};
use crate::bench::shelf::{Graph, Shelf};

/// A rayon pool of its own.
pub(super) struct Rayon {
    pool: rayon::ThreadPool,
    shelf: Arc<Shelf>,
    graph: Graph,
}

impl Rayon {
    pub(super) fn start(workers: usize, shelf: &Arc<Shelf>, graph: Graph) -> anyhow::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(|index| format!("rayon-{index}"))
            .build()
            .context("the rayon pool did not start")?;
        Ok(Self {
            pool,
            shelf: Arc::clone(shelf),
            graph,
        })
    }
}

impl Contender for Rayon {
    fn send(&self, job: Job) {
        let (shelf, graph) = (Arc::clone(&self.shelf), self.graph);
        self.pool.spawn(move || answer(&shelf, graph, job));
    }
}

/// tokio's pool for blocking work, with as many threads as the others have workers.
pub(super) struct SpawnBlocking {
    runtime: tokio::runtime::Runtime,
    shelf: Arc<Shelf>,
    graph: Graph,
}

impl SpawnBlocking {
    pub(super) fn start(workers: usize, shelf: &Arc<Shelf>, graph: Graph) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(workers)
            .thread_name("tokio")
            .build()
            .context("the tokio runtime did not start")?;
        Ok(Self {
            runtime,
            shelf: Arc::clone(shelf),
            graph,
        })
    }
}

impl Contender for SpawnBlocking {
    fn send(&self, job: Job) {
        let (shelf, graph) = (Arc::clone(&self.shelf), self.graph);
        // The handle is dropped: the answer goes to the completion.
        self.runtime
            .spawn_blocking(move || answer(&shelf, graph, job));
    }
}

fn answer(shelf: &Shelf, graph: Graph, job: Job) {
    let table = shelf.tables[job.table].index(graph);
    let hits = table.search(&job.query, &mut chiplet_executor::Context::default());
    job.done.finish(hits.ok().as_deref());
}
