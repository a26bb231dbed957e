//! Time by the processor.

/// The processor's counter of time, where the system itself counts by it.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    counter: quanta::Clock,
    began: u64,
}

impl Counter {
    /// The first one of a process finds out how fast it counts, mostly in a millisecond. There is none in a model,
    /// where all time is [`now`](super::now)'s.
    pub(crate) fn start() -> Option<Self> {
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
    pub(crate) fn passed(&self) -> u64 {
        self.counter.delta_as_nanos(self.began, self.counter.raw())
    }
}
