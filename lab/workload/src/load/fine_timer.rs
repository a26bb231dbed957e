//! A thread's sleeps made finer while it sends a load.
//!
//! Linux batches timers: a sleeping thread is woken up to 50 us late by default. [`FineTimer`] asks for 1 ns
//! instead (`PR_SET_TIMERSLACK`, prctl(2)) and restores the old value when dropped. It does nothing on other
//! systems, or where that is refused; the lag in the report tells.

/// While it lives, the thread that made it wakes as soon as the timer fires.
pub(super) struct FineTimer {
    #[cfg(target_os = "linux")]
    before: Option<std::num::NonZeroU64>,
}

#[cfg(target_os = "linux")]
impl FineTimer {
    pub(super) fn new() -> Self {
        use rustix::thread::{current_timer_slack, set_current_timer_slack};
        let before = current_timer_slack()
            .ok()
            .and_then(std::num::NonZeroU64::new);
        if before.is_some() {
            let _ = set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        }
        Self { before }
    }
}

#[cfg(target_os = "linux")]
impl Drop for FineTimer {
    fn drop(&mut self) {
        if self.before.is_some() {
            let _ = rustix::thread::set_current_timer_slack(self.before);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl FineTimer {
    pub(super) fn new() -> Self {
        Self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::current_timer_slack;

    #[test]
    fn the_timer_slack_is_as_before_once_it_is_dropped() {
        let before = current_timer_slack().unwrap();
        let timer = FineTimer::new();
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(timer);
        assert_eq!(current_timer_slack().unwrap(), before);
    }
}
