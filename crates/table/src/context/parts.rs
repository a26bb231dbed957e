//! A task that runs its own code on several workers: [`Context::par_map`]. Who runs which part is the host's choice;
//! here the results come together.

use std::any::Any;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::contain::contain;
use super::{Context, Part};

/// What has come of the parts.
struct Outcomes<R, E> {
    results: Vec<Option<R>>,
    /// The failure of the first part that failed.
    failure: Option<(usize, Failure<E>)>,
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
    /// share this one's cache. They come when they are free, and before they begin a new task. After a part they leave
    /// if a task waits that goes first: an interactive one if this one is bulk, any if this one has run for 10 ms. If
    /// none comes, this worker runs all parts, one after the other. Parts should take 10 us or more: handing one over
    /// costs about 1 us.
    ///
    /// Each part is given a context of the worker that runs it. Bytes that parts report count as this task's. A part
    /// may share out its own work again. Outside an executor, and where a worker has no siblings, the parts run here,
    /// in their order.
    ///
    /// ```
    /// use chiplet_table::Context;
    ///
    /// fn nearest(rows: &std::sync::Arc<[f32]>, to: f32, context: &mut Context) -> f32 {
    ///     let rows = std::sync::Arc::clone(rows);
    ///     let nearest = context.par_map(8, move |part, context| {
    ///         let block = rows.chunks(rows.len().div_ceil(8)).nth(part).unwrap_or_default();
    ///         context.add_bytes(4 * block.len() as u64);
    ///         block.iter().map(|row| (row - to).abs()).fold(f32::INFINITY, f32::min)
    ///     });
    ///     nearest.into_iter().fold(f32::INFINITY, f32::min)
    /// }
    ///
    /// let rows = (0..100_000).map(|row| row as f32).collect();
    /// assert!((nearest(&rows, 70_000.4, &mut Context::default()) - 0.4).abs() < 0.01);
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
    /// use chiplet_table::{Context, SearchError};
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
        let host = match self.host {
            Some(host) if parts > 1 && host.helpers() > 0 => host,
            _ => return (0..parts).map(|part| code(part, self)).collect(),
        };
        let outcomes = Arc::new(Mutex::new(Outcomes::new(parts)));
        let kept = Arc::clone(&outcomes);
        let code: Arc<Part> = Arc::new(move |part, context: &mut Context<'_>| {
            let result = catch_unwind(AssertUnwindSafe(|| code(part, context)));
            keep(&kept, part, result)
        });
        let used = host.run_parts(parts, code);
        self.tally.add(used);
        let Outcomes { results, failure } = std::mem::take(&mut *locked(&outcomes));
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

/// Keeps what has come of a part, of several failures the first in the order of parts.
fn keep<R, E>(
    outcomes: &Mutex<Outcomes<R, E>>,
    part: usize,
    result: std::thread::Result<Result<R, E>>,
) -> ControlFlow<()> {
    let failure = match result {
        Ok(Ok(result)) => {
            locked(outcomes).results[part] = Some(result);
            return ControlFlow::Continue(());
        }
        Ok(Err(error)) => Failure::Error(error),
        Err(payload) => Failure::Panic(payload),
    };
    let dropped = {
        let mut outcomes = locked(outcomes);
        match &outcomes.failure {
            Some((first, _)) if *first < part => Some(failure),
            _ => outcomes
                .failure
                .replace((part, failure))
                .map(|(_, failure)| failure),
        }
    };
    contain(|| drop(dropped));
    ControlFlow::Break(())
}

/// Nothing of the caller's runs under this lock.
fn locked<R, E>(outcomes: &Mutex<Outcomes<R, E>>) -> MutexGuard<'_, Outcomes<R, E>> {
    outcomes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R, E> Outcomes<R, E> {
    fn new(parts: usize) -> Self {
        Self {
            results: (0..parts).map(|_| None).collect(),
            failure: None,
        }
    }
}

impl<R, E> Default for Outcomes<R, E> {
    fn default() -> Self {
        Self::new(0)
    }
}
