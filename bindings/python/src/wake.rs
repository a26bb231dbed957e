//! Answers for event loops. A finished search puts its number into a list, and the first of a list writes to one eventfd
//! (elsewhere a pipe) that the loop watches: no worker takes Python's lock, and no thread waits for an answer.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use chiplet::{BlockAnswers, Error, Neighbor, Ticket};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::asked::of_block;
use crate::errors::OrRaise;
use crate::hits::Hits;
use crate::sync::lock;

/// An answer that is to come.
pub(crate) enum Answer {
    One(Ticket<Vec<Neighbor>>, usize),
    Block(Ticket<BlockAnswers>, usize),
    Called(Ticket<PyResult<Py<PyAny>>>),
}

/// An answer that is there.
enum Answered {
    One(Result<Vec<Neighbor>, Error>, usize),
    Block(Result<BlockAnswers, Error>, usize),
    Called(Result<PyResult<Py<PyAny>>, Error>),
}

impl Answer {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answered> {
        match self {
            Self::One(ticket, k) => Pin::new(ticket)
                .poll(context)
                .map(|found| Answered::One(found, *k)),
            Self::Block(ticket, k) => Pin::new(ticket)
                .poll(context)
                .map(|found| Answered::Block(found, *k)),
            Self::Called(ticket) => Pin::new(ticket).poll(context).map(Answered::Called),
        }
    }
}

impl Answered {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::One(found, k) => Hits::of_one(&found.or_raise(py)?, k).into_python(py),
            Self::Block(found, k) => of_block(py, k, found.or_raise(py)?)?.into_python(py),
            Self::Called(returned) => returned.or_raise(py)?,
        }
    }
}

/// What workers see of a loop: the numbers of answers that are there, and how to wake it.
struct Finished {
    numbers: Mutex<Vec<u64>>,
    /// An eventfd is both ends.
    write: OwnedFd,
}

impl Finished {
    fn add(&self, number: u64) {
        let first = {
            let mut numbers = lock(&self.numbers);
            numbers.push(number);
            numbers.len() == 1
        };
        if first {
            // It cannot be full: who reads it empties the list afterwards, and only the first of a list writes.
            let _ = rustix::io::write(&self.write, &1_u64.to_ne_bytes());
        }
    }
}

/// Wakes the loop for one answer.
struct Number {
    finished: Arc<Finished>,
    number: u64,
}

impl Wake for Number {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.finished.add(self.number);
    }
}

/// A search whose answer a future waits for.
struct Promise {
    answer: Answer,
    future: Py<PyAny>,
}

#[derive(Default)]
struct Promises {
    last: u64,
    open: HashMap<u64, Promise>,
}

/// What an event loop waits for. Each loop has one, kept as long as the loop.
#[pyclass(frozen, weakref, module = "chiplet._chiplet")]
pub(crate) struct Loop {
    read: OwnedFd,
    finished: Arc<Finished>,
    promises: Mutex<Promises>,
}

#[pymethods]
impl Loop {
    #[new]
    fn new() -> PyResult<Self> {
        let (read, write) = wires()?;
        let numbers = Mutex::default();
        Ok(Self {
            read,
            finished: Arc::new(Finished { numbers, write }),
            promises: Mutex::default(),
        })
    }

    /// What the loop watches for reading.
    fn fileno(&self) -> i32 {
        self.read.as_fd().as_raw_fd()
    }

    /// Gives all answers that are there to their futures. The loop calls it.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        // First the wire, then the list: what comes in between writes again.
        let mut counted = [0; 8];
        while rustix::io::read(&self.read, &mut counted[..]).is_ok_and(|read| read == counted.len())
        {
            if cfg!(any(target_os = "linux", target_os = "android")) {
                break;
            }
        }
        let numbers = std::mem::take(&mut *lock(&self.finished.numbers));
        for number in numbers {
            let promise = lock(&self.promises).open.remove(&number);
            if let Some(promise) = promise
                && let Err(why) = self.keep(py, number, promise)
            {
                // The others get theirs all the same.
                why.write_unraisable(py, None);
            }
        }
        Ok(())
    }

    /// A future has ended. If it was cancelled, so is its search.
    fn forget(&self, number: u64) {
        // Dropped outside of the lock.
        let forgotten = lock(&self.promises).open.remove(&number);
        drop(forgotten);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(promises) = self.promises.try_lock() {
            for promise in promises.open.values() {
                visit.call(&promise.future)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        let open = std::mem::take(&mut lock(&self.promises).open);
        drop(open);
    }
}

/// What the running event loop waits for.
pub(crate) struct Running(Py<Loop>);

impl Running {
    pub(crate) fn find(py: Python<'_>) -> PyResult<Self> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.get_or_try_init(py, || -> PyResult<_> {
            Ok(py.import("chiplet._loops")?.getattr("running")?.unbind())
        })?;
        Ok(Self(running.call0(py)?.extract(py)?))
    }

    /// A future of the loop that gets the answer.
    pub(crate) fn promise(&self, py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
        static PROMISE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let make = PROMISE.get_or_try_init(py, || -> PyResult<_> {
            Ok(py.import("chiplet._loops")?.getattr("future")?.unbind())
        })?;
        let this = self.0.get();
        let number = {
            let mut promises = lock(&this.promises);
            promises.last += 1;
            promises.last
        };
        let future = make.call1(py, (&self.0, number))?;
        let promise = Promise {
            answer,
            future: future.clone_ref(py),
        };
        this.keep(py, number, promise)?;
        Ok(future)
    }
}

impl Loop {
    /// Resolves the promise if its answer is there, and keeps it otherwise.
    fn keep(&self, py: Python<'_>, number: u64, mut promise: Promise) -> PyResult<()> {
        let finished = Arc::clone(&self.finished);
        let waker = Waker::from(Arc::new(Number { finished, number }));
        match promise.answer.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answered) => resolve(py, &promise.future, answered),
            Poll::Pending => {
                lock(&self.promises).open.insert(number, promise);
                Ok(())
            }
        }
    }
}

fn resolve(py: Python<'_>, future: &Py<PyAny>, answered: Answered) -> PyResult<()> {
    // It may have been cancelled meanwhile.
    if future.call_method0(py, "done")?.is_truthy(py)? {
        return Ok(());
    }
    match answered.into_python(py) {
        Ok(answer) => future.call_method1(py, "set_result", (answer,))?,
        Err(why) => future.call_method1(py, "set_exception", (bearable(py, why),))?,
    };
    Ok(())
}

/// A future takes no `StopIteration`, as it would end whoever awaits it: the same as of a coroutine that raises one (PEP 479).
fn bearable(py: Python<'_>, raised: PyErr) -> PyErr {
    if !raised.is_instance_of::<PyStopIteration>(py) {
        return raised;
    }
    let error = PyRuntimeError::new_err("the callable raised StopIteration");
    error.set_cause(py, Some(raised));
    error
}

/// Two ends, neither of which blocks.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn wires() -> PyResult<(OwnedFd, OwnedFd)> {
    use rustix::event::{EventfdFlags, eventfd};
    let read =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
    let write = read.try_clone()?;
    Ok((read, write))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn wires() -> PyResult<(OwnedFd, OwnedFd)> {
    use rustix::fs::{OFlags, fcntl_setfl};
    let (read, write) = rustix::pipe::pipe().map_err(std::io::Error::from)?;
    for end in [&read, &write] {
        fcntl_setfl(end, OFlags::NONBLOCK).map_err(std::io::Error::from)?;
    }
    Ok((read, write))
}
