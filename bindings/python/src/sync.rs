//! Locks of Rust's own.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is kept behind locks here is whole after each statement, so a panic leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
