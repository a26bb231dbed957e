//! What a run is measured by.

use chiplet_policy::StealLevel;
use hdrhistogram::Histogram;

use super::hardware::Reach;
use super::rows::Row;
use crate::cache::Lines;

/// Nanoseconds of a step of the timeline.
const STEP: u64 = 100_000_000;

pub(super) struct Meter {
    /// Since the beginning of the run.
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) shed: u64,
    /// Answers in each tenth of a second.
    pub(super) timeline: Vec<u64>,
    /// Their 99th percentiles, microseconds, but for the last one's.
    pub(super) timeline_p99: Vec<f64>,
    /// Latencies of the tenth that is under way.
    tenth: Histogram<u64>,
    /// Since the warm-up.
    pub(super) began: u64,
    pub(super) shed_before: u64,
    pub(super) counted: u64,
    pub(super) latencies: Histogram<u64>,
    pub(super) waits: Histogram<u64>,
    pub(super) lines: Lines,
    pub(super) busy: Vec<u64>,
    pub(super) stalled: f64,
    pub(super) taken: [u64; 3],
    pub(super) link_bytes: Vec<f64>,
    pub(super) socket_bytes: Vec<f64>,
    pub(super) reach: [Reach; 2],
    /// Of each kind of query, where that is asked for.
    pub(super) rows: Vec<Row>,
}

impl Meter {
    pub(super) fn new(workers: usize, rows: Vec<Row>) -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
                .expect("three digits up to an hour are within bounds")
        };
        Self {
            sent: 0,
            answered: 0,
            shed: 0,
            timeline: Vec::new(),
            timeline_p99: Vec::new(),
            tenth: histogram(),
            began: 0,
            shed_before: 0,
            counted: 0,
            latencies: histogram(),
            waits: histogram(),
            lines: Lines::default(),
            busy: vec![0; workers],
            stalled: 0.0,
            taken: [0; 3],
            link_bytes: Vec::new(),
            socket_bytes: Vec::new(),
            reach: [Reach::default(); 2],
            rows,
        }
    }

    /// The warm-up is over: counts from now on.
    pub(super) fn begin(&mut self, now: u64, moved: [Vec<f64>; 2], reach: [Reach; 2]) {
        self.began = now;
        self.shed_before = self.shed;
        self.counted = 0;
        self.latencies.reset();
        self.waits.reset();
        self.lines = Lines::default();
        self.busy.fill(0);
        self.stalled = 0.0;
        self.taken = [0; 3];
        self.rows.iter_mut().for_each(Row::begin);
        [self.link_bytes, self.socket_bytes] = moved;
        self.reach = reach;
    }

    pub(super) fn answer(&mut self, now: u64, arrived: u64) {
        self.answered += 1;
        self.counted += 1;
        self.latencies.saturating_record((now - arrived).max(1));
        let step = (now / STEP) as usize;
        if self.timeline.len() <= step {
            self.end_tenth();
            self.timeline.resize(step + 1, 0);
        }
        self.timeline[step] += 1;
        self.tenth.saturating_record((now - arrived).max(1));
    }

    /// The tenth that was under way is over. Those in which nothing was answered have 0.
    pub(super) fn end_tenth(&mut self) {
        if let Some(last) = self.timeline.len().checked_sub(1) {
            self.timeline_p99.resize(last, 0.0);
            let p99 = self.tenth.value_at_quantile(0.99) as f64 / 1e3;
            self.timeline_p99.push(p99);
            self.tenth.reset();
        }
    }

    pub(super) fn wait(&mut self, nanos: u64) {
        self.waits.saturating_record(nanos.max(1));
    }

    /// A worker has read so many lines, and has waited so many nanoseconds for them.
    pub(super) fn read(&mut self, lines: Lines, waited: f64) {
        self.lines.add(lines);
        self.stalled += waited;
    }

    pub(super) fn busy(&mut self, worker: usize, nanos: u64) {
        self.busy[worker] += nanos;
    }

    pub(super) fn take(&mut self, level: StealLevel) {
        let column = match level {
            StealLevel::Own => 0,
            StealLevel::Domain => 1,
            StealLevel::Away(_) => 2,
        };
        self.taken[column] += 1;
    }
}
