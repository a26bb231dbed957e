//! The end of the interpreter. Workers that run a caller's callable need it until then, and no thread may come back to it
//! afterwards: before Python 3.14 it would end that thread in the middle of Rust code, which ends the process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use chiplet::{Executor, Shutdown};
use pyo3::prelude::*;

use crate::waiting;

/// How long the last reference waits for what has begun.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the end waits for threads that are just coming back.
const COMING_BACK: Duration = Duration::from_secs(1);

/// Executors that have not been dropped.
static LIVE: Mutex<Vec<Weak<Executor>>> = Mutex::new(Vec::new());

/// The thread that ends the interpreter, once it does.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// Threads that ask for Python's lock, or have it for a moment.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// Leave to ask for Python's lock. While there is one the interpreter does not end.
pub(crate) struct Asking(());

impl Asking {
    /// `None` if the interpreter is ending.
    pub(crate) fn begin() -> Option<Self> {
        // First it is counted, then it looks; the end is first told, then it counts. So one of them sees the other.
        ASKING.fetch_add(1, Ordering::SeqCst);
        let asking = Self(());
        let ends = ENDS
            .get()
            .is_some_and(|ends| *ends != thread::current().id());
        (!ends).then_some(asking)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `code` without Python's lock. If the interpreter ends meanwhile the thread stays there, as a daemon thread of
/// Python's does.
pub(crate) fn unlocked<T: Send>(py: Python<'_>, code: impl FnOnce() -> T + Send) -> T {
    let (result, _asking) = py.detach(|| {
        let result = code();
        let asking = Asking::begin();
        while asking.is_none() {
            thread::park();
        }
        (result, asking)
    });
    result
}

/// Has `executor` ended by [`close_all`].
pub(crate) fn remember(executor: &Arc<Executor>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
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
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    let _ = ENDS.set(thread::current().id());
    for executor in live.iter().filter_map(Weak::upgrade) {
        waiting::end(
            py,
            executor.shutdown_async(Shutdown::Abandon(Duration::MAX)),
        )?;
    }
    py.detach(|| {
        let began = Instant::now();
        while ASKING.load(Ordering::SeqCst) > 0 && began.elapsed() < COMING_BACK {
            thread::sleep(Duration::from_millis(1));
        }
    });
    Ok(())
}
