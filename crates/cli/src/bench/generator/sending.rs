//! What one sender does in a round, by the pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use chiplet_workload::load::{self, Load};
use chiplet_workload::traffic::Arrival;

use super::super::pools::Job;
use super::super::usage::Usage;
use super::recorder::Client;
use super::{PATIENCE, Pace, Round};

/// What one sender did.
pub(super) struct Sent {
    /// Queries sent in the measured time.
    pub(super) measured: u64,
    /// The thread's processor time in the measured time.
    pub(super) usage: Usage,
    pub(super) lag_p99_us: Option<f64>,
}

/// One sender in one round.
pub(super) struct Sender<'a> {
    round: &'a Round<'a>,
    index: usize,
    sequence: u64,
    /// Processor time and queries sent when the warm-up was over.
    before: Option<(Usage, u64)>,
}

impl<'a> Sender<'a> {
    pub(super) fn new(round: &'a Round<'a>, index: usize) -> Self {
        Self {
            round,
            index,
            sequence: 0,
            before: None,
        }
    }

    pub(super) fn run(mut self) -> anyhow::Result<Sent> {
        let plan = self.round.plan;
        // Each sender draws the whole stream and takes its part: what is sent does not depend on their number.
        let stream = self.round.traffic.stream()?;
        let stream = stream.skip(self.index).step_by(self.round.senders);
        let lag_p99_us = match plan.pace {
            Pace::Open(_) => Some(self.open(stream)),
            Pace::Saturated(target) => {
                self.saturated(stream, target);
                None
            }
            Pace::Closed => {
                self.closed(stream)?;
                None
            }
        };
        let (before, sent) = self
            .before
            .unwrap_or_else(|| (Usage::of_thread(), self.sequence));
        Ok(Sent {
            measured: self.sequence - sent,
            usage: Usage::of_thread() - before,
            lag_p99_us,
        })
    }

    /// To be called before a query that is due at `now`.
    fn look(&mut self, now: Instant) {
        if self.before.is_none() && now >= self.round.measured_from() {
            self.before = Some((Usage::of_thread(), self.sequence));
        }
    }

    fn send(&mut self, arrival: Arrival, from: Instant, client: Option<&Arc<Client>>) {
        let Round {
            recorder,
            arguments,
            tables,
            ..
        } = *self.round;
        let done = recorder.expect(self.sequence, arrival.table, arrival.query, from, client);
        self.sequence += 1;
        self.round.pool.send(Job {
            table: arrival.table,
            query: tables.query(arguments, arrival.table, arrival.query),
            done,
        });
    }

    /// The p99 of how late queries were sent, in microseconds.
    fn open(&mut self, stream: impl Iterator<Item = Arrival>) -> f64 {
        let plan = self.round.plan;
        let lasting = Load::lasting(plan.warmup + plan.length).stop_on(self.round.stop);
        let sent = load::run(stream, &lasting, |due| {
            self.look(due.intended);
            self.send(due.arrival, due.intended, None);
        });
        sent.lag.p99
    }

    fn saturated(&mut self, mut stream: impl Iterator<Item = Arrival>, target: usize) {
        let mut pause = Pause::new(target.div_ceil(4));
        while !self.round.stopped() {
            let now = Instant::now();
            let end = self.round.end();
            if now >= end {
                break;
            }
            self.look(now);
            let answered = target.saturating_sub(self.round.recorder.outstanding());
            for arrival in stream.by_ref().take(answered.div_ceil(self.round.senders)) {
                self.send(arrival, Instant::now(), None);
            }
            // With nothing outstanding the pool was idle, or answers faster than queries can be sent.
            if answered < target {
                let pause = pause.after(answered);
                std::thread::sleep(pause.min(end.saturating_duration_since(now)));
            }
        }
    }

    fn closed(&mut self, stream: impl Iterator<Item = Arrival>) -> anyhow::Result<()> {
        let client = Client::new();
        for arrival in stream {
            let now = Instant::now();
            if now >= self.round.end() || self.round.stopped() {
                break;
            }
            self.look(now);
            self.send(arrival, now, Some(&client));
            ensure!(
                client.wait(now + PATIENCE),
                "a query was not answered within {} s",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }
}

/// How long a sender sleeps between two looks, so that about a quarter of what is outstanding is answered meanwhile.
/// The pool does not wake it: that would be one more thing that each answer has to look at.
struct Pause {
    wanted: usize,
    now: Duration,
}

impl Pause {
    const LEAST: Duration = Duration::from_micros(20);
    const MOST: Duration = Duration::from_millis(20);

    fn new(wanted: usize) -> Self {
        Self {
            wanted,
            now: Duration::from_micros(100),
        }
    }

    /// The next pause, `answered` queries having been answered in the last.
    fn after(&mut self, answered: usize) -> Duration {
        let change = self.wanted as f64 / answered.max(1) as f64;
        let next = self.now.mul_f64(change.clamp(0.5, 2.0));
        self.now = next.clamp(Self::LEAST, Self::MOST);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_shrink_towards_a_quarter_answered_and_stay_within_their_bounds() {
        let mut pause = Pause::new(100);
        assert_eq!(pause.after(100), Duration::from_micros(100));
        assert_eq!(pause.after(50), Duration::from_micros(200));
        assert_eq!(pause.after(1_000), Duration::from_micros(100));
        for _ in 0..100 {
            pause.after(0);
        }
        assert_eq!(pause.now, Pause::MOST);
        for _ in 0..100 {
            pause.after(1_000_000);
        }
        assert_eq!(pause.now, Pause::LEAST);
    }
}
