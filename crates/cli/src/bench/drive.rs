//! One round: sends a seeded stream of queries to a contender and waits for the last answer.
//!
//! All contenders see the same stream in a round. Open loop, each query has an intended time and is sent at that
//! time whatever became of the others; latency counts from it. Saturated and closed loop, a number of queries
//! is kept outstanding, and latency counts from the sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use chiplet_workload::latency::LatencySummary;
use chiplet_workload::load::{self, Load};
use chiplet_workload::traffic::{Arrivals, Change, Group, Traffic};

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
    /// This many outstanding; sent anew at every answer.
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
    mut tick: impl FnMut(Duration),
) -> anyhow::Result<Outcome> {
    let stream = traffic(arguments, shelf, plan)?.stream()?;
    let recorder = Recorder::new(shelf);
    let end = plan.warmup + plan.length;
    let until = recorder.began + end;
    let mut sequence = 0;
    let mut send = |table: usize, query: usize, from: Instant| {
        let done = recorder.expect(sequence, table, query, from);
        sequence += 1;
        contender.send(Job {
            table,
            query: shelf.query(arguments, table, query),
            done,
        });
    };
    let mut usage = Usage::default();
    let mut measuring = None;
    let mut at_start = |now: Instant| {
        if measuring.is_none() && now >= recorder.began + plan.warmup {
            measuring = Some(Usage::now());
        }
    };
    let mut lag = None;
    match plan.pace {
        Pace::Open(_) => {
            let mut ticked = Instant::now();
            let sent = load::run(stream, &Load::lasting(end).stop_on(stop), |due| {
                at_start(due.intended);
                send(due.arrival.table, due.arrival.query, due.intended);
                if due.intended > ticked + TICK {
                    ticked = due.intended;
                    tick(recorder.began.elapsed());
                }
            });
            lag = Some(sent.lag);
        }
        Pace::Saturated(target) | Pace::Closed(target) => {
            let low = match plan.pace {
                Pace::Saturated(_) => target - target.div_ceil(4),
                _ => target - 1,
            };
            let mut ticked = Instant::now();
            let mut stream = stream;
            while !stop.load(Ordering::Relaxed) {
                let now = Instant::now();
                if now >= until {
                    break;
                }
                at_start(now);
                if now > ticked + TICK {
                    ticked = now;
                    tick(recorder.began.elapsed());
                }
                for _ in recorder.outstanding()..target {
                    let Some(arrival) = stream.next() else { break };
                    send(arrival.table, arrival.query, Instant::now());
                }
                recorder.wait_for_room(low, until.min(now + TICK));
            }
        }
    }
    if let Some(before) = measuring {
        usage = Usage::now() - before;
    }
    ensure!(
        recorder.wait_for_room(0, Instant::now() + PATIENCE),
        "{} queries were not answered within {} s of the round's end",
        recorder.outstanding(),
        PATIENCE.as_secs()
    );
    let length = plan.length;
    let warmup = plan.warmup.as_nanos() as u64;
    let last = warmup + length.as_nanos() as u64;
    let open = matches!(plan.pace, Pace::Open(_));
    let mut records = recorder.take();
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
    Ok(Outcome {
        records,
        length,
        lag,
        usage,
        sent: sequence,
        counters: None,
    })
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
        traffic = traffic.flip(plan.warmup + flip, Change::Reverse);
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
