//! What is known of the current thread: which executor it works for, if any, and its number.

use std::cell::Cell;

use crate::sync::thread_local;

/// A plain static and not one of `crate::sync`: it outlives every executor, and nothing waits for it.
static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

thread_local! {
    /// The executor whose worker it is, and whether another thread takes tasks in its place.
    #[allow(
        clippy::missing_const_for_thread_local,
        reason = "loom's macro has no such form"
    )]
    static WORKS: Cell<(Option<u64>, bool)> = Cell::new((None, false));
    static NUMBER: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Marks this thread as a worker of executor `id`.
pub(crate) fn enter(id: u64) {
    WORKS.with(|works| works.set((Some(id), false)));
}

/// The executor whose worker this thread is.
pub(crate) fn executor() -> Option<u64> {
    WORKS.with(Cell::get).0
}

/// Says whether another thread takes tasks in this worker's place.
pub(crate) fn set_covered(covered: bool) {
    WORKS.with(|works| works.set((works.get().0, covered)));
}

/// Whether another thread takes tasks in this worker's place: then it may wait for one of them.
pub(crate) fn is_covered() -> bool {
    WORKS.with(Cell::get).1
}

/// A number of this thread; the threads of a process count up from 0.
pub(crate) fn number() -> usize {
    NUMBER.with(|number| *number)
}
