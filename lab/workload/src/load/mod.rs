//! The open-loop driver: sends each query at its intended time, however the ones before ended.
//!
//! A closed loop (send, wait, send the next) slows down together with the system it measures, and so leaves
//! out the very queries that would have waited longest: coordinated omission. Here intended times are fixed
//! beforehand:
//!
//! 1. No arrival is dropped and no intended time is moved. Behind schedule, the driver sends at once, one
//!    after the other, until it has caught up.
//! 2. Every send gets its intended time along ([`Due::intended`]); latencies count from there.
//! 3. How far behind the driver ran is in the report ([`LoadReport::lag`]). That lag is part of every
//!    latency measured, so a run whose lag rivals its latencies measured the driver. Send from more threads,
//!    or make sending cheaper.
//!
//! The closure must therefore only *submit* and return. The driver runs on the calling thread and needs no
//! executor.

mod fine_timer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::latency::{LatencyRecorder, LatencySummary};
use crate::traffic::Arrival;

use fine_timer::FineTimer;

/// A wait is cut in pieces of this length to look at the stop flag: short against a person's patience, long
/// against the cost of waking up.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// How to run a load.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    duration: Duration,
    stop: Option<&'a AtomicBool>,
    late_after: Duration,
    yield_for: Duration,
}

impl<'a> Load<'a> {
    /// Sends every arrival intended before `duration`.
    #[must_use]
    pub fn lasting(duration: Duration) -> Self {
        Self {
            duration,
            stop: None,
            late_after: Duration::from_millis(1),
            yield_for: Duration::ZERO,
        }
    }

    /// Also ends soon after `flag` becomes true, as from a Ctrl-C handler.
    #[must_use]
    pub fn stop_on(mut self, flag: &'a AtomicBool) -> Self {
        self.stop = Some(flag);
        self
    }

    /// From which lag on a send counts as late; 1 ms unless told.
    #[must_use]
    pub fn late_after(mut self, lag: Duration) -> Self {
        self.late_after = lag;
        self
    }

    /// Spends up to this much of each wait's end yielding the core instead of asleep; none unless told.
    ///
    /// On an idle core a sleeping thread wakes some 40 us late on Linux, more elsewhere; yielding for 60 us
    /// removes nearly all of that, at the price of that much time of the core for each send. Use it only
    /// where a core is free for the driver: where all are busy, a thread that yields gets its turn later
    /// than one that slept.
    #[must_use]
    pub fn yield_for(mut self, time: Duration) -> Self {
        self.yield_for = time;
        self
    }
}

/// An arrival whose time has come.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// What to send.
    pub arrival: Arrival,
    /// When it should be sent: the run's start plus [`Arrival::at`]. Latency counts from here.
    pub intended: Instant,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that was intended within the duration was sent.
    Duration,
    /// The stop flag was set.
    Stopped,
    /// There were no more arrivals.
    Exhausted,
}

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Arrivals handed to the closure.
    pub sent: u64,
    /// Those sent later than [`Load::late_after`] behind their time.
    pub late: u64,
    /// How far behind their time arrivals were sent, in microseconds.
    pub lag: LatencySummary,
    /// Time from start to the end of the run.
    pub elapsed: Duration,
    /// Why it ended.
    pub end: End,
}

/// Walks `arrivals` in real time and calls `send` for each at its intended time.
///
/// Ends when the duration is over, the stop flag is set, or there are no more arrivals; what is intended
/// within the duration is sent even if that takes longer. Arrivals must be in order of time; one that is
/// not is sent as soon as it is met.
///
/// # Panics
/// If an arrival within the duration lies further ahead than an [`Instant`] can, which takes centuries.
///
/// ```
/// use chiplet_workload::load::{self, End, Load};
/// use chiplet_workload::traffic::{Arrivals, Group, Traffic};
/// use std::time::Duration;
///
/// let traffic = Traffic::new(1, Arrivals::Steady { rate: 1_000.0 }).group(Group::new(0..1, 10));
/// let mut sent = 0;
/// let report = load::run(traffic.stream()?, &Load::lasting(Duration::from_millis(10)), |_due| sent += 1);
/// assert_eq!((report.sent, report.end), (sent, End::Duration));
/// # Ok::<(), chiplet_workload::traffic::TrafficError>(())
/// ```
pub fn run(
    arrivals: impl IntoIterator<Item = Arrival>,
    load: &Load<'_>,
    send: impl FnMut(Due),
) -> LoadReport {
    let _fine = FineTimer::new();
    run_on(&RealClock, arrivals, load, send)
}

fn run_on(
    clock: &impl Clock,
    arrivals: impl IntoIterator<Item = Arrival>,
    load: &Load<'_>,
    mut send: impl FnMut(Due),
) -> LoadReport {
    let start = clock.now();
    let lags = LatencyRecorder::new();
    let lag = lags.handle();
    let (mut sent, mut late) = (0, 0);
    let mut arrivals = arrivals.into_iter();
    let end = loop {
        let next = arrivals.next();
        // A run that has sent all of its arrivals still lasts only as long as they do; one whose next
        // arrival is past the end waits for the end, so that rates may be computed from `elapsed`.
        let until = next.map_or(Duration::ZERO, |arrival| arrival.at.min(load.duration));
        if !wait(clock, start + until, load) {
            break End::Stopped;
        }
        let Some(arrival) = next else {
            break End::Exhausted;
        };
        if arrival.at >= load.duration {
            break End::Duration;
        }
        let intended = start + arrival.at;
        let behind = clock.now().saturating_duration_since(intended);
        lag.record(behind);
        sent += 1;
        late += u64::from(behind > load.late_after);
        send(Due { arrival, intended });
    };
    LoadReport {
        sent,
        late,
        lag: lags.summary(),
        elapsed: clock.now() - start,
        end,
    }
}

/// Waits until `until` has come; false if the stop flag was set before.
fn wait(clock: &impl Clock, until: Instant, load: &Load<'_>) -> bool {
    loop {
        // Relaxed: the flag guards no data, and a read that misses it is repeated soon.
        if load.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return false;
        }
        let left = until.saturating_duration_since(clock.now());
        if left.is_zero() {
            return true;
        }
        match left
            .checked_sub(load.yield_for)
            .filter(|asleep| !asleep.is_zero())
        {
            Some(asleep) => clock.sleep(asleep.min(STOP_CHECK)),
            None => clock.give_way(),
        }
    }
}

/// What time is, so that tests can say.
trait Clock {
    fn now(&self) -> Instant;
    fn sleep(&self, time: Duration);
    fn give_way(&self);
}

struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn give_way(&self) {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MS: Duration = Duration::from_millis(1);

    /// Time that passes only where somebody sleeps, gives way, or says so.
    struct TestClock {
        start: Instant,
        passed: Cell<Duration>,
    }

    impl TestClock {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                passed: Cell::new(Duration::ZERO),
            }
        }

        fn pass(&self, time: Duration) {
            self.passed.set(self.passed.get() + time);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Instant {
            self.start + self.passed.get()
        }

        fn sleep(&self, time: Duration) {
            self.pass(time);
        }

        fn give_way(&self) {
            self.pass(Duration::from_micros(1));
        }
    }

    fn every(gap: Duration) -> impl Iterator<Item = Arrival> {
        (1..).map(move |n| Arrival {
            at: gap * n,
            table: 0,
            query: n as usize,
        })
    }

    #[test]
    fn each_arrival_is_sent_at_its_time_when_sending_is_quick() {
        let clock = TestClock::new();
        let mut sent = Vec::new();
        let report = run_on(&clock, every(10 * MS), &Load::lasting(95 * MS), |due| {
            sent.push((clock.now(), due.intended));
        });
        assert_eq!(
            (report.sent, report.late, report.end),
            (9, 0, End::Duration)
        );
        assert_eq!(report.elapsed, 95 * MS);
        for (index, (at, intended)) in sent.into_iter().enumerate() {
            assert_eq!(intended, clock.start + 10 * MS * (index as u32 + 1));
            assert_eq!(at, intended);
        }
    }

    #[test]
    fn a_stall_moves_no_intended_time_and_drops_nothing() {
        let clock = TestClock::new();
        let mut intended = Vec::new();
        let report = run_on(&clock, every(10 * MS), &Load::lasting(105 * MS), |due| {
            intended.push(due.intended - clock.start);
            if due.arrival.query == 2 {
                clock.pass(45 * MS);
            }
        });
        assert_eq!(intended, (1..=10).map(|n| 10 * MS * n).collect::<Vec<_>>());
        // Sent at 65 ms instead of 30, 40, 50 and 60; the one due at 70 is on time again.
        assert_eq!((report.sent, report.late), (10, 4));
        assert!(
            (report.lag.max - 35_000.0).abs() <= 35.0,
            "{:?}",
            report.lag
        );
    }

    #[test]
    fn what_is_intended_in_time_is_sent_even_after_the_end() {
        let clock = TestClock::new();
        let report = run_on(&clock, every(10 * MS), &Load::lasting(50 * MS), |_| {
            clock.pass(100 * MS)
        });
        assert_eq!((report.sent, report.end), (4, End::Duration));
        assert_eq!(report.elapsed, 410 * MS);
    }

    #[test]
    fn yielding_at_the_end_of_a_wait_is_as_punctual() {
        let clock = TestClock::new();
        let load = Load::lasting(25 * MS).yield_for(Duration::from_micros(60));
        let report = run_on(&clock, every(10 * MS), &load, |due| {
            assert_eq!(clock.now(), due.intended)
        });
        assert_eq!(report.sent, 2);
    }

    #[test]
    fn the_stop_flag_ends_the_run_before_the_next_send() {
        let stop = AtomicBool::new(false);
        let load = Load::lasting(Duration::from_secs(60)).stop_on(&stop);
        let report = run_on(&TestClock::new(), every(MS), &load, |due| {
            stop.store(due.arrival.query == 5, Ordering::Relaxed);
        });
        assert_eq!((report.sent, report.end), (5, End::Stopped));
    }

    #[test]
    fn the_stop_flag_ends_a_long_wait() {
        let stop = AtomicBool::new(false);
        let load = Load::lasting(Duration::MAX).stop_on(&stop);
        let report = thread::scope(|scope| {
            scope.spawn(|| stop.store(true, Ordering::Relaxed));
            run(every(Duration::from_secs(3600)), &load, |_| {})
        });
        assert_eq!((report.sent, report.end), (0, End::Stopped));
    }

    #[test]
    fn a_finite_stream_ends_the_run() {
        let arrivals = every(MS).take(3);
        let report = run_on(&TestClock::new(), arrivals, &Load::lasting(60 * MS), |_| {});
        assert_eq!((report.sent, report.end), (3, End::Exhausted));
        assert_eq!(report.elapsed, 3 * MS);
    }
}
