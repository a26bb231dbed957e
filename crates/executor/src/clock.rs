//! The system's time as decisions see it.

use std::time::Instant;

use chiplet_policy::Time;

use crate::sync::now;

/// Counts from when the executor was built. What came before counts as if it came then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: now() }
    }

    pub(crate) fn now(self) -> Time {
        self.time(now())
    }

    /// The end of all time stands for what is later.
    pub(crate) fn time(self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.began)
    }
}
