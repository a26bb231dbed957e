//! The standard library's locks.

use std::sync::PoisonError;
use std::time::Instant;

pub(crate) use std::sync::{MutexGuard, OnceLock};

/// The standard library's mutex: it spins for a moment and then sleeps in the kernel. parking_lot's yields the core in
/// between, which is costly where other work wants it (see [`pause`]).
#[derive(Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // No code that may panic runs under a lock of this crate, so a poisoned one is as good as any.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable whose `wait` hands the guard back.
#[derive(Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most until `deadline`; the caller re-checks its condition either way.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.0.wait_timeout(guard, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
