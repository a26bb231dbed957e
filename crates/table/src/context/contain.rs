//! Where a panic of the caller's code must not go on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the caller's code where a panic must not reach the thread: a destructor, a waker. The panic is logged.
#[inline]
pub fn contain(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        log(payload);
    }
}

#[cold]
fn log(payload: Box<dyn Any + Send>) {
    // A payload is the caller's too, and its destructor may panic in turn; then it is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    tracing::error!("a waker or an answer's destructor panicked; the thread goes on");
}
