//! Answers for event loops. A finished search puts its number into a list, and the first of a list writes to one
//! eventfd (elsewhere a pipe) that the loop watches: no worker takes Python's lock, and no thread waits for an answer.
//!
//! What finds no room in its queue waits here. Those that wait for the same room stand in the order in which they came.
//! As many of the first are asked again as answers of that queue come, and all that have room after the wait that the
//! refusal has told: others may have filled it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use chiplet::Error;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::awaited::{Answer, Ask, Key};
use crate::errors::Raise;
use crate::sync::lock;

/// How soon and how late it is asked again whether there is room.
const SOONEST: Duration = Duration::from_millis(1);
const LATEST: Duration = Duration::from_millis(50);

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
    state: State,
    key: Key,
    future: Py<PyAny>,
}

enum State {
    /// There was no room for it yet.
    Waiting(Box<Ask>),
    Asked(Answer),
}

impl Promise {
    /// When it ends while it waits for room.
    fn expires(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(ask) => ask.expires(),
            State::Asked(_) => None,
        }
    }
}

#[derive(Default)]
struct Promises {
    last: u64,
    open: HashMap<u64, Promise>,
    /// Those of `open` that wait for room, in the order in which they came.
    waiting: BTreeMap<Key, BTreeSet<u64>>,
    /// When they expire, of those that do.
    deadlines: BTreeSet<(Instant, u64)>,
    /// When the loop looks at them next.
    due: Option<Instant>,
    /// How often it has been told when: only the last time counts.
    timer: u64,
}

impl Promises {
    fn put(&mut self, number: u64, promise: Promise) {
        if let State::Waiting(_) = &promise.state {
            self.waiting.entry(promise.key).or_default().insert(number);
            self.deadlines
                .extend(promise.expires().map(|at| (at, number)));
        }
        self.open.insert(number, promise);
    }

    fn take(&mut self, number: u64) -> Option<Promise> {
        let promise = self.open.remove(&number)?;
        if let State::Waiting(_) = &promise.state
            && let Some(same) = self.waiting.get_mut(&promise.key)
        {
            same.remove(&number);
            if same.is_empty() {
                self.waiting.remove(&promise.key);
            }
        }
        if let Some(at) = promise.expires() {
            self.deadlines.remove(&(at, number));
        }
        Some(promise)
    }

    /// The first that waits for this room.
    fn take_first(&mut self, key: &Key) -> Option<(u64, Promise)> {
        let number = *self.waiting.get(key)?.first()?;
        Some((number, self.take(number)?))
    }

    /// One that has expired while it waited.
    fn take_late(&mut self, now: Instant) -> Option<(u64, Promise)> {
        let &(_, number) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        Some((number, self.take(number)?))
    }
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
    fn deliver(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<()> {
        let this = slf.get();
        // First the wire, then the list: what comes in between writes again.
        let mut counted = [0; 8];
        while rustix::io::read(&this.read, &mut counted[..]).is_ok_and(|read| read == counted.len())
        {
            if cfg!(any(target_os = "linux", target_os = "android")) {
                break;
            }
        }
        let numbers = std::mem::take(&mut *lock(&this.finished.numbers));
        let mut left = BTreeMap::new();
        for number in numbers {
            let promise = lock(&this.promises).take(number);
            if let Some(promise) = promise {
                *left.entry(promise.key).or_insert(0) += 1;
                this.keep(py, number, promise);
            }
        }
        for (key, room) in left {
            ask_again(slf, &key, room)?;
        }
        Ok(())
    }

    /// Looks after those that wait for room. The loop calls it when they are due, with the number that it was given.
    fn retry(slf: &Bound<'_, Self>, py: Python<'_>, timer: u64) -> PyResult<()> {
        let (this, now) = (slf.get(), Instant::now());
        let keys: Vec<Key> = {
            let mut promises = lock(&this.promises);
            // An earlier call has come in the place of this one, and has said when the next is due.
            if timer != promises.timer {
                return Ok(());
            }
            promises.due = None;
            promises.waiting.keys().copied().collect()
        };
        let late = std::iter::from_fn(|| lock(&this.promises).take_late(now));
        let late: Vec<_> = late.collect();
        // First those that can still be answered.
        for key in keys {
            ask_again(slf, &key, usize::MAX)?;
        }
        for (number, mut promise) in late {
            // Asked once more, so that what nobody has answered is counted: as refused, or as expired.
            if let State::Waiting(ask) = promise.state
                && let Ok(answer) = ask.submit(false)
            {
                promise.state = State::Asked(answer);
                this.keep(py, number, promise);
                continue;
            }
            end(py, &promise.future, Err(Error::Expired.raise(py)));
        }
        let next = lock(&this.promises).deadlines.first().map(|(at, _)| *at);
        // Those that expire soon after each other are told together.
        next.map_or(Ok(()), |at| wake_at(slf, at.max(now + SOONEST)))
    }

    /// A future has ended. If it was cancelled, so is its search.
    fn forget(&self, number: u64) {
        // Dropped outside of the lock.
        let forgotten = lock(&self.promises).take(number);
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
        let promises = std::mem::take(&mut *lock(&self.promises));
        drop(promises);
    }
}

/// What the running event loop waits for.
pub(crate) fn running(py: Python<'_>) -> PyResult<Bound<'_, Loop>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running = RUNNING.import(py, "chiplet._loops", "running")?;
    Ok(running.call0()?.cast_into()?)
}

/// A future of the loop that gets the answer. What has no room is refused, or waits for it behind those that do.
///
/// # Errors
/// Why it is refused for good.
pub(crate) fn promise(this: &Bound<'_, Loop>, ask: Ask, refuse: bool) -> PyResult<Py<PyAny>> {
    static FUTURE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = this.py();
    let make = FUTURE.import(py, "chiplet._loops", "future")?;
    let key = ask.key();
    let behind = !refuse && lock(&this.get().promises).waiting.contains_key(&key);
    let state = match behind {
        true => State::Waiting(Box::new(ask)),
        false => match ask.submit(!refuse) {
            Ok(answer) => State::Asked(answer),
            Err((reason, ask)) => match reason.expected_wait() {
                Some(wait) if !refuse => {
                    wake_after(this, wait)?;
                    State::Waiting(ask)
                }
                _ => return Err(reason.raise(py)),
            },
        },
    };
    let number = {
        let mut promises = lock(&this.get().promises);
        promises.last += 1;
        promises.last
    };
    let future = make.call1((this, number))?.unbind();
    let promise = Promise {
        state,
        key,
        future: future.clone_ref(py),
    };
    if let Some(at) = promise.expires() {
        wake_at(this, at)?;
    }
    this.get().keep(py, number, promise);
    Ok(future)
}

impl Loop {
    /// Resolves the promise if its answer is there, and keeps it otherwise.
    fn keep(&self, py: Python<'_>, number: u64, mut promise: Promise) {
        if let State::Asked(answer) = &mut promise.state {
            let finished = Arc::clone(&self.finished);
            let waker = Waker::from(Arc::new(Number { finished, number }));
            if let Poll::Ready(answered) = answer.poll(&mut Context::from_waker(&waker)) {
                return end(py, &promise.future, answered.into_python(py));
            }
        }
        lock(&self.promises).put(number, promise);
    }
}

/// Asks the first of those that wait for this room, `most` at most and as long as there is some.
fn ask_again(this: &Bound<'_, Loop>, key: &Key, most: usize) -> PyResult<()> {
    let py = this.py();
    for _ in 0..most {
        let first = lock(&this.get().promises).take_first(key);
        let Some((number, mut promise)) = first else {
            break;
        };
        let State::Waiting(ask) = promise.state else {
            break;
        };
        match ask.submit(true) {
            Ok(answer) => promise.state = State::Asked(answer),
            Err((reason, ask)) => match reason.expected_wait() {
                Some(wait) => {
                    promise.state = State::Waiting(ask);
                    lock(&this.get().promises).put(number, promise);
                    return wake_after(this, wait);
                }
                None => {
                    end(py, &promise.future, Err(reason.raise(py)));
                    continue;
                }
            },
        }
        this.get().keep(py, number, promise);
    }
    Ok(())
}

/// Has the loop look after those that wait once half of what would have been waited has passed: the queue is not empty
/// by then.
fn wake_after(this: &Bound<'_, Loop>, wait: Duration) -> PyResult<()> {
    wake_at(this, Instant::now() + (wait / 2).clamp(SOONEST, LATEST))
}

/// Has the loop look after those that wait, at that time at the latest.
fn wake_at(this: &Bound<'_, Loop>, at: Instant) -> PyResult<()> {
    let timer = {
        let mut promises = lock(&this.get().promises);
        if promises.due.is_some_and(|due| due <= at) {
            return Ok(());
        }
        promises.due = Some(at);
        promises.timer += 1;
        promises.timer
    };
    let seconds = at.saturating_duration_since(Instant::now()).as_secs_f64();
    let later = this.py().import("chiplet._loops")?.getattr("later")?;
    later.call1((this, seconds, timer)).map(drop)
}

/// Ends a future. That it cannot be is no reason for others not to be.
fn end(py: Python<'_>, future: &Py<PyAny>, outcome: PyResult<Py<PyAny>>) {
    let ended = || {
        // It may have been cancelled meanwhile.
        if future.call_method0(py, "done")?.is_truthy(py)? {
            return Ok(());
        }
        match outcome {
            Ok(answer) => future.call_method1(py, "set_result", (answer,))?,
            Err(why) => future.call_method1(py, "set_exception", (bearable(py, why),))?,
        };
        Ok(())
    };
    let ended: PyResult<()> = ended();
    if let Err(why) = ended {
        why.write_unraisable(py, None);
    }
}

/// A future takes no `StopIteration`, as it would end whoever awaits it: the same as of a coroutine that raises one
/// (PEP 479).
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
