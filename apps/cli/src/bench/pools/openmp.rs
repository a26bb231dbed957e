//! Faiss as services call it without an executor: whatever waits for a table is searched in one batch, over which
//! Faiss opens an OpenMP team.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use parking_lot::{Condvar, Mutex};

use super::{Done, Job, Pool, Workers};
use crate::bench::tables::BuiltTable;

/// Queries of one call at most: what waits for one table seldom exceeds it, and a longer call would only make the
/// other tables wait.
const BATCH: usize = 64;

struct Queue {
    waiting: VecDeque<Job>,
    closed: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    filled: Condvar,
    tables: &'static [BuiltTable],
}

pub(super) struct OpenMp {
    inner: Arc<Inner>,
    dispatcher: Option<JoinHandle<()>>,
}

impl OpenMp {
    pub(super) fn start(workers: &Workers, tables: &'static [BuiltTable]) -> anyhow::Result<Self> {
        let inner = Arc::new(Inner {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                closed: false,
            }),
            filled: Condvar::new(),
            tables,
        });
        let (dispatched, confined) = (Arc::clone(&inner), workers.clone());
        let dispatcher = std::thread::Builder::new()
            .name("openmp".to_owned())
            .spawn(move || {
                // Its team inherits the cpus.
                confined.confine();
                dispatched.run();
            })
            .context("the OpenMP dispatcher did not start")?;
        Ok(Self {
            inner,
            dispatcher: Some(dispatcher),
        })
    }
}

impl Pool for OpenMp {
    fn send(&self, job: Job) {
        self.inner.queue.lock().waiting.push_back(job);
        self.inner.filled.notify_one();
    }
}

impl Inner {
    fn run(&self) {
        while let Some((table, jobs)) = self.next() {
            let (queries, done): (Vec<_>, Vec<Done>) =
                jobs.into_iter().map(|job| (job.query, job.done)).unzip();
            let table = self.tables[table].faiss.as_ref();
            let answers = table.and_then(|table| table.search_by_faiss(&queries).ok());
            for (index, done) in done.into_iter().enumerate() {
                let answer = answers.as_ref().and_then(|answers| answers.get(index));
                done.finish(answer.map(Vec::as_slice));
            }
        }
    }

    /// The table of the oldest query, and what waits for it. `None` when closed.
    fn next(&self) -> Option<(usize, Vec<Job>)> {
        let mut queue = self.queue.lock();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        let table = queue.waiting.front()?.table;
        let mut batch = Vec::new();
        let mut rest = VecDeque::with_capacity(queue.waiting.len());
        for job in queue.waiting.drain(..) {
            if job.table == table && batch.len() < BATCH {
                batch.push(job);
            } else {
                rest.push_back(job);
            }
        }
        queue.waiting = rest;
        Some((table, batch))
    }
}

impl Drop for OpenMp {
    fn drop(&mut self) {
        self.inner.queue.lock().closed = true;
        self.inner.filled.notify_one();
        if let Some(dispatcher) = self.dispatcher.take() {
            // It ends after at most one more batch; a panic of its has been printed.
            let _ = dispatcher.join();
        }
    }
}
