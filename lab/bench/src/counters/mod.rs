//! What the processor counted: instructions, cycles, cache misses, stalls.
//!
//! 1. [`Counters::open`] before the threads under test are started: they are counted because the thread that
//!    starts them is. [`Counters::of_group`] counts a control group, which takes more rights.
//! 2. [`Counters::read`] before and after the part that matters; [`Reading::since`] is what happened between.
//!
//! | who | counts |
//! |---|---|
//! | `chiplet bench` | its own threads in user space. Searching happens there, an ordinary user may count it (`perf_event_paranoid` 2), and figures do not change with the privileges of the user |
//! | `chiplet-advisor` | a control group, the kernel's work for it included |
//!
//! A core has few counters, and the kernel's watchdog may take one of them. So events are in groups that fit, and
//! [`Counters::take_turn`] says which one counts, round by round. If the kernel still lets events take turns, each
//! count is scaled by the time that its event was to be counted over the time that it was
//! ([`perf_event_open(2)`](https://man7.org/linux/man-pages/man2/perf_event_open.2.html), `time_running`), which
//! assumes that the rest of the time was alike. [`CounterValues::coverage`] says how much of the time that is.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only Linux has anything to read")
)]

#[cfg(target_os = "linux")]
mod linux;
mod names;
#[cfg(target_os = "linux")]
mod processor;
#[cfg(target_os = "linux")]
mod wanted;

use std::collections::BTreeMap;
use std::io;

#[cfg(target_os = "linux")]
pub use linux::Counters;
pub use names::*;

/// Why there is nothing to count, or why one event cannot be.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// No such event on this processor, or none at all.
    #[error(
        "not available here: the kernel offers no such hardware event ({errno}); a virtual machine usually has none"
    )]
    NoHardware { errno: String },
    /// The system's setting forbids it.
    #[error(
        "not available here: perf_event_paranoid is {level}; it needs to be 2 or less, or give CAP_PERFMON"
    )]
    Paranoid { level: i32 },
    /// The setting allows it, and still it is forbidden.
    #[error(
        "not available here: perf_event_open is forbidden, though perf_event_paranoid allows it; a container's \
         seccomp profile may be the reason"
    )]
    Forbidden,
    /// One file is open for each event and thread.
    #[error(
        "not available here: too many open files; raise `ulimit -n`, or open the counters before the threads start"
    )]
    TooManyFiles,
    /// The threads to count have ended.
    #[error("not available here: none of the threads to count exists any more")]
    NoThreads,
    /// Another system.
    #[cfg(not(target_os = "linux"))]
    #[error("not available here: hardware counters are read through Linux's perf_event_open")]
    NotLinux,
    /// Whatever else the system said.
    #[error("not available here: perf_event_open says: {0}")]
    Other(io::Error),
}

/// Counters on other systems than Linux: there are none.
#[cfg(not(target_os = "linux"))]
pub enum Counters {}

#[cfg(not(target_os = "linux"))]
impl Counters {
    pub fn open(_threads: &[i32]) -> Result<Self, Unavailable> {
        Err(Unavailable::NotLinux)
    }

    pub fn of_group(
        _folder: &std::path::Path,
        _cpus: &std::collections::BTreeSet<u32>,
    ) -> Result<Self, Unavailable> {
        Err(Unavailable::NotLinux)
    }

    pub fn instructions_of_group(
        folder: &std::path::Path,
        cpus: &std::collections::BTreeSet<u32>,
    ) -> Result<Self, Unavailable> {
        Self::of_group(folder, cpus)
    }

    pub fn read(&mut self) -> Reading {
        match *self {}
    }

    pub fn take_turn(&mut self, _round: usize) {
        match *self {}
    }

    pub fn summary(&self) -> String {
        match *self {}
    }
}

/// One counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    count: u64,
    /// Nanoseconds for which the event was to be counted, and for which it was.
    enabled: u64,
    running: u64,
}

/// All counters at one moment. Means nothing but for its difference to an earlier one.
#[derive(Clone, Debug)]
pub struct Reading(Vec<EventReading>);

#[derive(Clone, Debug)]
struct EventReading {
    name: &'static str,
    /// What one count is worth.
    unit: f64,
    /// Another group counts now.
    rests: bool,
    /// One a thread; `None` where reading failed.
    samples: Vec<Option<Sample>>,
}

impl Reading {
    /// What was counted between `earlier`, of the same [`Counters`], and this.
    pub fn since(&self, earlier: &Self) -> CounterValues {
        let mut values = CounterValues {
            totals: BTreeMap::new(),
            coverage: 1.0,
        };
        let mut lost = Vec::new();
        for (now, before) in self.0.iter().zip(&earlier.0) {
            debug_assert_eq!(now.name, before.name, "readings of different counters");
            if now.rests {
                continue;
            }
            let Some(difference) = now.difference(before) else {
                lost.push(now.name);
                continue;
            };
            let Some(count) = difference.iter().map(Sample::scaled).sum::<Option<f64>>() else {
                // Its turn never came.
                values.coverage = 0.0;
                lost.push(now.name);
                continue;
            };
            *values.totals.entry(now.name).or_insert(0.0) += count * now.unit;
            let time = |of: fn(&Sample) -> u64| difference.iter().map(of).sum::<u64>() as f64;
            if time(|s| s.enabled) > 0.0 {
                let share = time(|s| s.running) / time(|s| s.enabled);
                values.coverage = values.coverage.min(share);
            }
        }
        // Of several events with one name, some alone are not their sum.
        for name in lost {
            values.totals.remove(name);
        }
        values
    }
}

impl EventReading {
    fn difference(&self, earlier: &Self) -> Option<Vec<Sample>> {
        let pairs = self.samples.iter().zip(&earlier.samples);
        pairs
            .map(|(now, before)| {
                let (now, before) = ((*now)?, (*before)?);
                Some(Sample {
                    count: now.count.saturating_sub(before.count),
                    enabled: now.enabled.saturating_sub(before.enabled),
                    running: now.running.saturating_sub(before.running),
                })
            })
            .collect()
    }
}

impl Sample {
    /// The count had the event been counted all the time; `None` if it never was.
    fn scaled(&self) -> Option<f64> {
        match self.running {
            // The thread did not run.
            0 if self.enabled == 0 => Some(0.0),
            0 => None,
            running => Some(self.count as f64 * (self.enabled as f64 / running as f64)),
        }
    }
}

/// Counters from a moment on.
pub struct Counting {
    counters: Counters,
    first: Reading,
}

impl Counting {
    pub fn begin(mut counters: Counters) -> Self {
        let first = counters.read();
        Self { counters, first }
    }

    /// What was counted since then.
    pub fn end(mut self) -> CounterValues {
        self.counters.read().since(&self.first)
    }
}

/// What was counted over some time, by all threads together.
#[derive(Clone, Debug)]
pub struct CounterValues {
    totals: BTreeMap<&'static str, f64>,
    coverage: f64,
}

impl CounterValues {
    /// Made up, for tests: all of it was counted all the time.
    pub fn made_of(totals: &[(&'static str, f64)]) -> Self {
        Self {
            totals: totals.iter().copied().collect(),
            coverage: 1.0,
        }
    }

    /// The event's count, `None` if it is not counted here.
    pub fn total(&self, name: &str) -> Option<f64> {
        self.totals.get(name).copied()
    }

    /// Share of the time for which the least counted event was counted: 1 if nothing had to be scaled.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// Cycles in which nothing went on because of memory.
    ///
    /// AMD: slots that the back end held up, as cycles, times the part of cycles without retiring in which the oldest
    /// operation was a load (`backend_bound_memory` in Linux, `tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json`).
    pub fn stalled_on_memory(&self) -> Option<f64> {
        self.total(STALLED_ON_MEMORY).or_else(|| {
            let part =
                self.total(UNRETIRED_LOADS)? / self.total(UNRETIRED).filter(|&all| all > 0.0)?;
            Some(self.total(STALLED)? * part.min(1.0))
        })
    }

    /// Lines from memory of the core's own node, and of others.
    pub fn fills(&self) -> Option<(f64, f64)> {
        self.total(NEAR_FILLS).zip(self.total(FAR_FILLS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &'static str, samples: &[(u64, u64, u64)]) -> EventReading {
        let sample = |&(count, enabled, running)| {
            Some(Sample {
                count,
                enabled,
                running,
            })
        };
        EventReading {
            name,
            unit: 1.0,
            rests: false,
            samples: samples.iter().map(sample).collect(),
        }
    }

    fn between(before: EventReading, now: EventReading) -> CounterValues {
        Reading(vec![now]).since(&Reading(vec![before]))
    }

    #[test]
    fn an_event_that_shares_its_counter_is_scaled_by_the_time_of_the_difference() {
        // Before, it was counted half of the time; since then a quarter of it.
        let values = between(
            reading(CYCLES, &[(1_000, 200, 100)]),
            reading(CYCLES, &[(1_050, 600, 200)]),
        );
        assert_eq!(values.total(CYCLES), Some(200.0));
        assert_eq!(values.coverage(), 0.25);
    }

    #[test]
    fn threads_add_up_and_one_that_did_not_run_adds_nothing() {
        let values = between(
            reading(CYCLES, &[(5, 10, 10), (7, 10, 10), (9, 10, 5)]),
            reading(CYCLES, &[(15, 20, 20), (27, 20, 20), (9, 10, 5)]),
        );
        assert_eq!(values.total(CYCLES), Some(30.0));
        assert_eq!(values.coverage(), 1.0);
    }

    #[test]
    fn an_event_of_a_group_that_rests_has_no_value_and_covers_all() {
        let mut resting = reading(CYCLES, &[(8, 20, 20)]);
        resting.rests = true;
        let values = between(reading(CYCLES, &[(8, 20, 20)]), resting);
        assert_eq!(values.total(CYCLES), None);
        assert_eq!(values.coverage(), 1.0);
    }

    #[test]
    fn an_event_whose_turn_never_came_has_no_value() {
        let values = between(
            reading(CYCLES, &[(0, 10, 0), (0, 10, 10)]),
            reading(CYCLES, &[(0, 20, 0), (8, 20, 20)]),
        );
        assert_eq!(values.total(CYCLES), None);
        assert_eq!(values.coverage(), 0.0);
        let mut failed = reading(CYCLES, &[(1, 20, 20)]);
        failed.samples[0] = None;
        let values = between(reading(CYCLES, &[(0, 10, 10)]), failed);
        assert_eq!(values.total(CYCLES), None);
    }

    #[test]
    fn events_of_one_name_add_up_and_without_one_of_them_there_is_no_sum() {
        let reading = |samples: [(u64, u64, u64); 2]| {
            Reading(samples.map(|sample| reading(MEMORY, &[sample])).into())
        };
        let before = reading([(1, 10, 10), (2, 10, 10)]);
        let values = reading([(4, 20, 20), (9, 20, 20)]).since(&before);
        assert_eq!(values.total(MEMORY), Some(10.0));
        let values = reading([(4, 20, 20), (9, 20, 10)]).since(&before);
        assert_eq!(values.total(MEMORY), None);
    }

    #[test]
    fn stalls_on_memory_are_counted_or_a_part_of_all_stalls() {
        let intel = CounterValues::made_of(&[(CYCLES, 100.0), (STALLED_ON_MEMORY, 30.0)]);
        assert_eq!(intel.stalled_on_memory(), Some(30.0));
        let amd = |unretired, loads| {
            let totals = [
                (STALLED, 40.0),
                (UNRETIRED, unretired),
                (UNRETIRED_LOADS, loads),
            ];
            CounterValues::made_of(&totals).stalled_on_memory()
        };
        assert_eq!(amd(60.0, 45.0), Some(30.0));
        assert_eq!(amd(0.0, 0.0), None);
        assert_eq!(
            amd(10.0, 11.0),
            Some(40.0),
            "two counters that were read at different times"
        );
        let one = CounterValues::made_of(&[(STALLED, 40.0), (NEAR_FILLS, 3.0)]);
        assert_eq!((one.stalled_on_memory(), one.fills()), (None, None));
    }

    #[test]
    fn reasons_name_the_value_and_the_way_out() {
        let paranoid = Unavailable::Paranoid { level: 4 }.to_string();
        assert!(
            paranoid.contains("is 4") && paranoid.contains("2 or less"),
            "{paranoid}"
        );
        let none = Unavailable::NoHardware {
            errno: "ENOENT".into(),
        };
        let none = none.to_string();
        assert!(
            none.starts_with("not available here") && none.contains("ENOENT"),
            "{none}"
        );
    }
}
