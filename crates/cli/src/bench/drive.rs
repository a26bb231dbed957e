//! One round: sends a seeded stream of queries to a contender and waits for the last answer.
//!
//! All contenders see the same stream in a round. Open loop, each query has an intended time and is sent at that
//! time whatever became of the others; latency counts from it. Saturated and closed loop, a number of queries
//! is kept outstanding, and latency counts from the sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use chiplet_workload::latency::LatencySummary;
use chiplet_workload::load::{self, Load};
use chiplet_workload::traffic::{Arrival, Arrivals, Change, Group, Traffic};

use super::arguments::{Arguments, Kind};
use super::contender::{Contender, Job};
use super::record::{Record, Recorder};
use super::report;
use super::shelf::Shelf;
use super::usage::Usage;

/// How queries are sent in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// This many outstanding; sent anew when a quarter of them is answered.
    Saturated(usize),
    /// This many threads, each of which waits for its answer before it sends again.
    Closed(usize),
    /// Queries per second.
    Open(f64),
}

/// What a round is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) pace: Pace,
    pub(crate) warmup: Duration,
    pub(crate) length: Duration,
    /// Draws the stream; the same for all contenders of a round.
    pub(crate) seed: u64,
    pub(crate) flip: bool,
}

/// What a round gave.
pub(crate) struct Outcome {
    /// Queries that ended within the measured time or, open loop, were due in it; times from its start.
    pub(crate) records: Vec<Record>,
    /// The measured time.
    pub(crate) length: Duration,
    /// How late queries were sent, open loop, warm-up included.
    pub(crate) lag: Option<LatencySummary>,
    pub(crate) usage: Usage,
    /// Queries sent, warm-up included.
    pub(crate) sent: u64,
    /// Per query sent, where the hardware counts; the caller's to fill in.
    pub(crate) counters: Option<report::Counters>,
}

/// How long to wait for the last answers before the contender counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one round. `tick` is called now and then, to move a progress bar.
pub(crate) fn round(
    contender: &dyn Contender,
    arguments: &Arguments,
    shelf: &Arc<Shelf>,
    plan: &Plan,
    stop: &AtomicBool,
    tick: impl FnMut(Duration),
) -> anyhow::Result<Outcome> {
    let round = Round {
        contender,
        arguments,
        shelf,
        plan,
        stop,
        began: Instant::now(),
    };
    match plan.pace {
        Pace::Open(_) => round.open(tick),
        Pace::Saturated(target) => round.saturated(target, tick),
        Pace::Closed(clients) => round.closed(clients, tick),
    }
}

/// What the three paces share.
struct Round<'a> {
    contender: &'a dyn Contender,
    arguments: &'a Arguments,
    shelf: &'a Arc<Shelf>,
    plan: &'a Plan,
    stop: &'a AtomicBool,
    began: Instant,
}

impl Round<'_> {
    fn end(&self) -> Instant {
        self.began + self.plan.warmup + self.plan.length
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn send(&self, recorder: &Arc<Recorder>, sequence: &mut u64, arrival: Arrival, from: Instant) {
        let done = recorder.expect(*sequence, arrival.table, arrival.query, from);
        *sequence += 1;
        self.contender.send(Job {
            table: arrival.table,
            query: self
                .shelf
                .query(self.arguments, arrival.table, arrival.query),
            done,
        });
    }

    fn open(&self, mut tick: impl FnMut(Duration)) -> anyhow::Result<Outcome> {
        let recorder = Recorder::new(self.shelf, self.began);
        let mut meter = Meter::new(self.began + self.plan.warmup);
        let mut sequence = 0;
        let mut ticked = self.began;
        let lasting = Load::lasting(self.plan.warmup + self.plan.length).stop_on(self.stop);
        let stream = traffic(self.arguments, self.shelf, self.plan)?.stream()?;
        let sent = load::run(stream, &lasting, |due| {
            meter.look(due.intended);
            self.send(&recorder, &mut sequence, due.arrival, due.intended);
            if due.intended > ticked + TICK {
                ticked = due.intended;
                tick(self.began.elapsed());
            }
        });
        let usage = meter.stop();
        settle(&recorder)?;
        Ok(self.outcome(recorder.take(), sequence, usage, Some(sent.lag)))
    }

    fn saturated(&self, target: usize, mut tick: impl FnMut(Duration)) -> anyhow::Result<Outcome> {
        let recorder = Recorder::new(self.shelf, self.began);
        let mut meter = Meter::new(self.began + self.plan.warmup);
        let mut stream = traffic(self.arguments, self.shelf, self.plan)?.stream()?;
        let mut sequence = 0;
        let mut ticked = self.began;
        while !self.stopped() {
            let now = Instant::now();
            if now >= self.end() {
                break;
            }
            meter.look(now);
            if now > ticked + TICK {
                ticked = now;
                tick(self.began.elapsed());
            }
            for arrival in stream
                .by_ref()
                .take(target.saturating_sub(recorder.outstanding()))
            {
                self.send(&recorder, &mut sequence, arrival, Instant::now());
            }
            let low = target - target.div_ceil(4);
            recorder.wait_for_room(low, self.end().min(now + TICK));
        }
        let usage = meter.stop();
        settle(&recorder)?;
        Ok(self.outcome(recorder.take(), sequence, usage, None))
    }

    /// A thread for each client, as the clients of a service are.
    fn closed(&self, clients: usize, mut tick: impl FnMut(Duration)) -> anyhow::Result<Outcome> {
        let left = AtomicUsize::new(clients);
        let mut meter = Meter::new(self.began + self.plan.warmup);
        let client = |client: usize| -> anyhow::Result<(Vec<Record>, u64)> {
            let plan = Plan {
                seed: self.plan.seed.wrapping_add((client as u64) << 48),
                ..*self.plan
            };
            let stream = traffic(self.arguments, self.shelf, &plan)?.stream()?;
            let recorder = Recorder::new(self.shelf, self.began);
            let mut sequence = 0;
            for arrival in stream {
                if Instant::now() >= self.end() || self.stopped() {
                    break;
                }
                self.send(&recorder, &mut sequence, arrival, Instant::now());
                settle(&recorder)?;
            }
            left.fetch_sub(1, Ordering::Release);
            Ok((recorder.take(), sequence))
        };
        let (mut records, mut sent) = (Vec::new(), 0);
        let usage = std::thread::scope(|scope| {
            let client = &client;
            let threads: Vec<_> = (0..clients)
                .map(|index| scope.spawn(move || client(index)))
                .collect();
            while left.load(Ordering::Acquire) > 0 && Instant::now() < self.end() && !self.stopped()
            {
                std::thread::sleep(TICK.min(self.end().saturating_duration_since(Instant::now())));
                meter.look(Instant::now());
                tick(self.began.elapsed());
            }
            let usage = meter.stop();
            for thread in threads {
                let (part, count) = thread.join().expect("a client does not panic")?;
                records.extend(part);
                sent += count;
            }
            anyhow::Ok(usage)
        })?;
        Ok(self.outcome(records, sent, usage, None))
    }

    /// Keeps what belongs to the measured time.
    fn outcome(
        &self,
        mut records: Vec<Record>,
        sent: u64,
        usage: Usage,
        lag: Option<LatencySummary>,
    ) -> Outcome {
        let length = self.plan.length;
        let warmup = self.plan.warmup.as_nanos() as u64;
        let last = warmup + length.as_nanos() as u64;
        let open = matches!(self.plan.pace, Pace::Open(_));
        records.retain_mut(|record| {
            // Open loop counts the queries that were due in the measured time, however late they ended: leaving out
            // those that ended after it would leave out the slowest.
            let counted = if open {
                record.ended.saturating_sub(record.latency)
            } else {
                record.ended
            };
            record.ended = record.ended.saturating_sub(warmup);
            (warmup..last).contains(&counted)
        });
        Outcome {
            records,
            length,
            lag,
            usage,
            sent,
            counters: None,
        }
    }
}

/// Waits for the last answers.
fn settle(recorder: &Recorder) -> anyhow::Result<()> {
    ensure!(
        recorder.wait_for_room(0, Instant::now() + PATIENCE),
        "{} queries were not answered within {} s",
        recorder.outstanding(),
        PATIENCE.as_secs()
    );
    Ok(())
}

/// Measures processor time from the end of the warm-up on.
struct Meter {
    from: Instant,
    before: Option<Usage>,
}

impl Meter {
    fn new(from: Instant) -> Self {
        Self { from, before: None }
    }

    fn look(&mut self, now: Instant) {
        if self.before.is_none() && now >= self.from {
            self.before = Some(Usage::now());
        }
    }

    fn stop(self) -> Usage {
        self.before
            .map_or_else(Usage::default, |before| Usage::now() - before)
    }
}

/// How often a progress bar moves.
const TICK: Duration = Duration::from_millis(100);

fn traffic(arguments: &Arguments, shelf: &Shelf, plan: &Plan) -> anyhow::Result<Traffic> {
    let rate = match plan.pace {
        Pace::Open(rate) => rate,
        // Only the order of arrivals is used.
        Pace::Saturated(_) | Pace::Closed(_) => 1.0,
    };
    let arrivals = if arguments.bursty {
        // A tenth of the time at three times the calm rate: 0.9 c + 0.1 * 3 c = rate.
        let calm_rate = rate / 1.2;
        Arrivals::Bursty {
            calm_rate,
            burst_rate: 3.0 * calm_rate,
            calm: Duration::from_millis(90),
            burst: Duration::from_millis(10),
        }
    } else {
        Arrivals::Poisson { rate }
    };
    let group = |tables: std::ops::Range<usize>, share| {
        Group::new(tables, shelf.queries.len())
            .share(share)
            .table_skew(arguments.table_skew)
            .query_skew(arguments.query_skew)
    };
    let tables = shelf.tables.len();
    let mut traffic = Traffic::new(plan.seed, arrivals);
    if arguments.kind == Kind::Mixed {
        let share = f64::from(arguments.hnsw_share);
        traffic = traffic
            .group(group(0..shelf.graphs, share))
            .group(group(shelf.graphs..tables, 100.0 - share));
    } else {
        traffic = traffic.group(group(0..tables, 1.0));
    }
    if let (Some(flip), true) = (arguments.flip, plan.flip) {
        traffic = traffic.flip(plan.warmup + flip, Change::Shuffle);
    }
    Ok(traffic)
}

/// Each table's share of the queries, before a flip.
pub(crate) fn shares(arguments: &Arguments, shelf: &Shelf) -> anyhow::Result<Vec<f64>> {
    let plan = Plan {
        pace: Pace::Open(1.0),
        warmup: Duration::ZERO,
        length: Duration::ZERO,
        seed: arguments.seed,
        flip: false,
    };
    Ok(traffic(arguments, shelf, &plan)?.table_shares(Duration::ZERO)?)
}
