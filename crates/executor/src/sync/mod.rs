//! The one door to synchronisation: everything that two threads share comes from here, and so do threads and
//! time, but for the processor's counter (`clock.rs`).
//!
//! A normal build gets std, arc-swap and atomic_refcell (`real.rs`). Under
//! `--cfg chiplet_loom` or `--cfg chiplet_shuttle` the same names stand for the checkers' counterparts (`model.rs`), so
//! that what is explored is the code that ships and not a copy of it. Nothing else in this crate may name
//! synchronisation primitives other than `Arc` and `Weak` (neither carries a protocol of ours), but for two counters of
//! the process that number executors and tables.

#[cfg(not(any(chiplet_loom, chiplet_shuttle)))]
#[cfg_attr(chiplet_tsan, path = "locks_seen.rs")]
mod locks;
#[cfg(any(chiplet_loom, chiplet_shuttle))]
mod model;
#[cfg(not(any(chiplet_loom, chiplet_shuttle)))]
mod real;
mod steps;

#[cfg(any(chiplet_loom, chiplet_shuttle))]
use model as chosen;
#[cfg(not(any(chiplet_loom, chiplet_shuttle)))]
use real as chosen;

pub(crate) use chosen::{
    Condvar, LINGERS, Mutex, MutexGuard, OnceLock, PAUSES, Slot, Swap, atomic, mpsc, now,
    park_timeout, pause, thread, thread_local,
};
#[cfg(any(chiplet_loom, chiplet_shuttle))]
pub(crate) use model::begin;
pub(crate) use steps::{Step, left_out};
