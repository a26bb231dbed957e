//! Cores that nobody is known to need, on which threads may wait awake.
//!
//! A thread that waits for an answer stays awake for a moment, because waking it takes longer than a short task. It
//! keeps its core from all others meanwhile. A core is free for that where a worker sleeps, or where the process may
//! use more processors than there are workers.
//!
//! These counts are hints. Whoever reads an old one stays awake, or sleeps, a moment too early or too late. So they are
//! plain atomics, which the model checkers do not explore.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::local::SpinBudget;
use crate::sync::{PAUSES, pause};

/// How many such cores there are.
#[derive(Debug, Default)]
pub(crate) struct FreeCores {
    /// Processors that the process may use besides one for each worker.
    others: usize,
    /// Workers that sleep, or are about to.
    asleep: AtomicUsize,
    /// Threads that wait awake for an answer.
    taken: AtomicUsize,
}

impl FreeCores {
    pub(super) fn new(processors: usize, workers: usize) -> Self {
        Self {
            others: processors.saturating_sub(workers),
            asleep: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    /// Of a group's workers so many sleep now, and so many did `before`.
    pub(super) fn note_asleep(&self, before: usize, now: usize) {
        self.asleep
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Waits for a moment until a task has `ended`: short ones have before this thread would be asleep. Not without a
    /// free core: it would take one from the worker that is to answer.
    pub(crate) fn wait_awake(&self, ended: impl Fn() -> bool) {
        thread_local! {
            static SPIN_BUDGET: Cell<SpinBudget> = Cell::default();
        }
        if ended() {
            return;
        }
        let mut budget = SPIN_BUDGET.get();
        if self.taken.load(Ordering::Relaxed) < self.count() && budget.tries() {
            self.taken.fetch_add(1, Ordering::Relaxed);
            let came = (0..PAUSES).any(|_| {
                pause();
                ended()
            });
            self.taken.fetch_sub(1, Ordering::Relaxed);
            budget.note(came);
        }
        SPIN_BUDGET.set(budget);
    }

    /// How many there are, those that are taken among them.
    pub(super) fn count(&self) -> usize {
        self.others + self.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use super::*;

    /// How often a wait looks at a task that ends with look `at`, the first look being 0.
    fn looks(cores: &FreeCores, at: u32) -> u32 {
        let looks = Cell::new(0);
        cores.wait_awake(|| looks.replace(looks.get() + 1) == at);
        looks.get()
    }

    #[test]
    fn as_many_may_wait_awake_as_workers_sleep_and_processors_are_left_over() {
        let cores = FreeCores::new(5, 4);
        assert_eq!(cores.count(), 1);
        cores.note_asleep(0, 2);
        assert_eq!(cores.count(), 3);
        cores.note_asleep(2, 1);
        assert_eq!(cores.count(), 2);
        assert_eq!(FreeCores::new(1, 4).count(), 0);
    }

    #[test]
    fn a_thread_that_waits_awake_takes_the_core_that_it_waits_on() {
        let cores = FreeCores::new(1, 0);
        let (waits, of_another) = (Cell::new(false), Cell::new(0));
        cores.wait_awake(|| {
            if waits.replace(true) {
                of_another.set(looks(&cores, 5));
            }
            of_another.get() > 0
        });
        assert_eq!(of_another.get(), 1);
        assert_eq!(looks(&cores, 5), 6);
    }

    #[test]
    fn a_wait_in_vain_has_as_many_left_out_as_were_in_vain_in_a_row() {
        let cores = FreeCores::new(1, 0);
        for _ in 0..2 {
            for in_vain in 1..=20 {
                assert_eq!(looks(&cores, u32::MAX), 1 + PAUSES);
                // An answer that is there is no wait.
                assert_eq!(looks(&cores, 0), 1);
                for _ in 0..in_vain.min(8) {
                    assert_eq!(looks(&cores, 5), 1);
                }
            }
            // One that is not in vain ends that, and three have as many in vain forgiven.
            for came in [5, 5, 5, u32::MAX, u32::MAX, u32::MAX] {
                assert_eq!(looks(&cores, came), 1 + came.min(PAUSES));
            }
        }
        assert_eq!(cores.count(), 1);
    }

    #[test]
    fn without_a_free_core_nobody_waits_awake() {
        let cores = FreeCores::new(2, 2);
        assert_eq!(looks(&cores, 5), 1);
        cores.note_asleep(0, 1);
        assert_eq!(looks(&cores, 5), 6);
    }
}
