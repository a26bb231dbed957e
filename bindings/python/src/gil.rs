//! Python's lock, given away while Rust works, and who may still ask for it when the interpreter ends: no thread may
//! come back to it afterwards, as before Python 3.14 it would end that thread in the middle of Rust code, which ends
//! the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long the end waits for threads that are just coming back.
const COMING_BACK: Duration = Duration::from_secs(1);

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

/// This thread ends the interpreter. From now on no other one gets leave to ask.
pub(crate) fn end_here() {
    let _ = ENDS.set(thread::current().id());
}

/// Waits for those who got leave before.
pub(crate) fn await_askers(py: Python<'_>) {
    py.detach(|| {
        let began = Instant::now();
        while ASKING.load(Ordering::SeqCst) > 0 && began.elapsed() < COMING_BACK {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
