//! What a run is measured by.

use chiplet_policy::Rung;
use hdrhistogram::Histogram;

use super::Engine;
use super::memory::{Memory, Pipe};
use super::rows::Row;
use crate::cache::Lines;
use crate::outcome::{Outcome, Percentiles};

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
    timeline_p99: Vec<f64>,
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
            rows,
        }
    }

    /// The warm-up is over: counts from now on.
    pub(super) fn begin(&mut self, now: u64, memory: &Memory) {
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
        let bytes = |pipes: &[Pipe]| pipes.iter().map(|pipe| pipe.bytes).collect();
        self.link_bytes = bytes(&memory.links);
        self.socket_bytes = bytes(&memory.sockets);
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
    fn end_tenth(&mut self) {
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

    pub(super) fn read(&mut self, lines: Lines) {
        self.lines.add(lines);
    }

    pub(super) fn busy(&mut self, worker: usize, nanos: u64) {
        self.busy[worker] += nanos;
    }

    pub(super) fn wait_for_memory(&mut self, nanos: f64) {
        self.stalled += nanos;
    }

    pub(super) fn take(&mut self, rung: Rung) {
        self.taken[rung as usize] += 1;
    }
}

impl Engine<'_> {
    pub(super) fn outcome(mut self) -> Outcome {
        self.meter.end_tenth();
        let meter = &self.meter;
        let nanos = (self.now - meter.began).max(1) as f64;
        let queries = meter.counted.max(1) as f64;
        let busy: u64 = meter.busy.iter().sum();
        let Lines { l3, memory, .. } = meter.lines;
        let taken: u64 = meter.taken.iter().sum();
        let usage = |pipes: &[Pipe], before: &[f64], gbs: f64| {
            let pipes = pipes.iter().enumerate();
            let bytes = pipes.map(|(at, pipe)| pipe.bytes - before.get(at).unwrap_or(&0.0));
            bytes.map(|bytes| bytes / nanos / gbs).collect()
        };
        let (tenants, tables) = self.served();
        let costs = &self.scenario.machine.costs;
        let homes = self.homes.iter().map(|homes| {
            let homes = homes.iter().map(|home| (home.domain.0, home.share()));
            homes.collect()
        });
        Outcome {
            strategy: self.scenario.strategy.name.to_owned(),
            machine: self.scenario.machine.name.clone(),
            domains: self.domains.len(),
            workers: self.workers.len(),
            sent: meter.sent,
            answered: meter.answered,
            shed: meter.shed - meter.shed_before,
            seconds: nanos / 1e9,
            counted: meter.counted,
            qps: meter.counted as f64 / nanos * 1e9,
            latency_us: Percentiles::of(&meter.latencies),
            wait_us: Percentiles::of(&meter.waits),
            utilisation: busy as f64 / nanos / self.workers.len() as f64,
            stall_share: meter.stalled / (busy as f64).max(1.0),
            l3_miss_ratio: match l3 + memory > 0.0 {
                true => memory / (l3 + memory),
                false => 0.0,
            },
            l3_misses_per_query: memory / queries,
            memory_bytes_per_query: 64.0 * memory / queries,
            links: usage(&self.memory.links, &meter.link_bytes, costs.link_gbs),
            sockets: usage(&self.memory.sockets, &meter.socket_bytes, costs.socket_gbs),
            taken: meter.taken,
            crossing_share: meter.taken[2] as f64 / taken.max(1) as f64,
            remaps: self.balancer.remaps,
            placement: homes.collect(),
            tenants,
            tables,
            timeline: self.meter.timeline,
            timeline_p99_us: self.meter.timeline_p99,
        }
    }
}
