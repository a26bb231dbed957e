//! How a Python thread waits: without Python's lock, and asking for signals, so that Ctrl-C ends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use chiplet::{Error, Ticket};
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

/// Waits for what a future gives. A signal that raises drops it; an executor that ends goes on with that.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    mut future: impl Future<Output = T> + Unpin + Send,
) -> PyResult<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        let polled = unlocked(py, || {
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                thread::park_timeout(SIGNALS);
            }
            polled
        });
        if let Poll::Ready(output) = polled {
            return Ok(output);
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
