//! What a normal build shares state through.

pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;
pub(crate) use std::thread_local;
use std::time::{Duration, Instant};

use atomic_refcell::AtomicRefCell;
use sync_wrapper::SyncWrapper;

pub(crate) use std::sync::atomic;

pub(crate) use super::locks::{Condvar, Mutex, MutexGuard, OnceLock};

/// Rounds of [`pause`] that are worth trying before sleeping: some 5-10 us in all, which is what putting a thread
/// to sleep and waking it costs.
pub(crate) const PAUSES: u32 = 32;

/// As many for a worker without work. A client that sleeps until it has its answer, and asks again, takes that long to
/// come back where waking a thread means waking a processor: some 40 us in a virtual machine.
pub(crate) const LINGERS: u32 = 4 * PAUSES;

/// Passes a moment.
///
/// It never yields the core. On Linux 6.18 a thread that yields gives up its claim to the core until every other
/// thread there has had as much: with other work on the core, a worker that yields some times while it lingers comes
/// back tens of milliseconds later, and the task that was left to it waits for that.
pub(crate) fn pause() {
    for _ in 0..8 {
        std::hint::spin_loop();
    }
}

/// A place for a value. One thread at a time touches it, as something else says: it would panic, not wait.
pub(crate) struct Slot<T>(AtomicRefCell<SyncWrapper<Option<T>>>);

impl<T> Slot<T> {
    pub(crate) fn new(value: Option<T>) -> Self {
        Self(AtomicRefCell::new(SyncWrapper::new(value)))
    }

    #[inline]
    /// Gives what was there.
    pub(crate) fn put(&self, value: T) -> Option<T> {
        self.0.borrow_mut().get_mut().replace(value)
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        self.0.borrow_mut().get_mut().take()
    }
}

/// A pointer that readers load without a lock while a writer replaces it.
pub(crate) struct Swap<T>(arc_swap::ArcSwap<T>);

impl<T> Swap<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<std::sync::Arc<T>> {
        self.0.load()
    }

    pub(crate) fn store(&self, value: T) {
        self.0.store(std::sync::Arc::new(value));
    }
}

/// What time it is.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Parks this thread until it is unparked, for at most `time`; it may return early.
pub(crate) fn park_timeout(time: Duration) {
    thread::park_timeout(time);
}
