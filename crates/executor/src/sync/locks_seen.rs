//! Locks for ThreadSanitizer: parking_lot's and once_cell's are compiled with this crate, so it sees what they order.
//! It does not see into the standard library's, which come compiled, and would report everything that they protect.

use std::time::Instant;

pub(crate) use once_cell::sync::OnceCell as OnceLock;
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    pub(crate) fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        self.0.wait_until(&mut guard, deadline);
        guard
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
