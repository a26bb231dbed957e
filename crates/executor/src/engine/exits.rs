//! Which workers have not ended yet; shutdown waits for them here.

use std::sync::Arc;
use std::time::Instant;

use super::timer::Timer;
use crate::sync::{Condvar, Mutex, Step, left_out, now};

/// Counts workers out; shutdown waits for them here. The last one stops the timer: not before, as a task that outlives
/// the shutdown still has its deadline.
pub(crate) struct Exits {
    left: Mutex<usize>,
    changed: Condvar,
    timer: Arc<Timer>,
}

impl Exits {
    pub(super) fn new(workers: usize, timer: Arc<Timer>) -> Self {
        Self {
            left: Mutex::new(workers),
            changed: Condvar::new(),
            timer,
        }
    }

    /// Counts one more in. The caller is a worker, so not all have left.
    pub(super) fn enter(&self) {
        *self.left.lock() += 1;
    }

    /// Counts one worker out when the guard goes.
    pub(crate) fn leave_on_drop(&self) -> impl Drop + '_ {
        struct Leaves<'a>(&'a Exits);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                let left = {
                    let mut left = self.0.left.lock();
                    *left -= 1;
                    *left
                };
                self.0.changed.notify_all();
                if left == 0 && !left_out(Step::LastStopsTimer) {
                    self.0.timer.stop();
                }
            }
        }
        Leaves(self)
    }

    /// Waits until all workers but `but` have left, at most until `deadline`. Returns how many have not.
    pub(crate) fn wait_until(&self, deadline: Instant, but: usize) -> usize {
        let mut left = self.left.lock();
        while *left > but && now() < deadline {
            left = self.changed.wait_until(left, deadline);
        }
        *left
    }
}
