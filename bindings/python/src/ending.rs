//! The end of executors: when the last reference goes, and before the interpreter does, which workers that run a
//! caller's callable need.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use chiplet::Executor;
use chiplet::shutdown::Shutdown;
use pyo3::prelude::*;

use crate::gil::{self, unlocked};
use crate::sync::lock;
use crate::waiting;

/// How long the last reference waits for what has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// Executors that have not been dropped.
static LIVE: Mutex<Vec<Weak<Executor>>> = Mutex::new(Vec::new());

/// Has `executor` ended by [`close_all`].
pub(crate) fn remember(executor: &Arc<Executor>) {
    let mut live = lock(&LIVE);
    live.retain(|executor| executor.strong_count() > 0);
    live.push(Arc::downgrade(executor));
}

/// Ends `executor` without Python's lock: a worker that waits for it must get it, or it would never end.
pub(crate) fn end(py: Python<'_>, executor: &Executor) {
    unlocked(py, || executor.shutdown(Shutdown::Abandon(PATIENCE)));
}

/// Ends all executors as the interpreter ends: callables that run are waited for, as threads of Python's are.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) -> PyResult<()> {
    let live = std::mem::take(&mut *lock(&LIVE));
    gil::end_here();
    for executor in live.iter().filter_map(Weak::upgrade) {
        waiting::until(
            py,
            executor.shutdown_async(Shutdown::Abandon(Duration::MAX)),
        )?;
    }
    gil::await_askers(py);
    Ok(())
}
