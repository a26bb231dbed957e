//! Processor time, of the whole process or of one thread.

use std::ops::Sub;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

/// Wall and processor time, at an instant or between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    wall: Duration,
    processor: Duration,
}

impl Usage {
    /// Of the process, since some fixed point in the past.
    pub(crate) fn of_process() -> Self {
        Self::by(ClockId::ProcessCPUTime)
    }

    /// Of the calling thread, since some fixed point in the past.
    pub(crate) fn of_thread() -> Self {
        Self::by(ClockId::ThreadCPUTime)
    }

    fn by(clock: ClockId) -> Self {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let time = rustix::time::clock_gettime(clock);
        Self {
            wall: START.get_or_init(Instant::now).elapsed(),
            processor: Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        }
    }

    /// Processor time.
    pub(crate) fn processor(&self) -> Duration {
        self.processor
    }

    /// Cores that were kept busy.
    pub(crate) fn cores(&self) -> f64 {
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 {
            self.processor.as_secs_f64() / wall
        } else {
            0.0
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            wall: self.wall.saturating_sub(before.wall),
            processor: self.processor.saturating_sub(before.processor),
        }
    }
}
