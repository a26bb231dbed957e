//! Cores that nobody is known to need, on which threads may wait awake.
//!
//! A thread that waits for an answer stays awake for a moment, because waking it takes longer than a short task. It keeps
//! its core from all others meanwhile. A core is free for that where a worker sleeps, or where the process may use more
//! processors than there are workers.
//!
//! These counts are hints. Whoever reads an old one stays awake, or sleeps, a moment too early or too late. So they are
//! plain atomics, which the model checkers do not explore.

use std::sync::atomic::{AtomicUsize, Ordering};

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

/// One of them, taken by a thread that waits awake.
pub(crate) struct Claim<'a>(&'a FreeCores);

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

    /// A core to wait on until the claim is dropped, if one is left.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let free = self.others + self.asleep.load(Ordering::Relaxed);
        (self.taken.load(Ordering::Relaxed) < free).then(|| {
            self.taken.fetch_add(1, Ordering::Relaxed);
            Claim(self)
        })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_wait_awake_as_workers_sleep_and_processors_are_left_over() {
        let cores = FreeCores::new(5, 4);
        let first = cores.claim();
        assert!(first.is_some());
        assert!(cores.claim().is_none());
        cores.note_asleep(0, 2);
        let (second, third) = (cores.claim(), cores.claim());
        assert!(second.is_some() && third.is_some() && cores.claim().is_none());
        drop(first);
        cores.note_asleep(2, 1);
        assert!(cores.claim().is_none());
        drop((second, third));
        assert!(cores.claim().is_some());
    }

    #[test]
    fn fewer_processors_than_workers_leave_none() {
        let cores = FreeCores::new(1, 4);
        assert!(cores.claim().is_none());
        cores.note_asleep(0, 1);
        assert!(cores.claim().is_some());
    }
}
