//! Processor time: of the whole process, and of the thread that asks.

use std::ops::Sub;
use std::time::{Duration, Instant};

/// Wall and processor time, at an instant or between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    wall: Duration,
    process: Duration,
    thread: Duration,
}

impl Usage {
    /// Since some fixed point in the past; subtract two of one thread.
    pub(crate) fn now() -> Self {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        Self {
            wall: START.get_or_init(Instant::now).elapsed(),
            process: clock(rustix::time::ClockId::ProcessCPUTime),
            thread: clock(rustix::time::ClockId::ThreadCPUTime),
        }
    }

    /// Cores that the process kept busy.
    pub(crate) fn process_cores(&self) -> f64 {
        self.share(self.process)
    }

    /// Of those, the asking thread.
    pub(crate) fn thread_cores(&self) -> f64 {
        self.share(self.thread)
    }

    fn share(&self, busy: Duration) -> f64 {
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 {
            busy.as_secs_f64() / wall
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
            process: self.process.saturating_sub(before.process),
            thread: self.thread.saturating_sub(before.thread),
        }
    }
}

fn clock(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
