//! Which executor the current thread works for, if any.

use std::cell::Cell;

use crate::sync::thread_local;

thread_local! {
    #[allow(
        clippy::missing_const_for_thread_local,
        reason = "loom's macro has no such form"
    )]
    static EXECUTOR: Cell<Option<u64>> = Cell::new(None);
}

/// Marks this thread as a worker of executor `id`.
pub(crate) fn enter(id: u64) {
    EXECUTOR.with(|executor| executor.set(Some(id)));
}

/// The executor whose worker this thread is.
pub(crate) fn executor() -> Option<u64> {
    EXECUTOR.with(Cell::get)
}
