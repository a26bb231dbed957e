//! The load generator: one round sends a seeded stream of queries to a pool and notes how each ended.
//!
//! All pools see the same streams in a round. Open loop, each query has an intended time and is sent at that time
//! however the others ended; latency counts from it. Saturated and closed loop, a number of queries is kept
//! outstanding, and latency counts from the sending.
//!
//! Each of n senders draws a part of the traffic by itself ([`Traffic::part`]), which has a share 1/n of the rate; the
//! parts together are the traffic. The thread that calls only watches: it says when the measured time begins and ends.

mod senders;
mod sending;
mod starved;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use chiplet_bench::workload::traffic::Traffic;
use parking_lot::Mutex;

use super::arguments::Arguments;
use super::pools::Pool;
use super::recorder::{Record, Recorder};
use super::tables::Tables;
use super::usage::Usage;
use sending::Sender;

pub(crate) use senders::{Senders, apart};
pub(crate) use traffic::shares;

/// How queries are sent in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// So many outstanding that each of the pool's workers has one; sent anew when about a quarter of them is answered.
    Saturated { outstanding: usize, workers: usize },
    /// Each sender waits for its answer before it sends again.
    Closed,
    /// Queries per second.
    Open(f64),
}

/// What a round is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) pace: Pace,
    pub(crate) warmup: Duration,
    pub(crate) length: Duration,
    /// Draws the stream; the same for all pools of a round.
    pub(crate) seed: u64,
    pub(crate) flip: bool,
}

/// What a round gave.
pub(crate) struct Outcome {
    /// Queries that ended within the measured time or, open loop, were due in it; times from its start.
    pub(crate) records: Vec<Record>,
    /// The measured time.
    pub(crate) length: Duration,
    /// Processor time of the whole process in the measured time.
    pub(crate) usage: Usage,
    /// Of the senders together, in cores.
    pub(crate) sender_cores: f64,
    /// Share of the time for which the busiest of the senders was at work.
    pub(crate) busiest_sender: f64,
    /// How late queries were sent, open loop, in microseconds: p99 of the sender that was latest, warm-up included.
    pub(crate) lag_p99_us: Option<f64>,
    /// Queries sent in the measured time.
    pub(crate) sent: u64,
    /// Share of the workers' time for which they were idle for want of queries; 0 where the pace wants them idle.
    pub(crate) starved: f64,
}

/// What the calling thread is told while a round runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    /// The warm-up is over.
    Begins,
    /// Some time of the round is gone.
    Gone(Duration),
    /// The measured time is over.
    Ends,
}

/// How long to wait for the last answers before the pool counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the calling thread is told of time gone.
const TICK: Duration = Duration::from_millis(100);

/// Runs one round. `tell` is called on this thread.
pub(crate) fn round(
    pool: &dyn Pool,
    senders: &Senders,
    recorder: &'static Recorder,
    (arguments, tables): (&Arguments, &'static Tables),
    plan: &Plan,
    stop: &AtomicBool,
    mut tell: impl FnMut(Moment),
) -> anyhow::Result<Outcome> {
    let traffic = traffic::traffic(arguments, tables, plan)?;
    let round = Round {
        pool,
        recorder,
        tables,
        traffic: &traffic,
        plan,
        stop,
        senders: senders.count(),
        began: Instant::now(),
    };
    let sent = Mutex::new(Vec::new());
    let usage = senders.run(
        |index| {
            let result = Sender::new(&round, index).run();
            sent.lock().push(result);
        },
        || round.watch(&mut tell),
    );
    let sent: Vec<sending::Sent> = sent
        .into_inner()
        .into_iter()
        .collect::<anyhow::Result<_>>()?;
    ensure!(
        recorder.settle(Instant::now() + PATIENCE),
        "{} queries were not answered within {} s",
        recorder.outstanding(),
        PATIENCE.as_secs()
    );
    Ok(round.outcome(recorder.take(), &sent, usage))
}

/// What the senders share.
struct Round<'a> {
    pool: &'a dyn Pool,
    recorder: &'static Recorder,
    tables: &'static Tables,
    traffic: &'a Traffic,
    plan: &'a Plan,
    stop: &'a AtomicBool,
    senders: usize,
    began: Instant,
}

impl Round<'_> {
    fn measured_from(&self) -> Instant {
        self.began + self.plan.warmup
    }

    fn end(&self) -> Instant {
        self.measured_from() + self.plan.length
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps through the round, tells how it goes, and measures the process.
    fn watch(&self, tell: &mut impl FnMut(Moment)) -> Usage {
        self.sleep_until(self.measured_from(), tell);
        let before = Usage::of_process();
        tell(Moment::Begins);
        self.sleep_until(self.end(), tell);
        let usage = Usage::of_process() - before;
        tell(Moment::Ends);
        usage
    }

    fn sleep_until(&self, until: Instant, tell: &mut impl FnMut(Moment)) {
        while !self.stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
            tell(Moment::Gone(self.began.elapsed()));
        }
    }

    /// Keeps what belongs to the measured time.
    fn outcome(&self, mut records: Vec<Record>, sent: &[sending::Sent], usage: Usage) -> Outcome {
        let began = self.recorder.nanos_at(self.began);
        let first = began + self.plan.warmup.as_nanos() as u64;
        let last = first + self.plan.length.as_nanos() as u64;
        let open = matches!(self.plan.pace, Pace::Open(_));
        let starved = match self.plan.pace {
            Pace::Saturated { workers, .. } => {
                let queries = records
                    .iter()
                    .map(|record| (record.ended.saturating_sub(record.latency), record.ended));
                starved::share(queries, (first, last), workers)
            }
            Pace::Closed | Pace::Open(_) => 0.0,
        };
        records.retain_mut(|record| {
            // Open loop counts the queries that were due in the measured time, however late they ended: leaving out
            // those that ended after it would leave out the slowest.
            let counted = if open {
                record.ended.saturating_sub(record.latency)
            } else {
                record.ended
            };
            record.ended = record.ended.saturating_sub(first);
            (first..last).contains(&counted)
        });
        let busy = || sent.iter().map(|sender| sender.usage.cores());
        let lags = sent.iter().filter_map(|sender| sender.lag_p99_us);
        Outcome {
            records,
            length: self.plan.length,
            usage,
            sender_cores: busy().sum(),
            busiest_sender: busy().fold(0.0, f64::max),
            lag_p99_us: lags.reduce(f64::max),
            sent: sent.iter().map(|sender| sender.measured).sum(),
            starved,
        }
    }
}

/// Queries a second that the senders can make and note with a pool that answers at once, over `time`.
pub(crate) fn limit(
    senders: &Senders,
    recorder: &'static Recorder,
    (arguments, tables): (&Arguments, &'static Tables),
    time: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<f64> {
    let plan = Plan {
        pace: Pace::Saturated {
            outstanding: 1_024,
            workers: 0,
        },
        warmup: Duration::ZERO,
        length: time,
        seed: arguments.seed,
        flip: false,
    };
    let round = round(
        &AnswersAtOnce,
        senders,
        recorder,
        (arguments, tables),
        &plan,
        stop,
        |_| (),
    )?;
    Ok(round.sent as f64 / time.as_secs_f64())
}

/// A pool that does nothing.
struct AnswersAtOnce;

impl Pool for AnswersAtOnce {
    fn send(&self, job: super::pools::Job) {
        job.done.finish(Some(&[]));
    }
}
