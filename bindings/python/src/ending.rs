//! What must be over before the interpreter is: workers that run a caller's callable need it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use chiplet::{Executor, Shutdown};
use pyo3::prelude::*;

/// How long the end of a program, or of the last reference, waits for what has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// Executors that have not been dropped.
static LIVE: Mutex<Vec<Weak<Executor>>> = Mutex::new(Vec::new());

/// Has `executor` ended by [`close_all`].
pub(crate) fn remember(executor: &Arc<Executor>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|executor| executor.strong_count() > 0);
    live.push(Arc::downgrade(executor));
}

/// Ends `executor` without Python's lock: a worker that waits for it must get it, or it would never end.
pub(crate) fn end(py: Python<'_>, executor: &Executor) {
    py.detach(|| executor.shutdown(Shutdown::Abandon(PATIENCE)));
}

/// Ends all executors.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    for executor in live.iter().filter_map(Weak::upgrade) {
        end(py, &executor);
    }
}
