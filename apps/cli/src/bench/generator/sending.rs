//! What one sender does in a round, by the pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use chiplet_bench::workload::load::{self, Load};
use chiplet_bench::workload::traffic::Arrival;

use super::super::pools::{Done, Job};
use super::super::recorder::Client;
use super::super::usage::Usage;
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
        // Each sender draws its own part alone: drawing the whole stream would bound all of them together by what one
        // can draw, however many there are.
        let (part, parts) = (self.index as u64, self.round.senders as u64);
        let stream = self.round.traffic.part(part, parts)?;
        let lag_p99_us = match plan.pace {
            Pace::Open(_) => Some(self.open(stream)),
            Pace::Saturated { outstanding, .. } => {
                self.saturated(stream, outstanding);
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
            recorder, tables, ..
        } = *self.round;
        let done = recorder.expect(self.sequence, arrival.table, arrival.query, from, client);
        self.sequence += 1;
        self.round.pool.send(Job {
            table: arrival.table,
            query: tables.query(arrival.table, arrival.query),
            done: Done::Noted(done),
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
        let mut refill = Refill::new(target);
        while !self.round.stopped() {
            let now = Instant::now();
            let end = self.round.end();
            if now >= end {
                break;
            }
            self.look(now);
            let look = refill.look(self.round.recorder.outstanding());
            for arrival in stream.by_ref().take(look.send.div_ceil(self.round.senders)) {
                self.send(arrival, Instant::now(), None);
            }
            if let Some(pause) = look.pause {
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

/// Keeps a number of queries outstanding: how many to send at a look, and how long to sleep until the next one, so that
/// about a quarter of them is answered meanwhile. The pool does not wake the sender: that would be one more thing that
/// each answer has to look at.
struct Refill {
    target: usize,
    pause: Duration,
}

/// What follows from one look at what is outstanding.
#[derive(Debug, PartialEq)]
struct Look {
    send: usize,
    /// `None`: look again at once.
    pause: Option<Duration>,
}

impl Refill {
    const LEAST: Duration = Duration::from_micros(20);
    /// A pool that stands still has the sender look this rarely. When it goes on, it may run dry for as long.
    const MOST: Duration = Duration::from_millis(2);

    fn new(target: usize) -> Self {
        Self {
            target,
            pause: Duration::from_micros(100),
        }
    }

    fn look(&mut self, outstanding: usize) -> Look {
        let answered = self.target.saturating_sub(outstanding);
        if answered == self.target {
            // The pool ran dry, or answers faster than queries can be sent. How long it was dry is not known, so the
            // pause is found anew from the shortest. Kept as it was, it would be too long again the next time.
            self.pause = Self::LEAST;
            return Look {
                send: answered,
                pause: None,
            };
        }
        let change = self.target as f64 / 4.0 / answered.max(1) as f64;
        let next = self.pause.mul_f64(change.clamp(0.5, 2.0));
        self.pause = next.clamp(Self::LEAST, Self::MOST);
        Look {
            send: answered,
            pause: Some(self.pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_shrink_towards_a_quarter_answered_and_stay_within_their_bounds() {
        let mut refill = Refill::new(400);
        let mut pause = |outstanding| refill.look(outstanding).pause.unwrap();
        assert_eq!(pause(300), Duration::from_micros(100));
        assert_eq!(pause(350), Duration::from_micros(200));
        assert_eq!(pause(10), Duration::from_micros(100));
        for _ in 0..100 {
            pause(400);
        }
        assert_eq!(pause(400), Refill::MOST);
        for _ in 0..100 {
            pause(1);
        }
        assert_eq!(pause(1), Refill::LEAST);
    }

    /// Looks at a pool that answers `each` one query, sending one taking 200 ns; gives the queries that were answered
    /// in `time`, and the pool's idle time.
    fn kept_busy(refill: &mut Refill, each: Duration, time: Duration) -> (usize, Duration) {
        let (mut now, mut outstanding, mut answered) = (Duration::ZERO, 0, 0);
        let mut idle = Duration::ZERO;
        let mut pass = |outstanding: &mut usize, lasts: Duration| {
            let done = (lasts.as_nanos() / each.as_nanos()) as usize;
            idle += each * done.saturating_sub(*outstanding) as u32;
            answered += done.min(*outstanding);
            *outstanding -= done.min(*outstanding);
        };
        while now < time {
            let look = refill.look(outstanding);
            outstanding += look.send;
            let lasts =
                Duration::from_nanos(200) * look.send as u32 + look.pause.unwrap_or_default();
            pass(&mut outstanding, lasts.max(Duration::from_micros(1)));
            now += lasts.max(Duration::from_micros(1));
        }
        (answered, idle)
    }

    #[test]
    fn a_sender_that_slept_too_long_finds_its_pace_again() {
        let mut refill = Refill::new(512);
        // The pool stood still: nothing was answered for long.
        for _ in 0..20 {
            refill.look(512);
        }
        assert_eq!(refill.pause, Refill::MOST);
        // It goes on with a query each 4 us, so it is dry at the next look.
        let second = Duration::from_secs(1);
        let (answered, idle) = kept_busy(&mut refill, Duration::from_micros(4), second);
        assert!(idle < second / 100, "idle for {idle:?}");
        assert!(answered > 245_000, "{answered} of 250,000 answered");
    }

    #[test]
    fn a_pool_that_answers_at_once_is_asked_again_at_once() {
        let mut refill = Refill::new(1_024);
        for _ in 0..10 {
            let look = refill.look(0);
            assert_eq!((look.send, look.pause), (1_024, None));
        }
    }
}
