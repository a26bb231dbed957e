//! A task that runs its own code on several workers: [`Context::par_map`].
//!
//! The parts stay in one place. The worker that runs the task takes one after the other, and so does every sibling
//! that has accepted an invitation. So the worker never waits for a part that nobody has begun: if none comes, it
//! runs all of them itself. When none is left to begin, it waits for those that siblings are inside, which are at
//! work on them: who waits for whom follows how the parts are nested, so nobody waits in a circle.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::Rung;

use crate::context::{Context, Used, Wanted};
use crate::engine::completion::contain;
use crate::engine::task::Shared;
use crate::engine::worker::Worker;
use crate::sync::{Condvar, Mutex, PAUSES, Step, left_out, now, pause};

/// Parts of a task, and what has come of them.
struct Parts<F, R, E> {
    task: Arc<dyn Wanted>,
    /// When that was begun.
    began: Instant,
    count: usize,
    progress: Mutex<Progress<F, R, E>>,
    /// The last worker besides the task's own has left.
    left: Condvar,
}

struct Progress<F, R, E> {
    /// Dropped by the task's worker at the end, though an invitation may lie about for longer.
    code: Option<Arc<F>>,
    /// The first part that nobody has begun; their number if no more is to begin.
    next: usize,
    /// Workers that run parts, besides the task's own.
    inside: usize,
    /// The task's worker waits for them.
    awaited: bool,
    results: Vec<Option<R>>,
    /// The failure of the first part that failed.
    failure: Option<(usize, Failure<E>)>,
    /// What the other workers have used.
    used: Used,
}

enum Failure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

impl Context<'_> {
    /// Runs `code` for each of `0..parts`, on this worker and on all siblings that have nothing better to do, and
    /// returns the results in the order of the parts.
    ///
    /// For a closure or a table that has work for more than one core. Siblings are workers of the same domain, which
    /// share this one's cache. They come when they are free, and before they begin a new task. After a part they leave if
    /// a task waits that goes first: an interactive one if this one is bulk, any if this one has run for 10 ms. If none
    /// comes, this worker runs all parts, one after the other. Parts should take 10 us or more: handing one over costs about 1
    /// us.
    ///
    /// Each part is given a context of the worker that runs it: its [`scratch`](Context::scratch), its domain. Bytes
    /// that parts report count as this task's. A part may share out its own work again. Outside an executor, and
    /// where a worker has no siblings, the parts run here, in their order.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 4, 32 << 20)).build()?;
    /// let table = executor.add_closure_table("songs", 1 << 20);
    /// let rows: std::sync::Arc<[f32]> = (0..100_000).map(|row| row as f32).collect();
    /// let search = move |context: &mut chiplet_executor::Context| {
    ///     let nearest = context.par_map(8, move |part, context| {
    ///         let block = rows.chunks(rows.len().div_ceil(8)).nth(part).unwrap_or_default();
    ///         context.add_bytes(4 * block.len() as u64);
    ///         block.iter().map(|row| (row - 70_000.4).abs()).fold(f32::INFINITY, f32::min)
    ///     });
    ///     nearest.into_iter().fold(f32::INFINITY, f32::min)
    /// };
    /// let distance = executor.submit_fn(table, None, search)?.wait()?;
    /// assert!((distance - 0.4).abs() < 0.01);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a part panics, no more is begun, and its panic goes on here once all that have begun have ended. If several
    /// do, the panic of the first of them in the order of parts does.
    pub fn par_map<R, F>(&mut self, parts: usize, code: F) -> Vec<R>
    where
        F: Fn(usize, &mut Context) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        let code = move |part, context: &mut Context| Ok::<R, Infallible>(code(part, context));
        match self.try_par_map(parts, code) {
            Ok(results) => results,
            Err(never) => match never {},
        }
    }

    /// [`Context::par_map`] for parts that may fail. After a failure no more parts are begun, and when all that have
    /// begun have ended, the first error in the order of parts is returned.
    ///
    /// So a part that begins with [`Context::check`] ends all of them once nobody waits for the answer any more:
    ///
    /// ```
    /// use chiplet_executor::{Context, SearchError};
    ///
    /// fn sum(rows: &'static [u64], context: &mut Context) -> Result<u64, SearchError> {
    ///     let sums = context.try_par_map(rows.len().div_ceil(1_000), |part, context| {
    ///         context.check()?;
    ///         Ok(rows[1_000 * part..].iter().take(1_000).sum::<u64>())
    ///     })?;
    ///     Ok(sums.into_iter().sum())
    /// }
    ///
    /// assert_eq!(sum(&[1; 2_500], &mut Context::default())?, 2_500);
    /// # Ok::<(), SearchError>(())
    /// ```
    ///
    /// # Errors
    /// What a part has returned.
    ///
    /// # Panics
    /// As [`Context::par_map`].
    pub fn try_par_map<R, E, F>(&mut self, parts: usize, code: F) -> Result<Vec<R>, E>
    where
        F: Fn(usize, &mut Context) -> Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        let others = |worker: &Worker| (worker.team(false) - 1).min(parts.saturating_sub(1));
        let (worker, task, others) = match self.run() {
            Some((worker, task)) if others(worker) > 0 => (worker, task, others(worker)),
            _ => return (0..parts).map(|part| code(part, self)).collect(),
        };
        let parts = Arc::new(Parts::new(task.share(), worker.began(), parts, code));
        let shared = Arc::clone(&parts) as Arc<dyn Shared>;
        worker.invite(&shared, others, others);
        drop(shared);
        while let Some((part, code)) = parts.begin() {
            parts.run(part, code, self);
        }
        parts.await_others();
        parts.finish(self)
    }
}

impl<F, R, E> Parts<F, R, E>
where
    F: Fn(usize, &mut Context) -> Result<R, E>,
{
    fn new(task: Arc<dyn Wanted>, began: Instant, count: usize, code: F) -> Self {
        let progress = Progress {
            code: Some(Arc::new(code)),
            next: 0,
            inside: 0,
            awaited: false,
            results: (0..count).map(|_| None).collect(),
            failure: None,
            used: Used::default(),
        };
        Self {
            task,
            began,
            count,
            progress: Mutex::new(progress),
            left: Condvar::new(),
        }
    }

    /// Takes the next part.
    fn begin(&self) -> Option<(usize, Arc<F>)> {
        self.progress.lock().begin(self.count)
    }

    /// As [`Parts::begin`], for a worker that comes; it has to [`Parts::leave`] if it gets one.
    fn enter(&self) -> Option<(usize, Arc<F>)> {
        let mut progress = self.progress.lock();
        let begun = progress.begin(self.count)?;
        progress.inside += 1;
        Some(begun)
    }

    /// Whether a worker that helps should leave for a task that waits, while parts are left.
    fn gives_way(&self, worker: &Worker) -> bool {
        let (class, came) = self.task.came();
        worker.gives_way(class, came, self.began) && self.is_left()
    }

    /// Whether a part is left that nobody has begun.
    fn is_left(&self) -> bool {
        self.progress.lock().next < self.count
    }

    fn run(&self, part: usize, code: Arc<F>, context: &mut Context) {
        let result = catch_unwind(AssertUnwindSafe(|| code(part, context)));
        // Before the part counts as ended: then only the task's worker refers to it.
        drop(code);
        let failure = match result {
            Ok(Ok(result)) => {
                self.progress.lock().results[part] = Some(result);
                return;
            }
            Ok(Err(error)) => Failure::Error(error),
            Err(payload) => Failure::Panic(payload),
        };
        let dropped = {
            let mut progress = self.progress.lock();
            progress.next = self.count;
            match &progress.failure {
                Some((first, _)) if *first < part => Some(failure),
                _ => progress
                    .failure
                    .replace((part, failure))
                    .map(|(_, failure)| failure),
            }
        };
        contain(|| drop(dropped));
    }

    /// A worker that has entered leaves, having counted its time.
    fn leave(&self, used: Used) {
        let wakes = {
            let mut progress = self.progress.lock();
            progress.inside -= 1;
            progress.used.add(used);
            progress.inside == 0 && progress.awaited
        };
        if wakes && !left_out(Step::LastPartWakes) {
            self.left.notify_one();
        }
    }

    /// Waits until all others have left. No part is left to begin, so nobody enters any more.
    fn await_others(&self) {
        // They have all begun, so the last of them is often about to end.
        for round in 0..PAUSES {
            if self.progress.lock().inside == 0 {
                return;
            }
            pause(round);
        }
        let mut progress = self.progress.lock();
        progress.awaited = true;
        while progress.inside > 0 {
            progress = self.left.wait(progress);
        }
    }

    /// What has come of all parts, once the others have left.
    fn finish(&self, context: &mut Context) -> Result<Vec<R>, E> {
        let (code, results, failure, used) = {
            let mut progress = self.progress.lock();
            (
                progress.code.take(),
                std::mem::take(&mut progress.results),
                progress.failure.take(),
                progress.used,
            )
        };
        context.add_used(used);
        contain(|| drop(code));
        let Some((_, failure)) = failure else {
            return Ok(results.into_iter().flatten().collect());
        };
        // A destructor that panicked while the task unwinds would end the process.
        contain(|| drop(results));
        match failure {
            Failure::Error(error) => Err(error),
            Failure::Panic(payload) => resume_unwind(payload),
        }
    }
}

impl<F, R, E> Progress<F, R, E> {
    fn begin(&mut self, count: usize) -> Option<(usize, Arc<F>)> {
        let code = self.code.as_ref().filter(|_| self.next < count)?;
        self.next += 1;
        Some((self.next - 1, Arc::clone(code)))
    }
}

impl<F, R, E> Shared for Parts<F, R, E>
where
    F: Fn(usize, &mut Context) -> Result<R, E> + Send + Sync + 'static,
    R: Send + 'static,
    E: Send + 'static,
{
    fn is_open(&self) -> bool {
        self.is_left()
    }

    fn join(self: Arc<Self>, worker: &mut Worker, rung: Rung) -> bool {
        if self.gives_way(worker) {
            return true;
        }
        let mut begun = self.enter();
        if begun.is_none() {
            return false;
        }
        // What it has left for a task lies on its own deque since: it helps all the same.
        let rung = rung.max(Rung::Domain);
        let started = now();
        worker.take_part(self.began);
        let mut gives_way = false;
        let ((), mut used) = worker.in_context(&self.task, |worker, context| {
            while let Some((part, code)) = begun.take() {
                worker.stats().unit_started(rung);
                self.run(part, code, context);
                gives_way = self.gives_way(worker);
                if !gives_way {
                    begun = self.begin();
                }
            }
        });
        let ended = now();
        worker.pass(ended);
        let busy = used.busy(ended.saturating_duration_since(started));
        // The task's own worker does not wait for that.
        used.blocked = Duration::ZERO;
        // The bytes are counted by the task, with its own.
        worker.stats().worked(self.task.table_id(), 0, busy);
        used.helped += busy;
        self.leave(used);
        gives_way
    }
}
