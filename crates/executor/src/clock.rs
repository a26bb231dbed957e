//! The system's time as decisions see it.
//!
//! Two readings a task are worth reading the processor's counter itself ([`quanta`]), where the system counts by that
//! too: it has then found that the counter runs evenly and alike on all cores. Elsewhere, and in a model, time is the
//! system's clock. The two may drift apart by some millionths, so moments of one are never compared with the other's:
//! deadlines, which callers give by the system's clock, are looked at by that. A queue gets what was left at the submit.

use std::time::Instant;

use chiplet_policy::Time;

use crate::sync::now;

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

    fn by_system(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.began)
    }
}

/// The processor's counter of time, where the system itself counts by it.
#[derive(Clone, Debug)]
struct Counter {
    counter: quanta::Clock,
    began: u64,
}

impl Counter {
    /// The first one of a process finds out how fast it counts, mostly in a millisecond. There is none in a model,
    /// where all time is [`now`]'s.
    fn start() -> Option<Self> {
        const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        const COUNTERS: [&str; 2] = ["tsc", "arch_sys_counter"];
        if cfg!(any(chiplet_loom, chiplet_shuttle)) {
            return None;
        }
        let source = std::fs::read_to_string(SOURCE).ok()?;
        COUNTERS.contains(&source.trim()).then(|| {
            let counter = quanta::Clock::new();
            let began = counter.raw();
            Self { counter, began }
        })
    }

    /// Nanoseconds since it was started.
    #[inline]
    fn passed(&self) -> u64 {
        self.counter.delta_as_nanos(self.began, self.counter.raw())
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
}
