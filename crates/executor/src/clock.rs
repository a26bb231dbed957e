//! The system's time as decisions see it.
//!
//! Three readings a task are worth reading the processor's counter itself ([`quanta`]), where the system counts by that
//! too: it has then found that the counter runs evenly and alike on all cores. Elsewhere, and in a model, time is the
//! system's clock. The two may drift apart by some millionths, so moments of one are never compared with the other's:
//! a deadline, which callers give by the system's clock, becomes a time from now.

use std::time::Instant;

use chiplet_policy::Time;

use crate::sync::{Counter, now};

/// Counts from when the executor was built.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    began: Instant,
    counter: Option<Counter>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            counter: Counter::start(),
            began: now(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        match &self.counter {
            Some(counter) => Time::from_nanos(counter.passed()),
            None => self.by_system(now()),
        }
    }

    /// The moment `at` of the system's clock, if it is `now`. The end of all time stands for what is later.
    pub(crate) fn time(&self, at: Instant, now: Time) -> Time {
        match &self.counter {
            Some(_) => now + at.saturating_duration_since(crate::sync::now()),
            None => self.by_system(at),
        }
    }

    fn by_system(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.began)
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// However long this thread is held up between two lines.
    #[test]
    fn whichever_it_counts_by_as_much_time_passes_as_by_the_systems_clock() {
        let mut clocks = vec![Clock::start(), Clock::start()];
        clocks[1].counter = None;
        for clock in clocks {
            let readings = || (now(), clock.now(), now());
            let (before, first, after) = readings();
            while after.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let (before_last, last, after_last) = readings();
            let passed = last.since(first);
            assert!(passed <= (after_last - before).mul_f64(1.01), "{passed:?}");
            assert!(passed >= (before_last - after).mul_f64(0.99), "{passed:?}");
        }
    }

    #[test]
    fn a_deadline_is_as_far_away_as_the_systems_clock_says() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let mut clocks = vec![Clock::start(), Clock::start()];
        clocks[1].counter = None;
        for clock in clocks {
            let before = now();
            let read = clock.now();
            let left = clock.time(before + HOUR, read).since(read);
            assert!(left <= HOUR.mul_f64(1.01), "{left:?}");
            assert!(left + before.elapsed() >= HOUR.mul_f64(0.99), "{left:?}");
            assert_eq!(clock.time(before, read).since(read), Duration::ZERO);
        }
    }
}
