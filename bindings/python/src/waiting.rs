//! How a Python thread waits: without Python's lock, and asking for signals, so that Ctrl-C ends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use chiplet::{Error, Stopping, Ticket};
use pyo3::prelude::*;

use crate::gil::unlocked;

/// How often a thread that waits asks Python for signals.
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);

/// Waits for an answer. A signal that raises drops the ticket.
pub(crate) fn answer<T: Send>(py: Python<'_>, mut ticket: Ticket<T>) -> PyResult<Result<T, Error>> {
    loop {
        if let Some(answer) = unlocked(py, || ticket.wait_for(SIGNALS)) {
            return Ok(answer);
        }
        py.check_signals()?;
    }
}

/// Waits for the end of an executor, which goes on if a signal raises.
pub(crate) fn end(py: Python<'_>, mut stopping: Stopping) -> PyResult<()> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        let ended = unlocked(py, || {
            let mut context = Context::from_waker(&waker);
            let ended = Pin::new(&mut stopping).poll(&mut context).is_ready();
            if !ended {
                thread::park_timeout(SIGNALS);
            }
            ended
        });
        if ended {
            return Ok(());
        }
        py.check_signals()?;
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
